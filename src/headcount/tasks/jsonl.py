"""The user's own task: a JSONL file, one example a line. All lines are pairs,

    {"clean": "The capital of France is", "corrupt": "The capital of Spain is", "answer": " Paris", "wrong": " Madrid"}

or all are prompts with a target, of any length, that may be one of several choices:

    {"prompt": "Question: What is 2 + 3?\\nAnswer:", "target": " 2 + 3 = 5.", "choices": [" 2 + 3 = 5.", " 2 + 3 = 6."]}

`answer` and `wrong` may be lists. `split` ("train" or "test") is optional; lines without it are shared out at random.
The prompts and answers of pairs may also be token ids.
"""

import json
import random
from pathlib import Path
from typing import Any

from ..core.errors import HeadcountError, did_you_mean
from .examples import Completion, Examples, Pair
from .source import Draft, Item, Tokens, completion

PAIR = ("clean", "corrupt", "answer", "wrong")
COMPLETION = ("prompt", "target")
OPTIONAL = {PAIR: ("split",), COMPLETION: ("split", "choices")}

Entry = dict[str, Any]


def read_examples(path: Path, tokens: Tokens, n: int, seed: int) -> tuple[Examples, Examples, str]:
    """Train and test examples of a file, at most n in all, and their metric; an error names the line that is wrong.
    Lines that name no split are given to the smaller side."""
    entries = _read_lines(path)
    has_targets = any("prompt" in entry for entry in entries.values())
    wanted = COMPLETION if has_targets else PAIR
    sides: dict[str | None, list[Any]] = {"train": [], "test": [], None: []}
    for number, entry in entries.items():
        try:
            _check_fields(entry, wanted)
            made = _completion(entry, tokens) if has_targets else _pair(entry, tokens)
        except HeadcountError as error:
            raise HeadcountError(f"{path}, line {number}: {error}") from error
        sides[entry.get("split")].append(made)
    train, test, free = sides.values()
    random.Random(seed).shuffle(free)
    for example in free:
        min(train, test, key=len).append(example)
    if not (train and test):
        raise HeadcountError(
            f"The task {path} must hold at least one train and one test example, but it has {len(train)} and"
            f" {len(test)}. Add lines, or share them out with the field 'split'."
        )
    half = max(n // 2, 1)
    return tuple(train[:half]), tuple(test[:half]), "log_prob" if has_targets else "logit_diff"


def _read_lines(path: Path) -> dict[int, Entry]:
    """Line number -> its object, blank lines left out."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise HeadcountError(f"The task file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise HeadcountError(f"The task file {path} is not UTF-8 text (byte {error.start}).") from error
    entries = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise HeadcountError(f"{where}: this is not JSON ({error.msg} at column {error.colno}).") from error
        if not isinstance(entry, dict):
            raise HeadcountError(
                f"{where}: a line must be a JSON object with {', '.join(PAIR)}, or with {', '.join(COMPLETION)};"
                f" this is a {type(entry).__name__}."
            )
        entries[number] = entry
    return entries


def _check_fields(entry: Entry, wanted: tuple[str, ...]) -> None:
    """All fields that are wanted must be there, and none that are unknown."""
    known = (*wanted, *OPTIONAL[wanted])
    for key in wanted:
        if key not in entry:
            raise HeadcountError(f"the field {key!r} is missing. A line needs {', '.join(wanted)}.")
    for key in entry:
        if key not in known:
            raise HeadcountError(f"unknown field {key!r}.{did_you_mean(key, known)}")
    if (split := entry.get("split")) not in (None, "train", "test"):
        raise HeadcountError(f"'split' must be one of train, test; this is {split!r}.")


def _pair(entry: Entry, tokens: Tokens) -> Pair:
    for key in ("clean", "corrupt"):
        value = entry[key]
        is_ids = isinstance(value, list) and all(type(token) is int for token in value)
        if not value or not (is_ids or isinstance(value, str)):
            raise HeadcountError(f"{key!r} must be a text or a list of token ids; this is {value!r}.")
    return tokens.pair(Draft(entry["clean"], entry["corrupt"], _listed(entry, "answer"), _listed(entry, "wrong")))


def _listed(entry: Entry, key: str) -> list[str | int]:
    values = entry[key] if isinstance(entry[key], list) else [entry[key]]
    if not values or not all(type(word) in (str, int) and word != "" for word in values):
        raise HeadcountError(f"{key!r} must be a text, a token id, or a list of them; this is {entry[key]!r}.")
    return values


def _completion(entry: Entry, tokens: Tokens) -> Completion:
    for key in COMPLETION:
        if not isinstance(entry[key], str):
            raise HeadcountError(f"{key!r} must be a text; this is {entry[key]!r}.")
    choices = entry.get("choices", [])
    if not isinstance(choices, list) or not all(isinstance(choice, str) and choice for choice in choices):
        raise HeadcountError(f"'choices' must be a list of texts; this is {choices!r}.")
    return completion(Item(entry["prompt"], entry["target"], tuple(choices)), tokens)
