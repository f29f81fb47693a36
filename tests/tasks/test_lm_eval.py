"""Tasks of lm-evaluation-harness, from task files and data that are written here."""

import json
import random
import sys
from types import SimpleNamespace

import pytest

from headcount.core.errors import HeadcountError
from headcount.tasks.lm_eval import read_lm_eval

pytest.importorskip("lm_eval")
# The harness and what it imports warn on their own account.
pytestmark = pytest.mark.filterwarnings("default")

COLOURS = [
    ("grass", "green"),
    ("snow", "white"),
    ("coal", "black"),
    ("blood", "red"),
    ("straw", "yellow"),
    ("ink", "blue"),
]


def records(numbers):
    return [
        {"thing": thing, "n": n, "colours": ["green", "white", "black", "red", "yellow", "blue"], "answer": colour}
        for n in numbers
        for thing, colour in COLOURS
    ]


@pytest.fixture
def task_file(tmp_path):
    """Writes a task file next to its data: 12 records to train on, 6 to test."""
    for split, numbers in (("train", (1, 2)), ("test", (3,))):
        (tmp_path / f"{split}.json").write_text(json.dumps(records(numbers)))

    def write(name="colours", **changes):
        files = {split: str(tmp_path / f"{split}.json") for split in ("train", "test")}
        config = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files, "cache_dir": str(tmp_path / "cache")},
            "training_split": "train",
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "{{n}}. What colour is {{thing}}?\nAnswer:",
            "doc_to_choice": "colours",
            "doc_to_target": "{{colours.index(answer)}}",
            "metric_list": [{"metric": "acc"}],
            **changes,
        }
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
        return path

    return write


FREE = {
    "output_type": "generate_until",
    "doc_to_choice": None,
    "doc_to_target": "It is {{answer}}.",
    "metric_list": [{"metric": "bypass"}],
}


def read(place, seed=0):
    return read_lm_eval(f"lm-eval:{place}", random.Random(seed))


class TestItems:
    def test_multiple_choice_gives_choices(self, task_file):
        train, test = read(task_file())
        assert (len(train), len(test)) == (12, 6)
        (snow,) = [item for item in test if "snow" in item.prompt]
        assert snow.prompt == "3. What colour is snow?\nAnswer:"
        assert snow.target == " white"
        assert snow.choices == (" green", " white", " black", " red", " yellow", " blue")

    def test_generate_until_gives_the_target_text(self, task_file):
        _, test = read(task_file(**FREE, target_delimiter="\n"))
        (snow,) = [item for item in test if "snow" in item.prompt]
        assert snow.prompt == "3. What colour is snow?\nAnswer:"
        assert snow.target == "\nIt is white."
        assert snow.choices == ()

    def test_the_first_of_several_right_answers_is_the_target(self, task_file):
        _, test = read(task_file(**{**FREE, "doc_to_target": "{{[answer, 'something else']}}"}))
        assert {item.target for item in test} == {f" {colour}" for _, colour in COLOURS}

    def test_loglikelihood_has_no_delimiter(self, task_file):
        _, test = read(task_file(**{**FREE, "output_type": "loglikelihood", "doc_to_target": " {{answer}}"}))
        assert {item.target for item in test} == {f" {colour}" for _, colour in COLOURS}

    def test_the_task_gives_its_own_description_prefix_and_worked_examples(self, task_file):
        shots = {"description": "Colours of things.\n\n", "num_fewshot": 2, "fewshot_split": "train"}
        train, test = read(task_file(**FREE, **shots, gen_prefix="I think:"))
        for item in train + test:
            first, second, own = item.prompt.removeprefix("Colours of things.\n\n").split("\n\n")
            assert ". What colour is" in first
            assert "Answer: I think: It is" in second
            assert own.endswith("?\nAnswer: I think:")
            assert own not in (first, second)
            assert item.target.startswith(" It is ")
        assert len(test) == 6

    def test_no_item_shows_its_own_answer(self, task_file):
        train, _ = read(task_file(**FREE, num_fewshot=6, fewshot_split="train"))
        assert 0 < len(train) < 12
        for item in train:
            *shown, own = item.prompt.split("\n\n")
            assert not [example for example in shown if example.startswith(own)]

    def test_records_without_an_answer_are_left_out(self, task_file):
        _, test = read(task_file(doc_to_target="{{ -1 if thing == 'ink' else 99 if thing == 'coal' else 0}}"))
        assert sorted(item.prompt.split()[4] for item in test) == ["blood?", "grass?", "snow?", "straw?"]


class TestSides:
    def test_without_a_training_split_records_are_shared_out(self, task_file):
        path = task_file(training_split=None)
        train, test = read(path)
        assert (len(train), len(test)) == (3, 3)
        assert not set(train) & set(test)

    def test_the_seed_decides(self, task_file):
        path = task_file(num_fewshot=1, fewshot_split="train")
        assert read(path) == read(path)
        assert read(path) != read(path, seed=1)

    def test_a_group_is_all_its_members(self, task_file, tmp_path):
        task_file("colours")
        task_file("tints", doc_to_text="{{n}}. What tint has {{thing}}?\nAnswer:")
        (tmp_path / "both.yaml").write_text("group: both\ntask:\n  - colours\n  - tints\n")
        train, test = read(tmp_path / "both.yaml")
        assert (len(train), len(test)) == (24, 12)
        assert len([item for item in test if "tint" in item.prompt]) == 6


class TestErrors:
    def test_the_extra_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "lm_eval.tasks", None)
        with pytest.raises(HeadcountError, match=r"pip install 'headcount\[lm-eval\]'"):
            read("arc_easy")

    def test_the_name_is_unknown(self, monkeypatch):
        """The harness' own index takes seconds to build, so three names stand for it here."""
        known = SimpleNamespace(all_tasks=["arc_easy", "arc_challenge", "gsm8k"])
        monkeypatch.setattr("lm_eval.tasks.TaskManager", lambda: known)
        with pytest.raises(HeadcountError, match="finds no task 'arc_eazy'. Did you mean 'arc_easy'.*lm-eval ls tasks"):
            read("arc_eazy")

    def test_the_file_does_not_exist(self):
        with pytest.raises(HeadcountError, match="task file nowhere.yaml does not exist"):
            read("nowhere.yaml")

    def test_the_file_is_no_task(self, tmp_path):
        (tmp_path / "x.yaml").write_text("colour: green")
        with pytest.raises(HeadcountError, match="finds no task .*x.yaml"):
            read(tmp_path / "x.yaml")

    def test_the_data_cannot_be_reached(self, task_file):
        path = task_file(dataset_path="nobody/colours", dataset_kwargs=None)
        with pytest.raises(HeadcountError, match="cannot load the task .*that its data can be reached"):
            read(path)

    def test_the_output_type_has_no_response(self, task_file):
        rolling = {"output_type": "loglikelihood_rolling", "metric_list": [{"metric": "word_perplexity"}]}
        path = task_file(**{**FREE, **rolling, "doc_to_text": "", "doc_to_target": "{{thing}}"})
        with pytest.raises(
            HeadcountError, match="generate_until or loglikelihood; 'colours' has loglikelihood_rolling"
        ):
            read(path)

    def test_the_choices_are_inside_the_prompt(self, task_file):
        path = task_file(doc_to_text="{{colours.index(answer)}}", doc_to_target="{{thing}}")
        with pytest.raises(HeadcountError, match="one text prompt a record; 'colours' has one for each choice"):
            read(path)

    def test_a_template_names_a_missing_field(self, task_file):
        path = task_file(doc_to_target="{{shade.upper()}}")
        with pytest.raises(HeadcountError, match="cannot load the task .*'shade' is undefined"):
            read(path)

    def test_no_record_of_a_side_has_an_answer(self, task_file):
        with pytest.raises(HeadcountError, match="at least one train and one test item, but it gives 0 and 6"):
            read(task_file(doc_to_target="{{0 if n == 3 else 99}}"))


class TestCode:
    """A task file may name Python code, which is not run without the user's word."""

    @pytest.fixture
    def hostile(self, task_file, tmp_path):
        (tmp_path / "own.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef shorten(doc):\n    return 'x'\n"
        )
        (tmp_path / "base.yaml").write_text("doc_to_text: !function own.shorten\n")
        return task_file()

    def test_it_is_named_and_not_run(self, hostile, tmp_path, monkeypatch):
        plain = hostile.read_text()
        for text in (plain[:-1] + ', "doc_to_text": !function own.shorten}', plain[:-1] + ', "include": "base.yaml"}'):
            hostile.write_text(text)
            with pytest.raises(HeadcountError, match=r"would be run \('!function own.shorten'\)\. .*--allow-code"):
                read(hostile)
            assert not (tmp_path / "ran").exists()
        monkeypatch.setenv("HEADCOUNT_ALLOW_CODE", "1")
        _, test = read(hostile)
        assert (tmp_path / "ran").exists()
        assert len(test) == 6

    def test_a_group_is_looked_through(self, hostile, tmp_path):
        hostile.write_text(hostile.read_text()[:-1] + ', "include": "base.yaml"}')
        (tmp_path / "both.yaml").write_text("group: both\ntask:\n  - colours\n")
        with pytest.raises(HeadcountError, match="--allow-code"):
            read(tmp_path / "both.yaml")

    def test_a_metric_that_would_be_fetched_and_run_is_refused(self, task_file):
        with pytest.raises(HeadcountError, match=r"would be run \('metric: ./mine.py'\)"):
            read(task_file(metric_list=[{"metric": "./mine.py"}]))

    def test_templates_reach_nothing_but_their_record(self, task_file, tmp_path):
        hostile = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
        with pytest.raises(HeadcountError, match="unsafe|SecurityError"):
            read(task_file(doc_to_text=hostile))
