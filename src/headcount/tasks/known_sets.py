"""Published sets by name, through the Hugging Face package `datasets` (`pip install 'headcount[datasets]'`).

    gsm8k                      the set from the hub, with the hub's own train and test sides
    gsm8k:path/to/file.jsonl   the same set from a file that you have: jsonl, json, csv or parquet
    gsm8k:path/to/folder       ... or from a folder written by `save_to_disk`
    blimp:wh_island            one part of BLiMP

As in causal head gating (Nam et al. 2025, section 6.1), one worked example stands in front of a prompt. The examples
are the shortest items of the same side and kind, and are not items themselves. BLiMP goes without.

`bigbench-syntax` is read in the layout of hails/bigbench, zero-shot: `inputs`, a list of `targets`, and the lists
`multiple_choice_targets` and `multiple_choice_scores`, empty where the answer is free. Two of its three tasks are on
the hub; subject_verb_agreement is a program in BIG-bench, so its records can only come from a file. The hub's records
do not say which subtask they are from: `_syntax_kind` tells it by their words, and leaves out German ones so.
"""

import csv
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from ..errors import HeadcountError, did_you_mean
from .completions import Item

Record = Mapping[str, Any]
Sides = tuple[list[Item], list[Item]]

MOST_EXAMPLES = 10
"""Worked examples for one side and kind; fewer where there are fewer than a hundred items."""

HUB_SECONDS = 5.0
"""How long the hub may take to answer at all. `datasets` itself would try again for a minute."""


def read_known_set(name: str, rng: random.Random) -> Sides:
    """Train and test items of a set in random order. The same state of `rng` gives the same items."""
    base, _, place = name.partition(":")
    if base not in _SETS:
        raise HeadcountError(f"There is no known set {base!r}.{did_you_mean(base, _SETS)}")
    known = _SETS[base]
    splits = _from_disk(base, Path(place)) if _is_path(base, place) else _from_hub(base, known, place)
    items = {split: _items(name, records, known, rng) for split, records in splits.items()}
    sides = _share_out(items, known, rng)
    if known.kind is not None:
        sides = _with_example(sides[0], known.kind, rng), _with_example(sides[1], known.kind, rng)
    if not (sides[0] and sides[1]):
        raise HeadcountError(
            f"The set {name} must give at least one train and one test item, but of {sum(map(len, items.values()))}"
            f" records it gives {len(sides[0])} and {len(sides[1])} (worked examples are kept out). Give more records."
        )
    return sides


def is_known_set(name: str) -> bool:
    return name.partition(":")[0] in _SETS


# What a record of each set becomes.


def _commonsense_qa(record: Record, rng: random.Random) -> Item:
    choices = _field(record, "choices", Mapping)
    labels, texts = _field(choices, "label", list), _field(choices, "text", list)
    answer = _field(record, "answerKey", str)
    if answer not in labels:
        raise HeadcountError(
            f"'answerKey' must be one of {', '.join(labels)}; this is {answer!r}. Give a split with answers."
        )
    options = list(zip(labels, texts, strict=True))
    rng.shuffle(options)
    lettered = list(zip(ascii_uppercase, options, strict=False))
    lines = [f"{letter}. {text}" for letter, (_, text) in lettered]
    right = next(letter for letter, (label, _) in lettered if label == answer)
    return Item(
        "\n".join([f"Question: {_field(record, 'question', str).strip()}", *lines, "Answer:"]),
        f" {right}",
        tuple(f" {letter}" for letter, _ in lettered),
    )


def _gsm8k(record: Record, rng: random.Random) -> Item:
    worked = re.sub(r"<<.*?>>", "", _field(record, "answer", str)).strip()
    solution, mark, number = worked.rpartition("#### ")
    if not mark:
        raise HeadcountError("'answer' must end with a line '#### N', where N is the result; this one does not.")
    return Item(
        f"Problem: {_field(record, 'question', str).strip()}\nSolution:", f" {solution}The answer is {number.strip()}."
    )


def _bigbench(record: Record, rng: random.Random) -> Item:
    targets, choices = _field(record, "targets", list), list(record.get("multiple_choice_targets") or [])
    if choices:
        scores = _field(record, "multiple_choice_scores", list)
        targets = [max(zip(scores, choices, strict=True), key=lambda pair: pair[0])[1]]
    if not targets:
        raise HeadcountError("'targets' must hold at least one answer; this is empty.")
    return Item(_field(record, "inputs", str).strip(), f" {targets[0]}", tuple(f" {choice}" for choice in choices))


def _blimp(record: Record, rng: random.Random) -> Item:
    good, bad = (_field(record, f"sentence_{side}", str).split(" ") for side in ("good", "bad"))
    same = 0
    while same < min(len(good), len(bad)) - 1 and good[same] == bad[same]:
        same += 1
    space = " " if same else ""
    rests = tuple(space + " ".join(words[same:]) for words in (good, bad))
    return Item(" ".join(good[:same]), rests[0], rests)


def _field(record: Record, key: str, wanted: type) -> Any:
    if key not in record:
        raise HeadcountError(f"the field {key!r} is missing. Fields here: {', '.join(record) or 'none'}.")
    value = record[key]
    if not isinstance(value, wanted):
        raise HeadcountError(f"{key!r} must be a {wanted.__name__.lower()}; this is {value!r}.")
    return value


def _syntax_kind(item: Item) -> str | None:
    """Which subtask an item is from, so that its worked example is from there too. None leaves the item out."""
    target = set(re.findall(r"\w+", item.target.lower()))
    words = target.union(re.findall(r"\w+", item.prompt.lower()))
    one_word = " " not in item.target.strip()
    if words & {"heute", "gestern", "ich"}:
        return None
    if item.choices:
        return "choice"
    if "tense" in words and not one_word:
        return "tense"
    if item.target.endswith("?"):
        return "question formation"
    if "not" in target:
        return "sentence negation"
    if "yesterday" in words:
        return "past tense"
    return "plural" if one_word else "pronoun replacement"


@dataclass(frozen=True)
class _Set:
    about: str
    hub: str
    configs: tuple[str, ...]
    """None given: the one the user names, or all that the hub has."""
    splits: tuple[str, ...]
    """Train and test, or one to share out."""
    item: Callable[[Record, random.Random], Item]
    kind: Callable[[Item], str | None] | None = None
    """Items of one kind have worked examples of that kind; None: this set has no worked examples."""


_SETS = {
    "commonsense-qa": _Set(
        "CommonsenseQA: questions of common sense with five lettered answers.",
        "tau/commonsense_qa",
        ("default",),
        ("train", "validation"),
        _commonsense_qa,
        lambda item: "question",
    ),
    "gsm8k": _Set(
        "GSM8K: school mathematics in words; the response is the whole worked solution.",
        "openai/gsm8k",
        ("main",),
        ("train", "test"),
        _gsm8k,
        lambda item: "problem",
    ),
    "bigbench-syntax": _Set(
        "BIG-bench tasks of English syntax: past tense, plural, pronouns, questions, negation, tense.",
        "hails/bigbench",
        ("linguistic_mappings_zero_shot", "tense_zero_shot"),
        ("train", "validation"),
        _bigbench,
        _syntax_kind,
    ),
    "blimp": _Set(
        "BLiMP: pairs of sentences, one of them grammatical; blimp:SUBSET for one of its 67 parts.",
        "nyu-mll/blimp",
        (),
        ("train",),
        _blimp,
    ),
}

KNOWN_SETS: dict[str, str] = {name: known.about for name, known in _SETS.items()}


# From records to two sides.


def _items(name: str, records: Iterable[Record], known: _Set, rng: random.Random) -> list[Item]:
    items = []
    for number, record in enumerate(records, start=1):
        try:
            items.append(known.item(record, rng))
        except HeadcountError as error:
            raise HeadcountError(f"{name}, record {number}: {error}") from error
    return [item for item in items if known.kind is None or known.kind(item) is not None]


def _share_out(items: dict[str, list[Item]], known: _Set, rng: random.Random) -> Sides:
    """The set's own two sides where it has them, else all at random 1:1; an item that comes twice is kept once."""
    if len(known.splits) == 2 and items.keys() >= set(known.splits):
        train, test = (list(dict.fromkeys(items[split])) for split in known.splits)
        seen = set(train)
        test = [item for item in test if item not in seen]
        rng.shuffle(train)
        rng.shuffle(test)
        return train, test
    everything = list(dict.fromkeys(item for listed in items.values() for item in listed))
    rng.shuffle(everything)
    return everything[::2], everything[1::2]


def _with_example(items: list[Item], kind_of: Callable[[Item], str | None], rng: random.Random) -> list[Item]:
    by_kind: dict[str | None, list[Item]] = {}
    for item in items:
        by_kind.setdefault(kind_of(item), []).append(item)
    ready = []
    for alike in by_kind.values():
        shortest = sorted(alike, key=lambda item: len(item.prompt) + len(item.target))
        examples = shortest[: min(max(len(alike) // 10, 1), MOST_EXAMPLES)]
        held_out = set(examples)
        for item in alike:
            if item not in held_out:
                shown = rng.choice(examples)
                ready.append(Item(f"{shown.prompt}{shown.target}\n{item.prompt}", item.target, item.choices))
    rng.shuffle(ready)
    return ready


# Where records come from: a file, a folder, the hub. Each gives them by split.


def _is_path(base: str, place: str) -> bool:
    """Whether what stands after the colon is a file or folder: always, but for the names of BLiMP's parts."""
    return bool(place) and (base != "blimp" or Path(place).exists() or not place.isidentifier())


def _from_disk(base: str, path: Path) -> dict[str, Iterable[Record]]:
    readers = {".json": _read_json, ".jsonl": _read_json, ".csv": _read_csv, ".parquet": _read_parquet}
    if not path.exists():
        raise HeadcountError(f"The set {base}:{path} is to be read from {path}, which does not exist. Check the path.")
    if path.is_dir():
        return _read_folder(path)
    if path.suffix not in readers:
        raise HeadcountError(
            f"A set can be read from {', '.join(readers)} or a folder of save_to_disk; {path} is none. Convert it."
        )
    try:
        return {"all": readers[path.suffix](path)}
    except (OSError, ValueError, csv.Error) as error:
        raise HeadcountError(f"{path} cannot be read as {path.suffix[1:]}: {_first_line(error)}") from error


def _read_json(path: Path) -> list[Record]:
    """A list of records, or one record a line."""
    text = path.read_text(encoding="utf-8-sig").strip()
    records = (
        json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.split("\n") if line.strip()]
    )
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise ValueError(f"record {number} must be a JSON object; this is a {type(record).__name__}.")
    return list(records)


def _read_csv(path: Path) -> list[Record]:
    """Cells that hold a JSON list or object are read as such: CSV has no other way to write one."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [{key: _cell(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _cell(text: str) -> Any:
    try:
        return json.loads(text) if text[:1] in ("[", "{") else text
    except json.JSONDecodeError:
        return text


def _read_parquet(path: Path) -> list[Record]:
    _library()
    from pyarrow import parquet

    return list(parquet.ParquetFile(path).read().to_pylist())


def _read_folder(path: Path) -> dict[str, Iterable[Record]]:
    datasets = _library()
    try:
        saved = datasets.load_from_disk(str(path))
    except Exception as error:  # the library's errors have no common class
        raise HeadcountError(
            f"The folder {path} must be one that `save_to_disk` wrote, but it cannot be read so: {_first_line(error)}"
        ) from error
    return dict(saved) if isinstance(saved, datasets.DatasetDict) else {"all": saved}


def _from_hub(base: str, known: _Set, config: str) -> dict[str, Iterable[Record]]:
    datasets = _library()
    splits: dict[str, list[Record]] = {split: [] for split in known.splits}
    try:
        with hub_or_cache(datasets):
            configs = known.configs or ([config] if config else datasets.get_dataset_config_names(known.hub))
            for part in configs:
                for split, records in splits.items():
                    records.extend(datasets.load_dataset(known.hub, part, split=split))
    except Exception as error:  # of datasets, huggingface_hub, its HTTP client or pyarrow: no common class
        wanted = f"{known.hub} ({config})" if config else known.hub
        raise HeadcountError(
            f"The set {base} is {wanted} on the Hugging Face hub, which cannot be read: {_first_line(error)}"
            f" Check the name and the network, or give a file that you have: {base}:path/to/file.jsonl"
        ) from error
    return dict(splits)


@contextmanager
def hub_or_cache(datasets: Any) -> Iterator[None]:
    """Ask the hub once whether it is there; if not, let `datasets` look in its own cache only, and fail at once."""
    import huggingface_hub

    before = datasets.config.HF_HUB_OFFLINE
    try:
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=HUB_SECONDS)
    except Exception:  # offline mode, no route, no answer in time: whatever the HTTP client calls it
        datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise HeadcountError(
            "Published sets need the package `datasets`, which is not installed (json and csv files do not need it)."
            " Install it: pip install 'headcount[datasets]'"
        ) from error
    return datasets


def _first_line(error: Exception) -> str:
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if line.endswith(".") else f"{line}."
