"""`report.html` and `report.json` of a result: everything that a study found, to be looked at in a browser.

A study writes them when it ends, from what it has in memory. `headcount report FOLDER` writes the page again from
report.json; of older results, which have none, it makes what their tables and saved scores can say.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Generic, Protocol, cast

from pydantic import ValidationError
from typing_extensions import TypedDict

from ..core.errors import HeadcountError, in_short
from ..core.files import write_file
from ..core.progress import warn
from ..core.reading import reading_result
from ..core.saving import Row
from ..core.words import CHANCE_ORDERS, Mode
from ..models.gated_folder import is_sparse
from ..sweeps.curve import EXPLAINED
from ..tasks.texts import PromptTexts
from ..view.page.curves import bands_of, curve_data
from ..view.page.data import SCHEMA, CurveData, PanelData, PromptData, PromptSet, Provenance, Report
from ..view.page.html import page_html
from ..view.page.origin import origin_of
from ..view.page.training import training_report
from . import STUDIES
from .kind import Cell, Summary
from .outputs import POOLED, SUMMARY, TABLE, S, read_summary, repeats_of
from .panel import Panel
from .study import Study

DATA, PAGE = "report.json", "report.html"
FIRST_LOOK = {"explained": EXPLAINED, "change": "log_prob_change", "answers": "accepted"}


class OlderEntry(TypedDict, total=False):
    """What a summary says of a curve that older results do not say elsewhere; those of edges or roles say less."""

    threshold: float
    metric: str
    mode: Mode
    total: int
    test_pairs: int
    draws: int
    repeats: int
    warning: str | None
    which: list[str]


class OlderSummary(Summary, total=False):
    curves: list[OlderEntry]


@dataclass(frozen=True)
class Found(Generic[S]):
    """What a report is made from."""

    folder: Path
    summary: S
    """What summary.json says."""
    panels: list[PanelData]
    curves: list[CurveData]
    prompts: list[PromptSet]
    cells: Sequence[Sequence[Any]] = field(default=(), repr=False)
    """[panel][model]; none where a result is read from its files."""


class PageOf(Protocol):
    """The page of a kind of study: `page.py` in its folder; a kind without one shows its curves."""

    def page(self, found: Found[Summary]) -> Report: ...


def write_study_report(
    folder: Path, study: Study, cells: Sequence[Sequence[Cell]], tables: Sequence[Sequence[Row]], summary: Summary
) -> Path:
    """When a study ends. `tables`: the rows of each curve, in their order."""
    rows, curves, prompts, panels = iter(tables), list[CurveData](), list[PromptSet](), list[PanelData]()
    drawn = list(_drawn_together(study, cells))
    for number, (panel, row) in enumerate(drawn):
        first = row[0].curves[0]
        panels.append(PanelData(panel.title or first.title, getattr(panel, "threshold", None)))
        for cell in row:
            asked = None
            if texts := getattr(cell, "prompts", None):
                asked = _placed(prompts, _prompts(texts, number, first.units == "attention-edges", cell))
            for curve in cell.curves:
                curves.append(curve_data(curve, next(rows), number, repeats_of(cell, curve), asked))
    merged = [row for _, row in drawn]
    return _write(folder, _paged(Found(folder, summary, told_apart(panels, curves), curves, prompts, merged)))


def _drawn_together(study: Study, cells: Sequence[Sequence[Cell]]) -> Iterator[tuple[Panel, list[Cell]]]:
    """Panels that differ in their method alone are one, whose lines can be switched."""
    held: tuple[Panel, list[Cell]] | None = None
    for panel, row in zip(study.panels, cells, strict=False):  # a study under way has the first of its panels
        if held and panel.drawn_with(held[0]):
            held[1].extend(row)
        else:
            if held:
                yield held
            held = panel, list(row)
    if held:
        yield held


def _placed(prompts: list[PromptSet], own: PromptSet) -> int:
    """Where the texts stand; several methods have the same ones."""
    if own not in prompts:
        prompts.append(own)
    return prompts.index(own)


def told_apart(panels: Sequence[PanelData], curves: Sequence[CurveData]) -> list[PanelData]:
    """Panels of one title get what sets them apart behind it: their method, their fill."""
    ranked = sorted(curves, key=lambda curve: curve.order in CHANCE_ORDERS)
    first = {curve.panel: curve for curve in reversed(ranked)}
    found = []
    for number, panel in enumerate(panels):
        alike = [first[other] for other, one in enumerate(panels) if one.title == panel.title and other in first]
        words = [panel.title]
        if len({curve.method for curve in alike}) > 1:
            words.append(first[number].method)
        if len({curve.fill for curve in alike}) > 1:
            words.append(f"{first[number].fill} fill")
        found.append(replace(panel, title=", ".join(words)))
    return found


def write_report(folder: Path) -> Path:
    """The page of a folder again, from its report.json or, of an older result, from its other files."""
    if (folder / DATA).is_file():
        made = read_report(folder)
        if (folder / SUMMARY).exists():
            read_summary(folder)  # one that was changed or damaged has no page that says something else
        elif not is_sparse(folder):
            warn(f"{folder} has no {SUMMARY}; the page is made from {DATA} alone.")
        return _write(folder, made)
    with reading_result(folder):
        made = training_report(folder) if is_sparse(folder) else _paged(_from_files(folder))
    return _write(folder, made)


def read_report(folder: Path) -> Report:
    try:
        return SCHEMA.validate_json((folder / DATA).read_bytes())
    except (OSError, ValueError, ValidationError) as error:
        raise HeadcountError(
            f"{folder / DATA} is not the report of a result: {in_short(error, 90)}. Delete it, to make it from the"
            " other files."
        ) from error


def _write(folder: Path, report: Report) -> Path:
    with reading_result(folder):  # halves of surrogate pairs, which no file can hold
        data = report.to_json()
    write_file(folder / DATA, data + "\n")
    write_file(folder / PAGE, page_html("report", report.title, data))
    return folder / PAGE


def _paged(found: Found[Summary]) -> Report:
    kind = STUDIES.named(str(found.summary["kind"]))
    made: Report
    if kind.has("page"):
        made = cast(PageOf, kind.part("page")).page(found)
    else:
        made = Report(kind.name, str(found.summary["title"]))
    origin: Provenance = origin_of(found.folder, "headcount run study.toml", (DATA, PAGE))
    warned = list(dict.fromkeys([*made.warnings, *found.summary.get("warnings", [])]))
    panels, curves, prompts = found.panels, found.curves, found.prompts
    return replace(made, panels=panels, curves=curves, prompts=prompts, warnings=warned, provenance=origin)


def _prompts(texts: PromptTexts, panel: int, with_tokens: bool, cell: Cell) -> PromptSet:
    listed = [
        PromptData(text, other, answer, wrong or None, says, says_other, tokens if with_tokens else [])
        for text, other, answer, wrong, says, says_other, tokens in zip(
            texts.texts,
            texts.counterfactuals,
            texts.answers,
            texts.wrongs,
            texts.says,
            texts.says_counterfactual,
            texts.tokens,
            strict=True,
        )
    ]
    return PromptSet(panel, cell.curves[0].model, cell.curves[0].task, listed)


def _from_files(folder: Path) -> Found[Summary]:
    """An older result: bands are in curves.csv; what single prompts did was not kept."""
    for name in (SUMMARY, TABLE):
        if not (folder / name).is_file():
            raise HeadcountError(
                f"{folder} is not the output folder of a study or of sparsify: it has no {name}. Name one that holds"
                f" {SUMMARY} and {TABLE}, or sparse.json."
            )
    summary = cast(OlderSummary, read_summary(folder))
    with (folder / TABLE).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("repeat", POOLED) == POOLED]
    kind = STUDIES.named(str(summary["kind"]))
    names = ("model", "task", "units", "method", "order", "fill")
    groups = [list(own) for _, own in groupby(rows, key=lambda row: tuple(row[name] for name in names))]
    entries = summary.get("curves", [])
    told = dict(enumerate(entries)) if isinstance(entries, list) and len(entries) == len(groups) else {}
    panels, curves = list[PanelData](), list[CurveData]()
    places = dict[tuple[str, str], int]()
    for number, own in enumerate(groups):
        first, entry = own[0], told.get(number, OlderEntry())
        panel = places.setdefault((first["task"], first["fill"]), len(places))
        if panel == len(panels):
            panels.append(PanelData(first["task"], entry.get("threshold")))
        ks, bands = bands_of(cast(list[Row], own))
        metric = str(entry.get("metric") or next(name for name in bands if name != EXPLAINED))
        shown = FIRST_LOOK[kind.curves] if FIRST_LOOK[kind.curves] in bands else next(iter(bands))
        curves.append(
            CurveData(
                panel=panel,
                model=first["model"],
                task=first["task"],
                method=first["method"],
                order=first["order"],
                fill=first["fill"],
                units=first["units"],
                mode=entry.get("mode", "keep" if kind.curves == "explained" else "mask"),
                kind=kind.curves,
                metric=metric,
                shown=shown,
                total=int(entry.get("total", ks[-1])),
                ks=ks,
                prompts=int(entry.get("test_pairs", 0)),
                draws=int(entry.get("draws", 0)),
                repeats=int(entry.get("repeats", 1)),
                bands=bands,
                warning=entry.get("warning"),
                ranking=list(entry.get("which", [])),
            )
        )
    return Found(folder, summary, told_apart(panels, curves), curves, [])
