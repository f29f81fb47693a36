"""Questions of a file in the layout of CogQA (Cognitive Mirrors, arXiv 2512.10978), which the user has and names:

    [{"question": "…", "answer": "…", "generated": [
        {"subquestion": "…", "answer": "…", "cognitive_skill": "Math Calculation"}, …]}, …]

or one record a line; a record may be wrapped in a list of one. The data has no licence, so none of it is here. Each
sub-question is asked with its main question and with what the earlier sub-questions of the record found out. What a
record lacks is skipped and counted. Main questions stand in one split each: three fifths of them in train.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ...core.errors import HeadcountError
from ...core.plain import quoted
from ...core.reading import json_words, lines_of, parse_json, read_text
from . import FUNCTIONS, Question, QuestionSet, function_name

LAYOUT = "records with 'question' and 'generated', as a JSON list or one a line"
FEWEST_MAIN_QUESTIONS = 3


def read_cogqa(path: Path, *, seed: int = 0) -> QuestionSet:
    """The sub-questions of a file in three splits, shuffled. The same seed gives the same splits."""
    skipped: Counter[str] = Counter()
    by_main: dict[str, list[Question]] = {}
    names: dict[str, str] = {}
    for number, record in enumerate(_read_records(path), start=1):
        main = _text(record.get("question"))
        parts = record.get("generated")
        if not main:
            skipped["no main question"] += 1
        elif not isinstance(parts, list) or not parts:
            skipped["no sub-questions"] += 1
        else:
            template = names.setdefault(" ".join(main.lower().split()), f"q{number}")
            if found := list(_sub_questions(main, parts, template, skipped)):
                by_main.setdefault(template, []).extend(found)
    _require_enough(path, len(by_main), skipped)
    train, validation, test = _shared_out(list(by_main.values()), random.Random(f"{path.name} {seed}"))
    return QuestionSet(path.name, train, validation, test, skipped=dict(skipped))


def _sub_questions(main: str, parts: Sequence[Any], template: str, skipped: Counter[str]) -> Iterator[Question]:
    """Those of one record that can be asked. One whose label is of no use still tells the later ones its answer."""
    known: list[str] = []
    for part in parts:
        fields = part if isinstance(part, dict) else {}
        asked, answer, label = (_text(fields.get(key)) for key in ("subquestion", "answer", "cognitive_skill"))
        if not asked or not answer:
            skipped["no answer" if asked else "no sub-question text"] += 1
            continue
        if not label:
            skipped["no label"] += 1
        elif function_name(label) not in FUNCTIONS:
            skipped[f"unknown label {quoted(label, 40)}"] += 1
        else:
            so_far = ["Known so far:", *known] if known else []
            text = "\n".join([f"The larger question: {main}", *so_far, f"Answer this part of it: {asked}"])
            yield Question(function_name(label), template, text, answer)
        known.append(f"- {asked} {answer}")


def _shared_out(by_main: list[list[Question]], rng: random.Random) -> list[tuple[Question, ...]]:
    """Train, validation and test: a fifth of the main questions in each of the last two."""
    rng.shuffle(by_main)
    fifth = round(len(by_main) / 5)
    sides = []
    for mains in (by_main[2 * fifth :], by_main[:fifth], by_main[fifth : 2 * fifth]):
        side = list(chain(*mains))
        rng.shuffle(side)
        sides.append(tuple(side))
    return sides


def _require_enough(path: Path, usable: int, skipped: Counter[str]) -> None:
    reasons = ", ".join(f"{reason} ({count})" for reason, count in skipped.most_common()) or "nothing"
    if not usable:
        raise HeadcountError(
            f"{path} must hold sub-questions with a text, an answer and a label, but it has none. Skipped: {reasons}."
            f" Known labels: {', '.join(FUNCTIONS)}."
        )
    if usable < FEWEST_MAIN_QUESTIONS:
        raise HeadcountError(
            f"{path} must hold at least {FEWEST_MAIN_QUESTIONS} different main questions to make three splits, but"
            f" {usable} can be used. Skipped: {reasons}. Add records."
        )


def _read_records(path: Path) -> list[dict[str, Any]]:
    found = _json(read_text(path, "The questions"), path)
    if isinstance(found, dict) and "generated" in found:
        found = [found]
    if not isinstance(found, list):
        raise HeadcountError(f"{path} must hold {LAYOUT}; got {quoted(found)}. Is it the right file?")
    records = [entry[0] if isinstance(entry, list) and len(entry) == 1 else entry for entry in found]
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise HeadcountError(f"{path} must hold {LAYOUT}; record {number} is {quoted(record)}. Remove it.")
    return records


def _json(text: str, path: Path, line: int | None = None) -> Any:
    """The text, or one line of it, as a JSON value; or the list of the values on its lines. Numbers stay as they are
    written; NaN, which stands for a missing value, is null."""
    try:
        return parse_json(text, parse_int=str, parse_float=str, parse_constant=lambda _: None)
    except ValueError as error:
        told = error if isinstance(error, json.JSONDecodeError) else None
        if line is None and told and told.msg == "Extra data":  # behind a whole value: then there is one on each line
            return [_json(each, path, number) for number, each in lines_of(text)]
        where = line or (told and told.lineno)
        place = f"{path}, line {where}" if where else str(path)
        raise HeadcountError(f"{place}: {json_words(error)}. The file must hold {LAYOUT}.") from error


def _text(value: Any) -> str:
    """Empty where there is none."""
    if isinstance(value, bool):
        return str(value).lower()
    return value.strip() if isinstance(value, str) else ""
