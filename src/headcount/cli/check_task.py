"""`headcount tasks check FILE`: line by line what a study reads in a task of one's own, and what usually goes wrong."""

import json
from dataclasses import asdict
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import HeadcountError
from ..core.files import write_file
from ..core.plain import plain, quoted
from ..core.provenance import Facts
from ..view.tables import print_table
from .app import BaseOption, DeviceOption, DtypeOption, JsonOption, RevisionOption, load_model, print_json, tasks_app

if TYPE_CHECKING:
    from ..tasks.checking import FileCheck, LineCheck

SHOWN = 40
"""Lines of the table, unless told otherwise."""
FIX_HELP = "Write the file again with a space in front of answers that lack it, beside the old one."


@tasks_app.command("check")
def check_task(
    task: Annotated[str, typer.Argument(help="A JSONL, CSV or Parquet file, or dataset:NAME.")],
    model: Annotated[str, typer.Option(help="Model to check the file with.")] = "smollm2",
    fix_space: Annotated[bool, typer.Option("--fix-space", help=FIX_HELP)] = False,
    lines: Annotated[int, typer.Option(help="How many lines to show.")] = SHOWN,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    revision: RevisionOption = None,
    base_model: BaseOption = None,
    bos: Annotated[bool, typer.Option("--bos", help="Put the beginning-of-text token in front of prompts.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a task file of your own. Reports line by line what a study reads, and how the model does on it.

    Exit code 0: studies take the file, or the one that --fix-space wrote. 1: they refuse it, for what is reported.
    2: it cannot be read as a task, and nothing was checked.
    """
    from ..tasks.entries import is_own, read_entries

    if not is_own(task):
        got = quoted(task) if task else "an empty name"
        raise HeadcountError(f"A task of your own is a file (.jsonl, .csv, .parquet) or dataset:NAME; got {got}.")
    entries = read_entries(task)
    if not entries:
        raise HeadcountError(f"The task {quoted(task)} is empty. It needs one example per line.")
    loaded = load_model(model, device, dtype, revision, base_model, bos)
    from ..tasks.checking import check_entries, why_refused, with_spaces

    found = check_entries(loaded, entries, Path(task).name)
    warnings = [*found.warnings, *_words(found, loaded.name, Path(task).name)]
    refused = found.refused
    fixed = Path(task).with_suffix(".spaced.jsonl") if fix_space and found.without_space else None
    if fixed is not None:
        spaced = with_spaces(entries, found.without_space)
        write_file(fixed, "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in spaced.values()))
        refused = why_refused(loaded, dict(enumerate(spaced.values(), start=1)), fixed.name)
    if as_json:
        print_json(_facts(found, warnings) | ({"fixed": str(fixed), "fixed_refused": refused} if fixed else {}))
    else:
        _print_lines(found, lines)
        for warning in warnings:
            _say(f"Warning: {warning}")
        if fixed is not None:
            _say(f"{_lines(len(found.without_space))} a space in front of answers now: {fixed}")
            if refused:
                _say(f"Warning: no study takes that file yet: {refused}")
        elif fix_space:
            print("No answer lacks a space in front.")
    if refused:
        raise typer.Exit(1)


def _facts(found: "FileCheck", warnings: list[str]) -> Facts:
    """All lines, whatever --lines says."""
    counts = {"used": len(found.used), "accuracy": found.accuracy, "chance": found.chance}
    return {**counts, "refused": found.refused, "warnings": warnings, "lines": [asdict(line) for line in found.lines]}


def _print_lines(found: "FileCheck", most: int) -> None:
    """One row per example, and then what is to be said of lines, one by one."""
    if rows := [_row(line) for line in found.used[:most]]:
        print_table(("line", "prompt tokens", "answer", "probability", "correct", "the model says"), rows)
    if len(found.used) > most:
        print(f"{len(found.used) - most} more examples (--lines).")
    told = [(line.number, line.error or "; ".join(line.warnings), bool(line.error)) for line in found.lines]
    for number, words, refused in [each for each in told if each[1]][:most]:
        _say(f"Line {number}{' is REFUSED' if refused else ''}: {plain(words)}")
    used, wrong = len(found.used), sum(bool(line.error) for line in found.lines)
    right = f" Accuracy {found.accuracy:.2f}; guessing gives {found.chance:.2f}." if used else ""
    print(f"{_count(len(found.lines), 'line')}: {_count(used, 'example')}{f', {wrong} refused' * bool(wrong)}.{right}")
    if used:
        said = "An answer is correct where it is more probable than all wrong ones or other choices"
        _say(f"{said}; where there are none, than every other token.")


def _say(words: str) -> None:
    print("\n    ".join(wrap(words, max(get_terminal_size().columns - 4, 40))))


def _row(line: "LineCheck") -> tuple[str, ...]:
    more = f" ({line.answer_tokens} tokens)" if line.answer_tokens > 1 else ""
    answer = f"{quoted(line.answer, 24)}{more}"
    right = "yes" if line.right else "no"
    return str(line.number), str(line.prompt_tokens), answer, f"{line.probability:.1%}", right, repr(line.said)


def _words(found: "FileCheck", model: str, name: str) -> list[str]:
    """Of the file as a whole."""
    from ..sweeps.guessing import words_of_guessing

    told = []
    if spaces := len(found.without_space):
        told.append(f"{_lines(spaces)} answers without a space in front, where a model writes one: try --fix-space.")
    if twice := sum(line.repeats is not None for line in found.lines):
        one = "1 line repeats an earlier one, and does not count."
        told.append(one if twice == 1 else f"{twice} lines repeat earlier ones, and do not count.")
    if found.refused:
        told.append(f"no study takes this file: {found.refused}")
    if found.used:
        told += filter(None, [words_of_guessing(model, name, found.accuracy, len(found.used), found.chance)])
    return told


def _lines(count: int) -> str:
    return f"{_count(count, 'line')} {'has' if count == 1 else 'have'}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
