"""What a study of kept units leaves behind: scores, the figure, units needed and ratios; for edges also the circuits at
the threshold."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, cast

from ..cache import write_file
from ..curves import Curve, compare
from ..figures import draw, save_figure
from ..results import csv_text
from ..scores.result import EdgeScores, HeadScores, Order
from .jobs import PanelResult
from .outputs import file_name, rounded, write_common
from .spec import KeptPanel, Study


def write_kept(folder: Path, study: Study, results: Sequence[Sequence[PanelResult]]) -> dict[str, Any]:
    """Write everything into the folder and return the summary."""
    panels = [[curve for result in panel for curve in result.curves] for panel in results]
    # Attention edges are scored prompt by prompt, and have no scores to keep.
    scores: list[HeadScores | EdgeScores] = [result.scores for panel in results for result in panel if result.scores]
    heads = [entry for entry in scores if isinstance(entry, HeadScores)]
    if heads:
        write_file(folder / "scores.csv", csv_text([row for entry in heads for row in entry.rows()]))
    for entry in heads:
        entry.save(folder / "scores" / file_name(f"{entry.task}-{entry.model}-{entry.method}"))
    settings = [cast(KeptPanel, panel) for panel in study.panels]
    threshold = settings[0].threshold
    _write_circuits(folder, panels, scores, threshold)
    summary = summarise(study, panels)
    curves = [curve for panel in panels for curve in panel]
    write_common(folder, study, curves, [entry.provenance for entry in scores], summary)
    titled = [(panel.title or curves[0].title, curves) for panel, curves in zip(settings, panels, strict=True)]
    save_figure(draw(titled, threshold=threshold, title=study.title), folder)
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


def summarise(study: Study, panels: Sequence[Sequence[Curve]]) -> dict[str, Any]:
    """Units needed at the threshold for every curve, and ratios between models with their direction in words."""
    entries, ratios = [], []
    for panel, curves in zip((cast(KeptPanel, panel) for panel in study.panels), panels, strict=True):
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
        "metric": curve.metric, "metric_all": rounded(metric[whole]), "metric_none": rounded(metric[none]),
        "accuracy_all": rounded(accuracy[whole]), "accuracy_none": rounded(accuracy[none]),
        "test_pairs": curve.pairs, "draws": curve.draws,
        "areas": {kind: rounded(area.value) for kind in ("CPR", "CMD") if (area := curve.area(kind)) is not None},
        # Edges may be thousands; their circuit has files of its own.
        "which": list(curve.ranking[: needed.value]) if needed.value is not None and curve.units == "heads" else [],
    }  # fmt: skip
