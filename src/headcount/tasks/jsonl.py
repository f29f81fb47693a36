"""The user's own task: a JSONL file, one example a line. All lines are pairs,

    {"clean": "The capital of France is", "corrupt": "The capital of Spain is", "answer": " Paris", "wrong": " Madrid"}

or all are prompts with a target, of any length, that may be one of several choices:

    {"prompt": "Question: What is 2 + 3?\\nAnswer:", "target": " 2 + 3 = 5.", "choices": [" 2 + 3 = 5.", " 2 + 3 = 6."]}

`answer` and `wrong` may be lists. `split` ("train" or "test") is optional; lines without it are shared out at random.
The prompts and answers of pairs may also be token ids.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.errors import HeadcountError, did_you_mean
from .completions import Item, completion
from .examples import Completion, Examples, Pair
from .source import Draft, Tokens

if TYPE_CHECKING:
    from . import Drawing

PAIR = ("clean", "corrupt", "answer", "wrong")
COMPLETION = ("prompt", "target")
OPTIONAL = {PAIR: ("split",), COMPLETION: ("split", "choices")}
SPLITS = ("train", "test")

E = TypeVar("E", Pair, Completion)


def read_examples(path: Path, drawing: "Drawing") -> tuple[Examples, Examples, str]:
    """Train and test examples of a file, at most n in all, and their metric; an error names the line that is wrong."""
    entries = _read_lines(path)
    if any("prompt" in entry for _, entry in entries):
        return *_shared_out(path, entries, drawing, COMPLETION, lambda entry: _completion(entry, drawing)), "log_prob"
    return *_shared_out(path, entries, drawing, PAIR, lambda entry: _pair(entry, drawing.tokens)), "logit_diff"


def _read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """(line number, its object), blank lines left out."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise HeadcountError(f"The task file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise HeadcountError(f"The task file {path} is not UTF-8 text (byte {error.start}).") from error
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise HeadcountError(
                f"{path}, line {number}: this is not JSON ({error.msg} at column {error.colno})."
            ) from error
        if not isinstance(entry, dict):
            raise HeadcountError(
                f"{path}, line {number}: a line must be a JSON object with {', '.join(PAIR)}, or with"
                f" {', '.join(COMPLETION)}; this is a {type(entry).__name__}."
            )
        entries.append((number, entry))
    return entries


def _shared_out(
    path: Path,
    entries: list[tuple[int, dict[str, Any]]],
    drawing: "Drawing",
    wanted: tuple[str, ...],
    read: Callable[[dict[str, Any]], E],
) -> tuple[tuple[E, ...], tuple[E, ...]]:
    """Every line read, and those that name no split given to the smaller side."""
    sides: dict[str, list[E]] = {"train": [], "test": []}
    free: list[E] = []
    for number, entry in entries:
        try:
            split = _check_fields(entry, wanted)
            (sides[split] if split else free).append(read(entry))
        except HeadcountError as error:
            raise HeadcountError(f"{path}, line {number}: {error}") from error
    random.Random(drawing.seed).shuffle(free)
    for example in free:
        min(sides.values(), key=len).append(example)
    if not (sides["train"] and sides["test"]):
        raise HeadcountError(
            f"The task {path} must hold at least one train and one test example, but it has {len(sides['train'])} and"
            f" {len(sides['test'])}. Add lines, or share them out with the field 'split'."
        )
    half = max(drawing.n // 2, 1)
    return tuple(sides["train"][:half]), tuple(sides["test"][:half])


def _check_fields(entry: dict[str, Any], wanted: tuple[str, ...]) -> str | None:
    """The split that a line names, once its fields are known to be there and no others."""
    known = (*wanted, *OPTIONAL[wanted])
    for key in wanted:
        if key not in entry:
            raise HeadcountError(f"the field {key!r} is missing. A line needs {', '.join(wanted)}.")
    for key in entry:
        if key not in known:
            raise HeadcountError(f"unknown field {key!r}.{did_you_mean(key, known)}")
    split = entry.get("split")
    if split is not None and split not in SPLITS:
        raise HeadcountError(f"'split' must be one of {', '.join(SPLITS)}; this is {split!r}.")
    return split


def _pair(entry: dict[str, Any], tokens: Tokens) -> Pair:
    return tokens.pair(
        Draft(
            clean=_prompt(entry, "clean"),
            corrupt=_prompt(entry, "corrupt"),
            answers=_listed(entry["answer"], "answer"),
            wrongs=_listed(entry["wrong"], "wrong"),
        )
    )


def _completion(entry: dict[str, Any], drawing: "Drawing") -> Completion:
    for key in COMPLETION:
        if not isinstance(entry[key], str):
            raise HeadcountError(f"{key!r} must be a text; this is {entry[key]!r}.")
    choices = entry.get("choices", [])
    if not isinstance(choices, list) or not all(isinstance(choice, str) and choice for choice in choices):
        raise HeadcountError(f"'choices' must be a list of texts; this is {choices!r}.")
    item = Item(entry["prompt"], entry["target"], tuple(choices))
    return completion(item, drawing.tokens, drawing.limit, drawing.start)


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
