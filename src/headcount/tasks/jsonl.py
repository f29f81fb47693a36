"""The user's own task: a JSONL file, one example a line. All lines are pairs,

    {"clean": "The capital of France is", "corrupt": "The capital of Spain is", "answer": " Paris", "wrong": " Madrid"}

or all are prompts with a target, of any length, that may be one of several choices:

    {"prompt": "Question: What is 2 + 3?\\nAnswer:", "target": " 2 + 3 = 5.", "choices": [" 2 + 3 = 5.", " 2 + 3 = 6."]}

`answer` and `wrong` may be lists. `split` ("train" or "test") is optional; lines without it are shared out at random,
those with the same prompt to the same side, and an example that stands there twice counts once. The prompts and answers
of pairs may also be token ids.
"""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from ..core.errors import HeadcountError, did_you_mean
from ..core.plain import quoted
from ..core.reading import read_json_lines
from .examples import Completion, Example, Examples, Pair
from .source import Draft, Item, Prompt, Tokens, completion

PAIR = ("clean", "corrupt", "answer", "wrong")
COMPLETION = ("prompt", "target")
OPTIONAL = {PAIR: ("split",), COMPLETION: ("split", "choices")}

Entry = dict[str, object]
"""The fields of a line, of any type until they are read."""


def examples_of(entries: Mapping[int, Entry], where: str, tokens: Tokens, seed: int) -> tuple[Examples, Examples, str]:
    """Train and test examples of lines by their numbers, and their metric; an error names the first line that is wrong.
    Lines that name no split are given to the smaller side."""
    found: dict[Example, Line] = {}
    for line in read_each(entries, tokens):
        if line.error or line.example is None:
            raise HeadcountError(f"{where}, line {line.number}: {line.error}")
        found.setdefault(line.example, line)
    train, test = _shared_out(found, seed)
    if not (train and test):
        raise HeadcountError(
            f"The task {where} must hold at least one train and one test example, but it has {len(train)} and"
            f" {len(test)} different ones. Add lines, or share them out with the field 'split'."
        )
    metric = "log_prob" if have_targets(entries) else "logit_diff"
    return cast(Examples, tuple(train)), cast(Examples, tuple(test)), metric


def read_entry(entry: Entry, has_targets: bool, tokens: Tokens) -> Example:
    """The example that a line stands for, or an error that says what is wrong with it."""
    _check_fields(entry, COMPLETION if has_targets else PAIR)
    return _completion(entry, tokens) if has_targets else _pair(entry, tokens)


class Line(NamedTuple):
    """A line of a file as every reader of it sees it."""

    number: int
    split: object  # train, test or None, once the line has been read
    first: int
    """The line in which the same example stands first; that counts, and its repetitions do not."""
    example: Example | None = None
    error: str = ""
    """What is wrong with it; no study takes a file with such a line."""


def have_targets(entries: Mapping[int, Entry]) -> bool:
    return any("prompt" in entry for entry in entries.values())


def read_each(entries: Mapping[int, Entry], tokens: Tokens) -> Iterator[Line]:
    """Every line of a file, in its order."""
    seen: dict[Example, Line] = {}
    has_targets = have_targets(entries)
    for number, entry in entries.items():
        split = entry.get("split")
        try:
            example = read_entry(entry, has_targets, tokens)
            first = seen.setdefault(example, Line(number, split, number, example))
            _require_one_side(number, split, first)
            yield Line(number, split, first.number, example)
        except HeadcountError as error:
            yield Line(number, split, number, error=str(error))


def _require_one_side(number: int, split: object, first: Line) -> None:
    """An example that stands in a file twice must not be scored on and measured on."""
    if split != first.split:
        told = (first.number, first.split), (number, split)
        sides = " and ".join(f"line {line} has {side or 'none'}" for line, side in told)
        raise HeadcountError(f"the same example stands in line {first.number}, and their splits differ: {sides}.")


def _shared_out(found: Mapping[Example, Line], seed: int) -> tuple[list[Example], list[Example]]:
    """Train and test as the lines say; those that say nothing go to the smaller side, prompt by prompt."""
    train, test = ([made for made, line in found.items() if line.split == side] for side in ("train", "test"))
    named = {_prompt(made): side for side in (train, test) for made in side}
    free: dict[tuple[int, ...], list[Example]] = {}
    for made, line in found.items():
        if line.split is None:
            free.setdefault(_prompt(made), []).append(made)
    groups = list(free.values())
    random.Random(seed).shuffle(groups)
    for group in groups:
        named.get(_prompt(group[0]), min(train, test, key=len)).extend(group)
    return train, test


def _prompt(example: Example) -> tuple[int, ...]:
    return example.clean if isinstance(example, Pair) else example.prompt


def read_lines(path: Path) -> dict[int, Entry]:
    """Line number -> its object, blank lines left out."""
    entries = {}
    for number, entry in read_json_lines(path, "The task file"):
        if not isinstance(entry, dict):
            raise HeadcountError(
                f"{path}, line {number}: a line must be a JSON object with {', '.join(PAIR)}, or with"
                f" {', '.join(COMPLETION)}; got {'null' if entry is None else quoted(entry)}."
            )
        entries[number] = entry
    return entries


def _check_fields(entry: Entry, wanted: tuple[str, ...]) -> None:
    """All fields that are wanted must be there, and none that are unknown."""
    known = (*wanted, *OPTIONAL[wanted])
    for key in wanted:
        if key not in entry:
            there = ", ".join(quoted(name, 40) for name in list(entry)[:6]) or "nothing"
            raise HeadcountError(f"the field {key!r} is missing. A line needs {', '.join(wanted)}; it has {there}.")
    for key in entry:
        if key not in known:
            raise HeadcountError(f"unknown field {quoted(key)}.{did_you_mean(key, known)}")
    if (split := entry.get("split")) not in (None, "train", "test"):
        raise HeadcountError(f"'split' must be one of train, test; got {quoted(split)}.")


def _pair(entry: Entry, tokens: Tokens) -> Pair:
    clean, corrupt = (_text_or_ids(entry, key) for key in ("clean", "corrupt"))
    answers = {key: _listed(entry, key) for key in ("answer", "wrong")}
    if not isinstance(clean, str):
        for key, words in answers.items():
            if text := next((word for word in words if isinstance(word, str)), None):
                raise HeadcountError(f"{key!r} must be token ids where the prompt is; got {quoted(text)}.")
    return tokens.pair(Draft(clean, corrupt, answers["answer"], answers["wrong"]))


def _text_or_ids(entry: Entry, key: str) -> Prompt:
    value = entry[key]
    if value and (isinstance(value, str) or (isinstance(value, list) and all(type(token) is int for token in value))):
        return value
    raise HeadcountError(f"{key!r} must be a text or a list of token ids; got {quoted(value)}.")


def _listed(entry: Entry, key: str) -> list[str | int]:
    value = entry[key]
    values = value if isinstance(value, list) else [value]
    words = [word for word in values if (type(word) is str or type(word) is int) and word != ""]
    if not words or len(words) < len(values):
        raise HeadcountError(f"{key!r} must be a text, a token id, or a list of them; got {quoted(value)}.")
    return words


def _completion(entry: Entry, tokens: Tokens) -> Completion:
    prompt, target = (_text(entry, key) for key in COMPLETION)
    choices = entry.get("choices", [])
    if not isinstance(choices, list) or not all(isinstance(choice, str) and choice for choice in choices):
        raise HeadcountError(f"'choices' must be a list of texts; got {quoted(choices)}.")
    return completion(Item(prompt, target, tuple(choices)), tokens)


def _text(entry: Entry, key: str) -> str:
    value = entry[key]
    if not isinstance(value, str):
        raise HeadcountError(f"{key!r} must be a text; got {quoted(value)}.")
    return value
