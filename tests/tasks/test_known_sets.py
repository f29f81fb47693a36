"""Published sets, read from files that are written here in each set's own layout. Nothing comes from the hub."""

import csv
import json
import random
import sys

import pytest

from headcount.core.errors import HeadcountError
from headcount.tasks.known_sets import KNOWN_SETS, is_known_set, read_known_set

PLACES = ["drawer", "garden shed", "kitchen", "library", "harbour", "attic", "bakery", "station"]


def commonsense_record(n):
    texts = [f"{place} {n}" for place in PLACES[:5]]
    return {
        "id": f"id{n}",
        "question": f"Where would someone keep spoon number {n}?",
        "question_concept": "spoon",
        "choices": {"label": ["A", "B", "C", "D", "E"], "text": texts},
        "answerKey": "C",
    }


def gsm8k_record(n):
    return {
        "question": f"Ida has {n} pears and buys 2 more. How many has she?",
        "answer": f"She has {n} + 2 = <<{n}+2={n + 2}>>{n + 2} pears.\n#### {n + 2}",
    }


def bigbench_record(question, answer, choices=()):
    return {
        "idx": 0,
        "inputs": f"\nQ: {question}\nA: ",
        "targets": [answer],
        "multiple_choice_targets": list(choices),
        "multiple_choice_scores": [int(choice == answer) for choice in choices],
    }


def blimp_record(n):
    return {"sentence_good": f"The {n} girls in town sing well.", "sentence_bad": f"The {n} girls in town sings well."}


def write_jsonl(path, records):
    path.write_text("\n".join(json.dumps(record) for record in records))
    return path


def read(name, seed=0):
    return read_known_set(name, random.Random(seed))


def test_a_name_may_carry_a_place():
    assert set(KNOWN_SETS) == {"commonsense-qa", "gsm8k", "bigbench-syntax", "blimp"}
    assert is_known_set("gsm8k")
    assert is_known_set("gsm8k:some/file.jsonl")
    assert is_known_set("blimp:wh_island")
    assert not is_known_set("ioi")
    with pytest.raises(HeadcountError, match="no known set 'gsm9k'. Did you mean 'gsm8k'"):
        read("gsm9k")


class TestItems:
    def test_commonsense_qa_letters_its_shuffled_options_after_one_worked_example(self, tmp_path):
        path = write_jsonl(tmp_path / "dev.jsonl", [commonsense_record(n) for n in range(10, 40)])
        train, test = read(f"commonsense-qa:{path}")
        rights = set()
        for item in train + test:
            example, own = item.prompt.split("\nQuestion: ")
            question, *options, last = own.split("\n")
            number = question.split()[-1].rstrip("?")
            assert example.startswith("Question: Where would")
            assert last == "Answer:"
            assert sorted(line[3:] for line in options) == sorted(f"{place} {number}" for place in PLACES[:5])
            assert item.choices == (" A", " B", " C", " D", " E")
            assert f"{item.target.strip()}. kitchen {number}" in options
            rights.add(item.target)
        assert rights == set(item.choices)

    def test_gsm8k_has_the_worked_solution_without_calculator_marks(self, tmp_path):
        path = write_jsonl(tmp_path / "test.jsonl", [gsm8k_record(n) for n in (5, 7, 100, 200)])
        train, test = read(f"gsm8k:{path}")
        (item,) = [item for item in train + test if "100" in item.target]
        example, own = item.prompt.split("\nProblem: ")
        assert example.startswith("Problem: Ida has ")
        assert example.endswith(" pears.\nThe answer is 7.") or example.endswith(" pears.\nThe answer is 9.")
        assert own == "Ida has 100 pears and buys 2 more. How many has she?\nSolution:"
        assert item.target == " She has 100 + 2 = 102 pears.\nThe answer is 102."
        assert item.choices == ()

    def test_bigbench_shows_an_example_of_the_same_subtask(self, tmp_path):
        words = ["dog", "cat", "bird", "goat", "horse", "lamb", "snail", "whale"]
        records = [bigbench_record(f"The {word} can swim.", f"Can the {word} swim?") for word in words]
        records += [bigbench_record(f"The {word} can swim.", f"The {word} can not swim.") for word in words]
        records += [bigbench_record(f"one {word}, two", f"{word}s") for word in words]
        train, test = read(f"bigbench-syntax:{write_jsonl(tmp_path / 'x.jsonl', records)}")
        assert len(train) + len(test) == 24 - 6
        for item in train + test:
            example = item.prompt.split("\nQ: ")[0]
            assert item.prompt.endswith("\nA:")
            assert example.endswith("?") == item.target.endswith("?")
            assert ("not" in example) == ("not" in item.target)

    def test_bigbench_choices_and_scores_give_choices_and_target(self, tmp_path):
        choices = ["is", "are", "be"]
        records = [bigbench_record(f"The keys to shed {n} __ old.", "are", choices) for n in range(4)]
        train, test = read(f"bigbench-syntax:{write_jsonl(tmp_path / 'x.jsonl', records)}")
        assert {item.target for item in train + test} == {" are"}
        assert train[0].choices == (" is", " are", " be")

    def test_bigbench_leaves_german_out(self, tmp_path):
        records = [bigbench_record(f"one {word}, two", f"{word}s") for word in ("dog", "cat", "goat", "bird")]
        records += [bigbench_record(f"Heute spiele ich {n}. Gestern", f"spielte ich {n}") for n in range(8)]
        train, test = read(f"bigbench-syntax:{write_jsonl(tmp_path / 'x.jsonl', records)}")
        assert (len(train), len(test)) == (1, 1)
        assert not [item for item in train + test if "Gestern" in item.prompt]

    def test_blimp_keeps_what_both_sentences_begin_with_as_the_prompt(self, tmp_path):
        other = {"sentence_good": "Who left?", "sentence_bad": "Whom left?"}
        train, test = read(f"blimp:{write_jsonl(tmp_path / 'x.jsonl', [blimp_record('tall'), other])}")
        by_prompt = {item.prompt: item for item in train + test}
        assert by_prompt["The tall girls in town"].target == " sing well."
        assert by_prompt["The tall girls in town"].choices == (" sing well.", " sings well.")
        assert by_prompt[""].target == "Who left?"
        assert by_prompt[""].choices == ("Who left?", "Whom left?")

    def test_blimp_leaves_a_word_where_one_sentence_begins_the_other(self, tmp_path):
        records = [{"sentence_good": f"{name} eats", "sentence_bad": f"{name} eats bread"} for name in ("Ann", "Bo")]
        train, _ = read(f"blimp:{write_jsonl(tmp_path / 'x.jsonl', records)}")
        assert train[0].prompt in ("Ann", "Bo")
        assert train[0].choices == (" eats", " eats bread")


class TestSides:
    def test_one_file_is_shared_out_evenly_and_the_seed_decides_how(self, tmp_path):
        name = f"blimp:{write_jsonl(tmp_path / 'x.jsonl', [blimp_record(n) for n in range(20)])}"
        train, test = read(name)
        assert (len(train), len(test)) == (10, 10)
        assert not set(train) & set(test)
        assert read(name) == (train, test)
        assert read(name, seed=1) != (train, test)

    def test_a_record_that_comes_twice_is_one_item(self, tmp_path):
        records = [blimp_record(n) for n in range(4)] * 3
        train, test = read(f"blimp:{write_jsonl(tmp_path / 'x.jsonl', records)}")
        assert len({*train, *test}) == len(train) + len(test) == 4

    def test_the_examples_are_the_shortest_of_their_side_and_no_items(self, tmp_path):
        path = write_jsonl(tmp_path / "x.jsonl", [gsm8k_record(10**n) for n in range(1, 13)])
        for side in read(f"gsm8k:{path}"):
            shown = {item.prompt.split("\nProblem: ")[0] for item in side}
            asked = {item.prompt.split("\nProblem: ")[1] for item in side}
            assert len(shown) == 1
            assert len(asked) == 5
            (example,) = shown
            assert all(
                len(example) < len("Problem: " + item.prompt.split("\nProblem: ")[1] + item.target) for item in side
            )

    def test_a_saved_set_with_both_its_sides_keeps_them(self, tmp_path):
        datasets = pytest.importorskip("datasets")
        sides = {
            "train": datasets.Dataset.from_list([gsm8k_record(n) for n in range(100, 106)]),
            "test": datasets.Dataset.from_list([gsm8k_record(n) for n in range(200, 204)]),
        }
        datasets.DatasetDict(sides).save_to_disk(tmp_path / "saved")
        train, test = read(f"gsm8k:{tmp_path / 'saved'}")
        assert (len(train), len(test)) == (5, 3)
        assert all("Ida has 1" in item.prompt and "Ida has 2" not in item.prompt for item in train)
        assert all("Ida has 2" in item.prompt and "Ida has 1" not in item.prompt for item in test)


class TestFiles:
    def test_every_kind_of_file_gives_the_same_items(self, tmp_path):
        datasets = pytest.importorskip("datasets")
        records = [commonsense_record(n) for n in range(8)]
        table = datasets.Dataset.from_list(records)
        table.to_parquet(tmp_path / "x.parquet")
        table.save_to_disk(tmp_path / "folder")
        write_jsonl(tmp_path / "x.jsonl", records)
        (tmp_path / "x.json").write_text(json.dumps(records))
        with (tmp_path / "x.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, records[0])
            writer.writeheader()
            writer.writerows({**record, "choices": json.dumps(record["choices"])} for record in records)
        wanted = read(f"commonsense-qa:{tmp_path / 'x.jsonl'}")
        for place in ("x.json", "x.csv", "x.parquet", "folder"):
            assert read(f"commonsense-qa:{tmp_path / place}") == wanted, place

    def test_json_needs_no_extra(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "datasets", None)
        train, test = read(f"blimp:{write_jsonl(tmp_path / 'x.jsonl', [blimp_record(n) for n in range(2)])}")
        assert (len(train), len(test)) == (1, 1)


class TestErrors:
    def test_the_extra_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "datasets", None)
        with pytest.raises(HeadcountError, match=r"pip install 'headcount\[datasets\]'"):
            read("gsm8k")

    @pytest.mark.parametrize("name", ["gsm8k", "commonsense-qa", "bigbench-syntax", "blimp", "blimp:wh_island"])
    def test_the_hub_is_not_there(self, name, tmp_path, monkeypatch):
        datasets = pytest.importorskip("datasets")
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
        with pytest.raises(HeadcountError, match="hub, which cannot be read.*or give a file that you have: .*jsonl"):
            read(name)

    def test_the_hub_does_not_answer(self, tmp_path, monkeypatch):
        """`datasets` is then told to look in its cache only, for as long as the set is read."""
        datasets = pytest.importorskip("datasets")
        seen = []
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: seen.append(datasets.config.HF_HUB_OFFLINE) or [])
        with pytest.raises(HeadcountError, match="at least one train and one test item"):
            read("gsm8k")
        assert seen == [True, True]
        assert datasets.config.HF_HUB_OFFLINE is False

    def test_what_the_hub_has_is_read_by_config_and_split(self, monkeypatch):
        datasets = pytest.importorskip("datasets")
        asked = []

        def load(hub, config, split):
            asked.append((hub, config, split))
            return [gsm8k_record(n) for n in (range(3) if split == "train" else range(50, 53))]

        monkeypatch.setattr(datasets, "load_dataset", load)
        train, test = read("gsm8k")
        assert asked == [("openai/gsm8k", "main", "train"), ("openai/gsm8k", "main", "test")]
        assert (len(train), len(test)) == (2, 2)
        assert all("Ida has 5" in item.prompt for item in test)

    @pytest.mark.parametrize("place", ["nowhere.jsonl", "no/folder"])
    @pytest.mark.parametrize("name", ["gsm8k", "blimp"])
    def test_the_path_does_not_exist(self, name, place):
        with pytest.raises(HeadcountError, match=f"There is no file or folder {place}. Check the path."):
            read(f"{name}:{place}")

    @pytest.mark.parametrize("suffix", ["json", "jsonl", "parquet"])
    def test_the_file_is_broken(self, suffix, tmp_path):
        if suffix == "parquet":
            pytest.importorskip("datasets")
        path = tmp_path / f"x.{suffix}"
        path.write_text("{this is no data")
        with pytest.raises(HeadcountError, match=f"cannot be read as {suffix}: "):
            read(f"gsm8k:{path}")

    def test_the_file_is_of_another_kind(self, tmp_path):
        path = tmp_path / "x.docx"
        path.write_text("")
        with pytest.raises(HeadcountError, match=r"\.json, \.jsonl, \.csv, \.parquet or a folder"):
            read(f"gsm8k:{path}")

    def test_the_folder_is_not_a_saved_set(self, tmp_path):
        pytest.importorskip("datasets")
        with pytest.raises(HeadcountError, match="must be one that `save_to_disk` wrote"):
            read(f"gsm8k:{tmp_path}")

    def test_a_field_is_missing(self, tmp_path):
        path = write_jsonl(tmp_path / "x.jsonl", [gsm8k_record(1), {"question": "How many?", "result": "3"}])
        with pytest.raises(
            HeadcountError, match=r"record 2: the field 'answer' is missing. Fields here: question, result"
        ):
            read(f"gsm8k:{path}")

    @pytest.mark.parametrize(
        ("name", "record", "words"),
        [
            ("gsm8k", {"question": "How many?", "answer": "Three."}, "must end with a line '#### N'"),
            ("gsm8k", {"question": "How many?", "answer": 3}, "'answer' must be a str; got 3"),
            ("commonsense-qa", commonsense_record(1) | {"answerKey": ""}, "must be one of A, B, C, D, E; got ''"),
            ("commonsense-qa", commonsense_record(1) | {"choices": "A"}, "'choices' must be a mapping; got 'A'"),
            ("bigbench-syntax", {"inputs": "one dog, two", "targets": []}, "at least one answer"),
            ("blimp", {"sentence_good": "Who left?"}, "the field 'sentence_bad' is missing"),
        ],
    )
    def test_a_field_holds_something_else(self, name, record, words, tmp_path):
        with pytest.raises(HeadcountError, match=words):
            read(f"{name}:{write_jsonl(tmp_path / 'x.jsonl', [record])}")

    @pytest.mark.parametrize("records", [[], [gsm8k_record(1)]])
    def test_there_is_too_little(self, records, tmp_path):
        with pytest.raises(
            HeadcountError, match="at least one train and one test item, but of . records it gives 0 and 0"
        ):
            read(f"gsm8k:{write_jsonl(tmp_path / 'x.jsonl', records)}")
