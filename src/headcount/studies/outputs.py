"""What every study leaves behind beside its own tables: its curves, the resolved TOML, provenance, the summary."""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NotRequired, TypeVar, cast

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ..core.checksums import BLANK, is_as_stamped, stamped
from ..core.errors import HeadcountError
from ..core.files import fill_folder, write_file
from ..core.keys import digest
from ..core.provenance import Facts, versions
from ..core.reading import RUN_AGAIN, read_facts
from ..core.saving import STAMP, Row, csv_text
from ..sweeps import Curve, Repeats
from ..sweeps.guessing import guessing
from .kind import Cell, Summary
from .study import Study

S = TypeVar("S", bound=Summary)
SUMMARY_VERSION = 2
LONGEST_NAME = 120
SUMMARY, PROVENANCE, STUDY, CURVES = "summary.json", "provenance.json", "study.toml", "curves"
TABLE = "curves.csv"
"""Where `headcount.open` finds them; curves lie in a folder each."""
CSV_COLUMNS = tuple("model task units method order mode fill repeat k metric value low high".split())
POOLED = "all"
"""What the column `repeat` of curves.csv says of the curve that the figure draws; each repeat alone has its number."""


class StepNamed(TypedDict):
    key: str
    label: str


class CurveFolders(TypedDict):
    first: list[str]
    again: list[str]


class Provenance(TypedDict):
    """What provenance.json says."""

    versions: dict[str, str]
    scores: list[Facts]
    curves: list[Facts]
    curve_folders: CurveFolders
    steps: list[StepNamed]
    files: NotRequired[list[str]]


@contextmanager
def results(folder: Path) -> Iterator[Path]:
    """Where a study writes what it leaves behind, `write_common` included. All of it then moves into the output folder,
    in the place of what an earlier study has left there; files of others stay."""
    with fill_folder(folder, PROVENANCE, lambda: _files_of(folder)) as unfinished:
        yield unfinished
        names = sorted(str(path.relative_to(unfinished)) for path in unfinished.rglob("*") if path.is_file())
        facts = json.loads((unfinished / PROVENANCE).read_text(encoding="utf-8"))
        write_file(unfinished / PROVENANCE, json.dumps({**facts, "files": names}, indent=1) + "\n")


def _files_of(folder: Path) -> list[str]:
    """What an earlier study says that it has written into a folder."""
    try:
        listed = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))["files"]
        return [name for name in listed if isinstance(name, str) and name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def holds_another(folder: Path, study: Study) -> bool:
    """Whether the results of another study are in a folder."""
    try:
        return (folder / STUDY).read_text(encoding="utf-8") != study.to_toml()
    except (OSError, UnicodeDecodeError):
        return False


def write_common(
    folder: Path, study: Study, cells: Sequence[Cell], summary: Summary, steps: Sequence[StepNamed]
) -> list[list[Row]]:
    """`steps`: the keys and labels of those that the result was made from, as the cache has them. Returns the rows of
    each curve, of its repeats together, which take a moment to compute."""
    curves = [curve for cell in cells for curve in cell.curves]
    repeats = [repeats_of(cell, curve) for cell in cells for curve in cell.curves]
    tables = [own.pooled.rows() for own in repeats]
    rows = [{"repeat": POOLED, **row} for table in tables for row in table]
    rows += [row for own in repeats for row in _rows_of_each(own)]
    write_file(folder / TABLE, csv_text([{key: row[key] for key in CSV_COLUMNS} for row in rows], CSV_COLUMNS))
    write_file(folder / STUDY, study.to_toml())
    again = [curve for cell in cells for curve in getattr(cell, "again", ())]
    names = _save_curves(folder / CURVES, [*curves, *again])
    told = json.dumps({**summary, STAMP: BLANK.decode()}, indent=1) + "\n"
    write_file(folder / SUMMARY, stamped(told.encode()))
    origins = [cell.scores.provenance for cell in cells if hasattr(cell.scores, "provenance")]
    facts = Provenance(
        versions=versions(),
        scores=origins,
        curves=[curve.provenance for curve in curves],
        curve_folders={"first": names[: len(curves)], "again": names[len(curves) :]},
        steps=list(steps),
    )
    write_file(folder / PROVENANCE, json.dumps(facts, indent=1) + "\n")
    return tables


def repeats_of(cell: Cell, curve: Curve) -> Repeats:
    """A curve of a cell, and the same in its other repeats, where its kind of study has any."""
    own: Callable[[Curve], Repeats] | None = getattr(cell, "repeats", None)
    return own(curve) if own else Repeats((curve,))


def _rows_of_each(repeats: Repeats) -> list[Row]:
    """Of repeats alone, where there are several."""
    numbered = enumerate(repeats.curves, start=1) if len(repeats.curves) > 1 else ()
    return [{"repeat": number, **row} for number, curve in numbered for row in curve.rows()]


def read_summary(folder: Path) -> Summary:
    """What summary.json says; an error where it is not as it was written."""
    summary = read_facts(folder / SUMMARY)
    # Without a hash: of an older headcount, or changed on purpose.
    if STAMP in summary and not is_as_stamped((folder / SUMMARY).read_bytes(), str(summary.pop(STAMP))):
        raise HeadcountError(
            f"{folder / SUMMARY} is not as it was written. {RUN_AGAIN} If you changed it, remove {STAMP!r} there."
        )
    return cast(Summary, summary)


def _save_curves(folder: Path, curves: Sequence[Curve]) -> list[str]:
    """Each into a folder of its own, whose name says what it is; the names."""
    names: list[str] = []
    told = [(curve.task, curve.model, curve.method, curve.order, curve.fill) for curve in curves]
    for curve, words in zip(curves, file_names(told), strict=True):
        number = sum(name.partition("~")[0] == words for name in names) + 1
        names.append(words if number == 1 else f"{words}~{number}")
        curve.save(folder / names[-1])
    return names


def summary_of(schema: type[S], study: Study, **more: object) -> S:
    """What every summary begins with, and what this kind says beyond it; an error where that is not its type."""
    facts = {"version": SUMMARY_VERSION, "kind": study.kind.name, "title": study.title, "warnings": [], **more}
    return TypeAdapter(schema).validate_python(facts, extra="forbid")


def cannot_do(curves: Iterable[Curve]) -> list[str]:
    """What to say of models that only guess."""
    return list(dict.fromkeys(words for curve in curves if (words := guessing(curve)) is not None))


def facts_of(thing: object, *names: str) -> Facts:
    """Attributes by their names."""
    return {name: getattr(thing, name) for name in names}


def file_names(things: Sequence[Sequence[str]]) -> list[str]:
    """A file name for each, from the words that it is known by. Different words never share a name, also where a disk
    knows no case or a name says the same in other letters; the same words always do."""
    words = [tuple(each) for each in things]
    plain = [re.sub(r"[^\w.-]+", "-", "-".join(each)).strip("-.")[:LONGEST_NAME] for each in words]
    owners: dict[str, set[tuple[str, ...]]] = {}
    for each, name in zip(words, plain, strict=True):
        owners.setdefault(_same(name), set()).add(each)
    alone = [len(owners[_same(name)]) == 1 and 0 < len(name) < LONGEST_NAME for name in plain]
    told = zip(words, plain, alone, strict=True)
    return [name if own else f"{name}-{digest(each, 8)}".strip("-") for each, name, own in told]


def _same(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def rounded(value: float | None) -> float | None:
    """Six digits; nothing where it is not a number, which JSON does not know."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def all_rounded(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: rounded(value) for name, value in values.items()}
