"""The harness on a model without heads: the numbers of our own meter, on a task that is written here."""

import json
import random
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import headcount as hc
from headcount.core.export_options import CutChoice
from headcount.edit import Filler
from headcount.edit.cut import keep_mask
from headcount.export.cuts import make_cut, random_cut

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.filterwarnings("default")  # the harness and what it imports warn on their own account
WORDS = ("Mary", "John", "Tom", "James", "Dan")


@pytest.fixture
def task_file(tmp_path):
    """Seventy-two questions with choices of one token and of several."""
    rng = random.Random(0)
    records = []
    for number in range(72):
        first, second, third = rng.sample(WORDS, 3)
        choices = [first, second, f"{third} and {first}"]
        records.append({"text": f"We saw {first}, {second} and {third} in the year {1100 + number}", "choices": choices,
                        "label": rng.randrange(3)})  # fmt: skip
    for split, part in (("train", records[:36]), ("test", records[36:])):
        (tmp_path / f"{split}.json").write_text(json.dumps(part))
    files = {split: str(tmp_path / f"{split}.json") for split in ("train", "test")}
    config = {
        "task": "names", "dataset_path": "json", "training_split": "train", "test_split": "test",
        "dataset_kwargs": {"data_files": files, "cache_dir": str(tmp_path / "cache")},
        "output_type": "multiple_choice", "doc_to_text": "text", "doc_to_choice": "choices", "doc_to_target": "label",
        "metric_list": [{"metric": "acc"}],
    }  # fmt: skip
    path = tmp_path / "names.yaml"
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def model(folder):
    return hc.load(folder)


@pytest.fixture
def accuracy(model, task_file):
    """Our own meter on the test records, without some heads."""
    examples = hc.task(f"lm-eval:{task_file}", model, n=72, seed=0).test
    assert len(examples) == 36
    meter = hc.HeadMeter(model, examples, Filler.prepare(model, "zero", examples=examples, reference=examples))

    def measured(heads):
        return float(meter.measure(keep_mask(model, heads)[None])["accuracy"].mean())

    return measured


def test_the_harness_and_our_meter_agree(model, task_file, accuracy):
    from headcount.export.lm_eval import evaluate

    cut = make_cut(model, CutChoice(heads=["a0.h0", "a0.h1", "a0.h2", "a1.h0", "a2.h1", "a2.h3"]), None)
    (row,) = evaluate(cut, [str(task_file)], draws=1)
    assert (row["task"], row["metric"], row["heads"]) == ("names", "acc", 6)
    assert row["whole"] == pytest.approx(accuracy([]))
    assert row["without"] == pytest.approx(accuracy(cut.heads))
    drawn = [accuracy(random_cut(cut, seed).heads) for seed in (0,)]
    assert [row[name] for name in ("random", "random_low", "random_high")] == pytest.approx(3 * drawn)
    assert accuracy([]) == row["whole"], "the model is whole again"


def test_the_command_prints_a_table_and_keeps_it(headcount, folder, task_file, tmp_path):
    asked = (
        "--tasks",
        task_file,
        "--heads",
        "a0.h0,a2.h1",
        "--limit",
        6,
        "--draws",
        1,
        "--out",
        tmp_path / "table.json",
    )
    code, out, err = headcount("eval", folder, *asked)
    assert code == 0, err
    assert err == "", "the harness has bars, log lines and questions to git of its own"
    assert "2 of 12 heads of tiny-llama removed" in out
    (row,) = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert f"{row['without']:.3f}" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tasks", "nowhere.yaml", "--heads", "a0.h0"), "nowhere.yaml does not exist"),
        (("--tasks", "TASK"), "Say once which heads"),
        (("--tasks", "TASK", "--top", "2"), "there are none"),
        (("--tasks", "TASK", "--top", "2", "--without", "gone"), "There is no folder of results at gone"),
        (("--tasks", "TASK", "--heads", "a0.h0", "--draws", "0"), "--draws must lie between"),
    ],
)
def test_bad_input_is_one_sentence(headcount, folder, task_file, arguments, words):
    code, _, err = headcount("eval", folder, *(str(task_file) if word == "TASK" else word for word in arguments))
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_the_harness_knows_the_model_by_its_name(folder, model, task_file, accuracy):
    """Newer versions read the entry point by themselves; what it names works in all."""
    from lm_eval.api.registry import model_registry
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    from headcount.tasks.lm_eval import load_tasks

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    target = project["entry-points"]["lm_eval.models"]["headcount"]
    if "headcount" not in model_registry:
        model_registry.register("headcount", target=target)
    assert import_module(target.partition(":")[0]).HeadcountLM is model_registry.get("headcount")
    found = simple_evaluate(
        model="headcount", model_args=f"pretrained={folder},heads=a0.h0+a2.h1", tasks=load_tasks(str(task_file)),
        task_manager=TaskManager(include_defaults=False),
        bootstrap_iters=0, device="cpu", batch_size=4,
    )  # fmt: skip
    assert found["results"]["names"]["acc,none"] == pytest.approx(accuracy([(0, 0), (2, 1)]))
