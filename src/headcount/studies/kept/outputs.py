"""What a study of kept units leaves behind: scores, the figure, units needed and ratios; for edges also the circuits at
the threshold."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import cast

from typing_extensions import TypedDict

from ...core.files import write_file
from ...core.provenance import Facts
from ...core.saving import csv_text
from ...core.words import SCORE_ORDERS, Mode, ScoreOrder, Units
from ...rank.scores import EdgeScores, HeadScores
from ...sweeps import Curve, compare
from ...view.style import save_figure
from ..kind import Summary
from ..outputs import facts_of, file_name, rounded, summary_of
from ..study import Study
from .figure import draw
from .steps import KeptCell


class KeptEntry(TypedDict):
    """One curve."""

    task: str
    model: str
    method: str
    order: str
    mix: float | None  # share of the most helpful units in the order `best`; none in the others
    mode: Mode
    fill: str
    threshold: float
    units: Units
    total: int
    needed: int | None  # none where the threshold is never reached
    needed_low: int | None
    needed_high: int | None
    interval: float  # its level
    warning: str | None  # why explained effect means little here
    metric: str
    metric_all: float | None
    metric_none: float | None
    accuracy_all: float | None
    accuracy_none: float | None
    test_pairs: int
    draws: int
    areas: dict[str, float | None]  # MIB's, of edges
    which: list[str]  # the heads needed; of edges, which may be thousands, the circuit has files of its own


class RatioEntry(TypedDict):
    """Two models in one order; the one that needs more stands first."""

    task: str
    order: str
    more: str
    fewer: str
    more_units: int
    fewer_units: int
    units: Units
    ratio: float
    words: str


class KeptSummary(Summary):
    curves: list[KeptEntry]
    ratios: list[RatioEntry]


def write(folder: Path, study: Study, cells: Sequence[Sequence[KeptCell]]) -> KeptSummary:
    """Write everything into the folder and return the summary: units needed at the threshold for every curve, and
    ratios between models with their direction in words."""
    threshold, table = cells[0][0].panel.threshold, []
    for cell in (cell for row in cells for cell in row):
        if isinstance(cell.scores, HeadScores):
            table += cell.scores.rows()
            name = f"{cell.scores.task}-{cell.scores.model}-{cell.scores.method}"
            cell.scores.save(folder / "scores" / file_name(name))
        if isinstance(cell.scores, EdgeScores):
            _write_circuit(folder, cell.scores, cell.curves, threshold)
    if table:
        write_file(folder / "scores.csv", csv_text(table))
    panels = [[curve for cell in row for curve in cell.curves] for row in cells]
    titled = [(row[0].panel.title or curves[0].title, curves) for row, curves in zip(cells, panels, strict=True)]
    save_figure(draw(titled, threshold=threshold, title=study.title), folder)
    entries, ratios = list[Facts](), list[Facts]()
    for row, curves in zip(cells, panels, strict=True):
        entries += [_entry(curve, row[0].panel.threshold) for curve in curves]
        for first, second in combinations(curves, 2):
            ratio = compare(first, second, row[0].panel.threshold)
            if ratio and first.order == second.order:  # the one that needs more stands first
                found = {**facts_of(first, "task", "order"), **vars(ratio), "ratio": ratio.value}
                ratios.append({**found, "words": str(ratio)})
    return summary_of(KeptSummary, study, curves=entries, ratios=ratios)


def _write_circuit(folder: Path, scores: EdgeScores, curves: Sequence[Curve], threshold: float) -> None:
    """Scores of edges as safetensors with their names; and the smallest circuit of the first order that reaches the
    threshold, for MIB, for networkx and Gephi, and to be looked at."""
    place = folder / "edges" / file_name(f"{scores.task}-{scores.model}")
    scores.save(place)
    curve = next((curve for curve in curves if curve.order in SCORE_ORDERS and curve.mode == "keep"), None)
    needed = None if curve is None else curve.units_needed(threshold).value
    if curve is not None and needed is not None:
        circuit = scores.circuit(needed, by=cast(ScoreOrder, curve.order), mix=curve.mix)
        circuit.save_mib(place / "circuit.json")
        circuit.save_graphml(place / "circuit.graphml")
        circuit.save_svg(place / "circuit.svg")


def _entry(curve: Curve, threshold: float) -> Facts:
    needed = curve.units_needed(threshold)
    metric, accuracy = curve.band(curve.metric).value, curve.band("accuracy").value
    whole, none = (-1, 0) if curve.mode == "keep" else (0, -1)
    named = needed.value is not None and curve.units == "heads"
    return {
        **facts_of(curve, "task", "model", "method", "order", "mix", "mode", "fill"),
        "threshold": threshold,
        **facts_of(curve, "units", "total"),
        "needed": needed.value,
        "needed_low": needed.low,
        "needed_high": needed.high,
        "interval": needed.level,
        "warning": curve.warning(),
        "metric": curve.metric,
        "metric_all": rounded(metric[whole]),
        "metric_none": rounded(metric[none]),
        "accuracy_all": rounded(accuracy[whole]),
        "accuracy_none": rounded(accuracy[none]),
        "test_pairs": curve.pairs,
        "draws": curve.draws,
        "areas": {kind: rounded(area.value) for kind in ("CPR", "CMD") if (area := curve.area(kind)) is not None},
        "which": list(curve.ranking[: needed.value]) if named else [],
    }
