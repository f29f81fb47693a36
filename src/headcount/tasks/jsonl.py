"""The user's own task: a JSONL file, one pair a line.

    {"clean": "The capital of France is", "corrupt": "The capital of Spain is", "answer": " Paris", "wrong": " Madrid"}

`answer` and `wrong` may be lists. `split` ("train" or "test") is optional; lines without it are shared out at random.
Prompts and answers may also be token ids.
"""

import json
import random
from pathlib import Path
from typing import Any

from ..errors import HeadcountError, did_you_mean
from .pairs import Pair
from .source import Draft, Tokens

WANTED = ("clean", "corrupt", "answer", "wrong")
SPLITS = ("train", "test")


def read_pairs(path: Path, tokens: Tokens, n: int | None, seed: int) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Train and test pairs of a file, at most n in all; the error names the line where one is wrong."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise HeadcountError(f"The task file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise HeadcountError(f"The task file {path} is not UTF-8 text (byte {error.start}).") from error
    sides: dict[str, list[Pair]] = {"train": [], "test": []}
    free: list[Pair] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            pair, split = _read_line(line, tokens)
        except HeadcountError as error:
            raise HeadcountError(f"{path}, line {number}: {error}") from error
        (sides[split] if split else free).append(pair)
    random.Random(seed).shuffle(free)
    for pair in free:
        min(sides.values(), key=len).append(pair)
    half = None if n is None else max(n // 2, 1)
    if not (sides["train"] and sides["test"]):
        raise HeadcountError(
            f"The task {path} must hold at least one train and one test pair, but it has {len(sides['train'])} and"
            f" {len(sides['test'])}. Add lines, or share them out with the field 'split'."
        )
    return tuple(sides["train"][:half]), tuple(sides["test"][:half])


def _read_line(line: str, tokens: Tokens) -> tuple[Pair, str | None]:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise HeadcountError(f"this is not JSON ({error.msg} at column {error.colno}).") from error
    if not isinstance(entry, dict):
        raise HeadcountError(
            f"a line must be a JSON object with {', '.join(WANTED)}; this is a {type(entry).__name__}."
        )
    for key in WANTED:
        if key not in entry:
            raise HeadcountError(f"the field {key!r} is missing. A line needs {', '.join(WANTED)}.")
    for key in entry:
        if key not in (*WANTED, "split"):
            raise HeadcountError(f"unknown field {key!r}.{did_you_mean(key, (*WANTED, 'split'))}")
    split = entry.get("split")
    if split is not None and split not in SPLITS:
        raise HeadcountError(f"'split' must be one of {', '.join(SPLITS)}; this is {split!r}.")
    draft = Draft(
        clean=_prompt(entry, "clean"),
        corrupt=_prompt(entry, "corrupt"),
        answers=_listed(entry["answer"], "answer"),
        wrongs=_listed(entry["wrong"], "wrong"),
    )
    return tokens.pair(draft), split


def _prompt(entry: dict[str, Any], key: str) -> str | list[int]:
    value = entry[key]
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list) and value and all(type(token) is int for token in value):
        return value
    raise HeadcountError(f"{key!r} must be a text or a list of token ids; this is {value!r}.")


def _listed(value: Any, key: str) -> list[str | int]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(type(word) in (str, int) and word != "" for word in values):
        raise HeadcountError(f"{key!r} must be a text, a token id, or a list of them; this is {value!r}.")
    return values
