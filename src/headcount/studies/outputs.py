"""What a study leaves behind: curves.csv, scores, summary.json, the figure, the resolved TOML and provenance; for edges
also the circuits at the threshold."""

import json
import math
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, cast

from ..cache import write_file
from ..curves import Curve, compare
from ..figures import draw, save_figure
from ..provenance import versions
from ..results import csv_text
from ..scores.result import EdgeScores, HeadScores, Order
from .spec import Study

CSV_COLUMNS = ("model", "task", "units", "method", "order", "k", "metric", "value", "low", "high")


def write_outputs(
    folder: Path, study: Study, panels: Sequence[Sequence[Curve]], scores: Sequence[HeadScores | EdgeScores]
) -> dict[str, Any]:
    """Write everything into the folder and return the summary."""
    rows = [row for curves in panels for curve in curves for row in curve.rows()]
    write_file(folder / "curves.csv", csv_text([{key: row[key] for key in CSV_COLUMNS} for row in rows]))
    heads = [row for entry in scores if isinstance(entry, HeadScores) for row in entry.rows()]
    if heads:
        write_file(folder / "scores.csv", csv_text(heads))
    _write_circuits(folder, panels, scores, study.panels[0].threshold)
    write_file(folder / "study.toml", study.to_toml())
    summary = summarise(study, panels)
    write_file(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
    facts = {
        "versions": versions(),
        "scores": [entry.provenance for entry in scores],
        "curves": [curve.provenance for curves in panels for curve in curves],
    }
    write_file(folder / "provenance.json", json.dumps(facts, indent=1) + "\n")
    titled = [(panel.title or curves[0].title, curves) for panel, curves in zip(study.panels, panels, strict=True)]
    save_figure(draw(titled, threshold=study.panels[0].threshold, title=study.title), folder)
    return summary


def _write_circuits(
    folder: Path, panels: Sequence[Sequence[Curve]], scores: Sequence[HeadScores | EdgeScores], threshold: float
) -> None:
    """Scores of edges as safetensors with their names; and the smallest circuit of the first order that reaches the
    threshold, for MIB, for networkx and Gephi, and to be looked at."""
    curves = [curve for panel in panels for curve in panel]
    for entry in scores:
        if not isinstance(entry, EdgeScores):
            continue
        place = folder / "edges" / file_name(f"{entry.task}-{entry.model}")
        entry.save(place)
        own = (
            c for c in curves if (c.task, c.model) == (entry.task, entry.model) and c.order in ("absolute", "signed")
        )
        curve = next((c for c in own if c.mode == "keep"), None)
        needed = None if curve is None else curve.units_needed(threshold).value
        if curve is None or needed is None:
            continue
        circuit = entry.circuit(needed, by=cast(Order, curve.order))
        circuit.save_mib(place / "circuit.json")
        circuit.save_graphml(place / "circuit.graphml")
        circuit.save_svg(place / "circuit.svg")


def file_name(words: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-")


def summarise(study: Study, panels: Sequence[Sequence[Curve]]) -> dict[str, Any]:
    """Units needed at the threshold for every curve, and ratios between models with their direction in words."""
    entries, ratios = [], []
    for panel, curves in zip(study.panels, panels, strict=True):
        entries += [_entry(curve, panel.threshold) for curve in curves]
        for first, second in combinations(curves, 2):
            ratio = compare(first, second, panel.threshold)
            if ratio and first.order == second.order:
                facts = {"task": first.task, "order": first.order, **vars(ratio)}
                ratios.append({**facts, "ratio": ratio.value, "words": str(ratio)})
    return {"title": study.title, "curves": entries, "ratios": ratios}


def _entry(curve: Curve, threshold: float) -> dict[str, Any]:
    needed = curve.units_needed(threshold)
    metric, accuracy = curve.band(curve.metric).value, curve.band("accuracy").value
    whole, none = (-1, 0) if curve.mode == "keep" else (0, -1)
    return {
        "task": curve.task, "model": curve.model, "method": curve.method, "order": curve.order, "mode": curve.mode,
        "fill": curve.fill, "threshold": threshold, "units": curve.units, "total": curve.total,
        "needed": needed.value, "needed_low": needed.low, "needed_high": needed.high, "interval": needed.level,
        "warning": curve.warning(),
        "metric": curve.metric, "metric_all": _rounded(metric[whole]), "metric_none": _rounded(metric[none]),
        "accuracy_all": _rounded(accuracy[whole]), "accuracy_none": _rounded(accuracy[none]),
        "test_pairs": curve.pairs, "draws": curve.draws,
        "areas": {kind: _rounded(area.value) for kind in ("CPR", "CMD") if (area := curve.area(kind)) is not None},
        # Edges may be thousands; their circuit has files of its own.
        "which": list(curve.ranking[: needed.value]) if needed.value is not None and curve.units == "heads" else [],
    }  # fmt: skip


def _rounded(value: float) -> float | None:
    """Six digits; nothing where it is not a number, which JSON does not know."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
