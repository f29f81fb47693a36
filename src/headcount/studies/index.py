"""A page over all results below a folder: a picture of each, a search, and two of them side by side."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ..core.errors import HeadcountError
from ..core.files import write_file
from ..models.gated_folder import FACTS
from ..view.page.data import Report, ResultData
from ..view.page.html import page_html
from .report import DATA, PAGE, read_report, write_report

INDEX = "index.html"
DEEPEST = 6
MARKS = (DATA, "summary.json", FACTS)
"""Files by which the folder of a result is known."""


def write_index(folder: Path) -> tuple[Path, int]:
    """Write index.html, and the reports that older results lack; how many results there are."""
    report = index_of(folder)
    place = folder / INDEX
    write_file(place, page_html("report", report.title, report.to_json()))
    return place, len(report.results)


def index_of(folder: Path) -> Report:
    if not folder.is_dir():
        raise HeadcountError(f"There is no folder {folder}. Name one that holds results, such as headcount-results.")
    results, refused = list[ResultData](), list[str]()
    for place in results_below(folder):
        try:
            results.append(_result(place, folder))
        except HeadcountError as error:  # one result that cannot be read is no reason not to see the others
            refused.append(str(error))
    if not results:
        why = f" {refused[0]}" if refused else ""
        raise HeadcountError(f"There are no results of a study or of sparsify in {folder} or below it.{why}")
    results.sort(key=lambda result: (result.made, result.path), reverse=True)
    return Report("index", f"Results in {folder.resolve().name}", look="index", results=results, warnings=refused)


def results_below(folder: Path) -> Iterator[Path]:
    """Folders of results, hidden ones left out; what lies inside a result is part of it."""
    for here, folders, files in os.walk(folder):
        place = Path(here)
        if any(mark in files for mark in MARKS):
            yield place
            folders[:] = []
        deep = len(place.relative_to(folder).parts) >= DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))


def _result(place: Path, folder: Path) -> ResultData:
    if not (place / PAGE).is_file() or not (place / DATA).is_file():
        write_report(place)
    report = read_report(place)
    path = place.relative_to(folder).as_posix()
    made = datetime.fromtimestamp((place / DATA).stat().st_mtime, UTC)
    curves = [
        replace(curve, ranking=[], by_prompt=None, attention=None, asked=None, said=None) for curve in report.curves
    ]
    models = list(dict.fromkeys(curve.model for curve in report.curves))
    if report.training:
        models = [report.training.base]
    tasks = list(dict.fromkeys(panel.title for panel in report.panels))
    return ResultData(
        path=path,
        kind=report.kind,
        title=report.title,
        page=PAGE if path == "." else f"{path}/{PAGE}",
        models=models,
        tasks=tasks,
        sentences=report.sentences,
        panels=report.panels,
        curves=curves,
        made=made.date().isoformat(),
    )
