"""Published sets by name, through the Hugging Face package `datasets` (`pip install 'headcount[datasets]'`).

    gsm8k                      the set from the hub, with the hub's own train and test sides
    gsm8k:path/to/file.jsonl   the same set from a file that you have: jsonl, json, csv or parquet
    gsm8k:path/to/folder       ... or from a folder written by `save_to_disk`
    blimp:wh_island            one part of BLiMP
    blimp:*                    in a study, a panel for each of its 67 parts
    blimp:path/to/folder/*     ... or for each file of a folder

As in causal head gating (Nam et al. 2025, section 6.1), one worked example stands in front of a prompt. The examples
are the shortest items of the same side and kind, and are not items themselves. BLiMP goes without.

`bigbench-syntax` is read in the layout of hails/bigbench, zero-shot: `inputs`, a list of `targets`, and the lists
`multiple_choice_targets` and `multiple_choice_scores`, empty where the answer is free. Two of its three tasks are on
the hub; subject_verb_agreement is a program in BIG-bench, so its records can only come from a file. The hub's records
do not say which subtask they are from: `_syntax_kind` tells it by their words, and leaves out German ones so.
"""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from typing_extensions import TypedDict

from ..core.errors import HeadcountError, did_you_mean, listed
from ..core.files import read_toml
from ..core.plain import quoted
from ..core.reading import local_path
from .examples import first_difference
from .records import FILES, Record, from_disk, from_hub, hub_parts
from .source import Item, lettered

Sides = tuple[list[Item], list[Item]]
ItemOf = Callable[[Record, random.Random], Item]
KindOf = Callable[[Item], str | None]


class _KnownSet(TypedDict):
    about: str
    hub: str
    configs: list[str]
    splits: list[str]


_SETS = read_toml(Path(__file__).with_suffix(".toml"), dict[str, _KnownSet])
KNOWN_SETS = {name: known["about"] for name, known in _SETS.items()}

MOST_EXAMPLES = 10
"""Worked examples for one side and kind; fewer where there are fewer than a hundred items."""


def read_known_set(name: str, rng: random.Random) -> Sides:
    """Train and test items of a set in random order. The same state of `rng` gives the same items."""
    base, _, place = name.partition(":")
    if base not in _SETS:
        raise HeadcountError(f"There is no known set {quoted(base)}.{did_you_mean(base, _SETS)}")
    known = _SETS[base]
    # What stands after the colon is a file or folder: always, but for the names of BLiMP's parts.
    if place and (base != "blimp" or local_path(place).exists() or not place.isidentifier()):
        splits = from_disk(local_path(place))
    else:
        splits = from_hub(base, known["hub"], known["configs"], known["splits"], place)
    items = {split: _items(name, records, rng) for split, records in splits.items()}
    train, test = _share_out(items, known["splits"], rng)
    if (kind_of := _READERS[base][1]) is not None:
        train, test = _with_example(train, kind_of, rng), _with_example(test, kind_of, rng)
    if not (train and test):
        raise HeadcountError(
            f"The set {name} must give at least one train and one test item, but of {sum(map(len, items.values()))}"
            f" records it gives {len(train)} and {len(test)} (worked examples are kept out). Give more records."
        )
    return train, test


def is_known_set(name: str) -> bool:
    return name.partition(":")[0] in _SETS


def short_name(name: str) -> str:
    """Of one of BLiMP's parts, without where its file lies; any other name as it is."""
    base, _, place = name.partition(":")
    return f"{base}:{Path(place).stem}" if place and base == "blimp" else name


def title_of(name: str) -> str:
    """Of a set its name; of one of its parts that of the part."""
    base, _, place = name.partition(":")
    return Path(place).stem.replace("_", " ") if place and base == "blimp" else base


def parts_of(name: str) -> list[str]:
    """`SET:FOLDER/*` as the files of the folder, `blimp:*` as its parts on the hub; any other name as it is."""
    base, _, place = name.partition(":")
    if base not in _SETS or not place.endswith("*"):
        return [name]
    if place == "*":
        if base != "blimp":
            raise HeadcountError(f"The set {base} has no parts. Give it as it is, or files: {base}:FOLDER/*")
        return [f"{base}:{part}" for part in hub_parts(base, _SETS[base]["hub"])]
    folder, pattern = local_path(place).parent, Path(place).name
    files = sorted(path for path in folder.glob(pattern) if path.suffix in FILES)
    if not files:
        raise HeadcountError(f"No file in {folder} matches {quoted(pattern)}. They end in {', '.join(FILES)}.")
    return [f"{base}:{path}" for path in files]


def _commonsense_qa(record: Record, rng: random.Random) -> Item:
    choices = _field(record, "choices", Mapping)
    labels, texts = _texts(choices, "label"), _texts(choices, "text")
    answer = _field(record, "answerKey", str)
    if answer not in labels:
        raise HeadcountError(
            f"'answerKey' must be one of {listed(labels)}; got {quoted(answer)}. Give a split with answers."
        )
    _require_paired(labels, texts, "label", "text")
    if len(labels) > len(ascii_uppercase):
        raise HeadcountError(
            f"'choices' must be {len(ascii_uppercase)} at most, one a letter; these are {len(labels)}."
        )
    options = list(zip(labels, texts, strict=True))
    rng.shuffle(options)
    prompt = lettered(_field(record, "question", str).strip(), [text for _, text in options])
    letters = tuple(f" {letter}" for letter in ascii_uppercase[: len(options)])
    return Item(prompt, letters[[label for label, _ in options].index(answer)], letters)


def _gsm8k(record: Record, rng: random.Random) -> Item:
    worked = re.sub(r"<<.*?>>", "", _field(record, "answer", str)).strip()
    solution, mark, number = worked.rpartition("#### ")
    if not mark:
        raise HeadcountError("'answer' must end with a line '#### N', where N is the result; this one does not.")
    prompt = f"Problem: {_field(record, 'question', str).strip()}\nSolution:"
    return Item(prompt, f" {solution}The answer is {number.strip()}.")


def _bigbench(record: Record, rng: random.Random) -> Item:
    targets, choices = _texts(record, "targets"), list[str]()
    if record.get("multiple_choice_targets"):
        choices, scores = _texts(record, "multiple_choice_targets"), _field(record, "multiple_choice_scores", list)
        _require_paired(choices, scores, "multiple_choice_targets", "multiple_choice_scores")
        if not all(type(score) in (int, float) for score in scores):
            raise HeadcountError(f"'multiple_choice_scores' must be numbers; got {quoted(scores)}.")
        targets = [max(zip(scores, choices, strict=True), key=lambda pair: pair[0])[1]]
    if not targets:
        raise HeadcountError("'targets' must hold at least one answer; got empty.")
    return Item(_field(record, "inputs", str).strip(), f" {targets[0]}", tuple(f" {choice}" for choice in choices))


def _blimp(record: Record, rng: random.Random) -> Item:
    good, bad = (_field(record, f"sentence_{side}", str).split(" ") for side in ("good", "bad"))
    same = min(first_difference(good, bad), len(good) - 1, len(bad) - 1)
    space = " " if same else ""
    rests = tuple(space + " ".join(words[same:]) for words in (good, bad))
    return Item(" ".join(good[:same]), rests[0], rests)


def _field(record: Record, key: str, wanted: type) -> Any:
    if key not in record:
        raise HeadcountError(f"the field {key!r} is missing. Fields here: {listed(map(str, record)) or 'none'}.")
    value = record[key]
    if not isinstance(value, wanted):
        raise HeadcountError(f"{key!r} must be a {wanted.__name__.lower()}; got {quoted(value)}.")
    return value


def _texts(record: Record, key: str) -> list[str]:
    found: list[str] = _field(record, key, list)
    if not all(isinstance(text, str) for text in found):
        raise HeadcountError(f"{key!r} must be a list of texts; got {quoted(found)}.")
    return found


def _require_paired(one: Sequence[object], other: Sequence[object], *names: str) -> None:
    if len(one) != len(other):
        raise HeadcountError(f"{names[0]!r} has {len(one)} entries and {names[1]!r} {len(other)}; give one for each.")


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


_READERS: dict[str, tuple[ItemOf, KindOf | None]] = {
    "commonsense-qa": (_commonsense_qa, lambda item: "question"),
    "gsm8k": (_gsm8k, lambda item: "problem"),
    "bigbench-syntax": (_bigbench, _syntax_kind),
    "blimp": (_blimp, None),
}
"""How to read a record of each set, and the kind of an item: items of one kind have worked examples of that kind."""


def _items(name: str, records: Iterable[Record], rng: random.Random) -> list[Item]:
    read, kind_of = _READERS[name.partition(":")[0]]
    items = []
    for number, record in enumerate(records, start=1):
        try:
            items.append(read(record, rng))
        except HeadcountError as error:
            raise HeadcountError(f"{name}, record {number}: {error}") from error
    return [item for item in items if kind_of is None or kind_of(item) is not None]


def _share_out(items: dict[str, list[Item]], splits: Sequence[str], rng: random.Random) -> Sides:
    """The set's own two sides where it has them, else all at random 1:1; an item that comes twice is kept once."""
    if len(splits) == 2 and items.keys() >= set(splits):
        seen, others = (dict.fromkeys(items[split]) for split in splits)
        train, test = list(seen), [item for item in others if item not in seen]
        rng.shuffle(train)
        rng.shuffle(test)
        return train, test
    everything = list(dict.fromkeys(item for listed in items.values() for item in listed))
    rng.shuffle(everything)
    return everything[::2], everything[1::2]


def _with_example(items: list[Item], kind_of: KindOf, rng: random.Random) -> list[Item]:
    by_kind: dict[str | None, list[Item]] = {}
    for item in items:
        by_kind.setdefault(kind_of(item), []).append(item)
    ready = []
    for alike in by_kind.values():
        shortest = sorted(alike, key=lambda item: len(item.prompt) + len(item.target))
        examples = shortest[: min(max(len(alike) // 10, 1), MOST_EXAMPLES)]
        for item in alike:
            if item not in examples:
                shown = rng.choice(examples)
                ready.append(Item(f"{shown.prompt}{shown.target}\n{item.prompt}", item.target, item.choices))
    rng.shuffle(ready)
    return ready
