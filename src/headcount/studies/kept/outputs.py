"""What a study of kept units leaves behind: scores, the figure, units needed and ratios; for edges also the circuits at
the threshold."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import cast

from typing_extensions import TypedDict

from ...core.files import write_file
from ...core.provenance import Facts
from ...core.saving import Row, csv_text
from ...core.words import AIMS, SCORE_ORDERS, Mode, ScoreOrder, Units
from ...rank.scores import EdgeScores, HeadScores
from ...sweeps import Closeness, Curve, Ratio, Repeats, compare_repeats
from ...view.head_map import draw_scores
from ...view.style import save_figure
from ..kind import Summary
from ..outputs import cannot_do, facts_of, file_names, rounded, summary_of
from ..study import Study
from .controls import ControlEntry, control_entries
from .figure import draw
from .settings import Kept, ScoredKept
from .steps import KeptCell
from .tasks import TasksEntry, draw_tasks, served
from .tasks import entries as task_entries
from .tasks import rows as task_rows
from .words import answer, firmness


class ClosenessEntry(TypedDict):
    """How close prompts are to the whole model, in multiples of the mean effect."""

    distance: float | None  # mean |1 - f|
    near: float | None  # share of the prompts within 0.25
    kl: float | None


class StabilityEntry(TypedDict):
    """How steady the first heads are over repeats."""

    k: int  # what is needed
    jaccard: float  # mean overlap of two repeats
    by_chance: float
    shares: dict[str, float]  # head -> share of the repeats that have it
    words: str


class KeptEntry(TypedDict):
    """One curve."""

    task: str
    model: str
    method: str
    order: str
    mix: float | None  # share of the most helpful units in the order `best`; none in the others
    mixes: list[float]  # of every repeat, which chooses its own
    mode: Mode
    fill: str
    threshold: float
    units: Units
    total: int
    needed: int | None  # to be faithful: neither too little nor too much; none where that never happens
    needed_low: int | None  # over the test prompts; with repeats also over rankings
    needed_high: int | None
    interval: float  # its level
    repeats: int
    needed_range: list[int]  # the smallest and the largest of the repeats
    stays: int | None  # from which it stays faithful
    reached: int | None  # at least the threshold, however far beyond
    reached_low: int | None
    reached_high: int | None
    closeness: ClosenessEntry | None  # at the units needed, prompt by prompt
    confirmed_units: int | None  # chosen on one half of the test prompts
    confirmed: float | None  # explained effect with them on the other half
    confirmed_low: float | None
    confirmed_high: float | None
    warning: str | None  # why explained effect, or its interval, means little here
    metric: str
    metric_all: float | None
    metric_none: float | None
    accuracy_all: float | None
    accuracy_none: float | None
    test_pairs: int  # of all repeats
    draws: int
    areas: dict[str, float | None]  # MIB's, of edges
    title: str  # of its panel, as the figure has it
    words: str  # the answer in a sentence; empty for chance
    stability: StabilityEntry | None  # of the first heads over the repeats; none of a single one
    which: list[str]  # the heads needed, by their mean rank over all repeats; of edges, which may be thousands, none
    which_explained: float | None  # what these very heads explain, over the prompts of all repeats; leave, if masked
    which_low: float | None
    which_high: float | None


class RatioEntry(TypedDict):
    """Two models in one order; the one that needs more stands first."""

    task: str
    order: str
    fill: str
    more: str
    fewer: str
    more_units: int
    fewer_units: int
    units: Units
    ratio: float
    ratio_low: float
    ratio_high: float
    words: str


class SearchEntry(TypedDict):
    """How few heads a search finds on the train split, and how many the ranking takes there."""

    task: str
    model: str
    method: str
    fill: str
    threshold: float
    ranked: int
    found: int
    gap: int
    explained: float
    optimal: bool  # True where all smaller sets have been tried
    heads: list[str]
    words: str


class KeptSummary(Summary):
    curves: list[KeptEntry]
    ratios: list[RatioEntry]
    searches: list[SearchEntry]
    controls: list[ControlEntry]
    tasks: list[TasksEntry]  # of models with several tasks


def write(folder: Path, study: Study, cells: Sequence[Sequence[KeptCell]]) -> KeptSummary:
    """Write everything into the folder and return the summary: units needed at the threshold for every curve, and
    ratios between models with their direction in words."""
    flat, table = [cell for row in cells for cell in row], list[Row]()
    several = len({fill for cell in flat for fill in cell.panel.fills}) > 1
    by_method = len({cell.panel.methods for cell in flat if isinstance(cell.panel, ScoredKept)}) > 1
    named = [_names(cell, by_method, str(cell.panel.fill) if several else "") for cell in flat]
    for cell, name in zip(flat, file_names(named), strict=True):
        if isinstance(cell.scores, HeadScores):
            asked = {"mode": cell.curves[0].mode, "fill": str(cell.panel.fill)}
            table += [{**row, **asked} for row in cell.scores.rows()]
            cell.scores.save(folder / "scores" / name)
        if isinstance(cell.scores, EdgeScores):
            _write_circuit(folder / "edges" / name, cell.scores, cell.curves, cell.panel.threshold)
    if table:
        write_file(folder / "scores.csv", csv_text(table))
    repeats = {curve: cell.repeats(curve) for cell in flat for curve in cell.curves}
    sets = {curve: cell.named[curve.order] for cell in flat for curve in cell.curves if curve.order in cell.named}
    panels = [[curve for cell in row for curve in cell.curves] for row in cells]
    titled, thresholds = _drawn([row[0].panel for row in cells], panels)
    if maps := [cell.scores for cell in flat if isinstance(cell.scores, HeadScores)]:
        save_figure(draw_scores(maps), folder, "heads")
    controlled = {cell.controlled: cell for cell in flat if cell.controlled}
    lines = {curve: cell.controls for curve, cell in controlled.items()}
    figure = draw(titled, threshold=thresholds, title=study.title, width=study.width, repeats=repeats, controls=lines)
    save_figure(figure, folder)
    together = served(flat)
    if together:
        save_figure(draw_tasks(together), folder, "tasks")
        write_file(folder / "tasks.csv", csv_text(task_rows(together)))
    entries, ratios = list[Facts](), list[Facts]()
    for row, curves in zip(cells, panels, strict=True):
        by_chance = {curve.model: curve for curve in curves if curve.order == "chance"}
        for curve in curves:
            title = row[0].panel.title or curve.title
            beside = by_chance.get(curve.model), sets.get(curve)
            entries.append(_entry(curve, repeats[curve], row[0].panel.threshold, title, *beside))
        for first, second in combinations(curves, 2):
            if first.order != second.order:
                continue
            if ratio := compare_repeats(repeats[first], repeats[second], row[0].panel.threshold):
                ratios.append({**facts_of(first, "task", "order", "fill"), **_ratio(ratio)})
    searches = [_search(cell) for row in cells for cell in row if cell.searched]
    found = [control_entries(curve, cell.controls, cell.panel.threshold) for curve, cell in controlled.items()]
    controls = [entry for own in found for entry in own]
    warned: dict[tuple[str, object], str] = {}  # of each panel and model once, in the first of its orders
    for entry in (entry for entry in entries if entry["warning"]):
        where = f"{entry['title']}, {entry['model']}"
        warned.setdefault((where, entry["fill"]), f"{where}: {entry['warning']}")
    pooled = sorted((each.pooled for each in repeats.values()), key=lambda curve: curve.pairs)
    asked_most = {(curve.task, curve.model): curve for curve in pooled}  # orders by chance see one repeat's prompts
    told = [*dict.fromkeys(warned.values()), *cannot_do(asked_most.values())]
    more = {"searches": searches, "controls": controls, "tasks": task_entries(together)}
    return summary_of(KeptSummary, study, warnings=told, curves=entries, ratios=ratios, **more)


def _drawn(panels: Sequence[Kept], curves: Sequence[list[Curve]]) -> tuple[list[tuple[str, list[Curve]]], list[float]]:
    """What each panel of the figure shows, and its threshold: panels that differ in their method alone are one."""
    found, thresholds = list[tuple[str, list[Curve]]](), list[float]()
    for number, (panel, own) in enumerate(zip(panels, curves, strict=True)):
        if number and panel.drawn_with(panels[number - 1]):
            found[-1][1].extend(own)
        else:
            found.append((own[0].title, list(own)))
            thresholds.append(panel.threshold)
    return found, thresholds


def _names(cell: KeptCell, by_method: bool, fill: str) -> list[str]:
    """What the files of a cell are called by."""
    scores = cell.scores
    if scores is None:
        return []
    method = [scores.method] if by_method or isinstance(scores, HeadScores) else []
    return [scores.task, scores.model, *method, *([fill] if fill else [])]


def _search(cell: KeptCell) -> Facts:
    assert cell.searched is not None
    found = cell.searched
    told = facts_of(found, "task", "model", "method", "threshold", "ranked", "gap", "explained", "optimal")
    more = {"fill": str(cell.panel.fill), "found": len(found.heads), "heads": list(found.heads), "words": str(found)}
    return {**told, **more}


def _ratio(ratio: Ratio) -> Facts:
    ends = {"ratio": ratio.value, "ratio_low": rounded(ratio.low), "ratio_high": rounded(ratio.high)}
    return {**facts_of(ratio, "more", "fewer", "more_units", "fewer_units", "units"), **ends, "words": str(ratio)}


def _write_circuit(place: Path, scores: EdgeScores, curves: Sequence[Curve], threshold: float) -> None:
    """Scores of edges as safetensors with their names; and the smallest circuit of the first order that is faithful
    at the threshold, for MIB, for networkx and Gephi, and to be looked at."""
    scores.save(place)
    curve = next((curve for curve in curves if curve.order in SCORE_ORDERS and curve.mode == "keep"), None)
    needed = None if curve is None else curve.first_k(threshold)
    if curve is not None and needed is not None:
        circuit = scores.circuit(needed, by=cast(ScoreOrder, curve.order), mix=curve.mix)
        circuit.save_mib(place / "circuit.json")
        circuit.save_graphml(place / "circuit.graphml")
        circuit.save_svg(place / "circuit.svg")


def _entry(
    curve: Curve, repeats: Repeats, threshold: float, title: str, chance: Curve | None, named: Repeats | None
) -> Facts:
    """Of all repeats together; `named` are those with the heads that are named."""
    needed, reached = (repeats.units_needed(threshold, aim=aim) for aim in AIMS)
    pooled, confirmed = repeats.pooled, repeats.by_prompt.confirmed(threshold)
    metric, accuracy = pooled.band(curve.metric).value, pooled.band("accuracy").value
    whole, none = (-1, 0) if curve.mode == "keep" else (0, -1)
    names = list(repeats.ranking[: needed.value]) if needed.value is not None and curve.units == "heads" else []
    together = None if named is None or needed.value is None else named.by_prompt.at(needed.value)
    of_names = together or (pooled.at(len(names)) if names else None)
    return {
        **facts_of(curve, "task", "model", "method", "order", "mix", "mode", "fill"),
        "mixes": [one.mix for one in repeats.curves if one.mix is not None],
        "threshold": threshold,
        **facts_of(curve, "units", "total"),
        "needed": needed.value,
        "needed_low": needed.low,
        "needed_high": needed.high,
        "interval": needed.level,
        "repeats": len(repeats.curves),
        "needed_range": list(needed.span),
        "stays": needed.stays,
        "reached": reached.value,
        "reached_low": reached.low,
        "reached_high": reached.high,
        "closeness": None if needed.value is None else _closeness(pooled.closeness(needed.value)),
        "confirmed_units": confirmed.k if confirmed else None,
        "confirmed": rounded(confirmed.value) if confirmed else None,
        "confirmed_low": rounded(confirmed.low) if confirmed else None,
        "confirmed_high": rounded(confirmed.high) if confirmed else None,
        "warning": pooled.warning() or curve.too_few(),  # repeats may share a file's prompts
        "metric": curve.metric,
        "metric_all": rounded(metric[whole]),
        "metric_none": rounded(metric[none]),
        "accuracy_all": rounded(accuracy[whole]),
        "accuracy_none": rounded(accuracy[none]),
        "test_pairs": pooled.pairs,
        "draws": curve.draws,
        "areas": {kind: rounded(area.value) for kind in ("CPR", "CMD") if (area := pooled.area(kind)) is not None},
        "stability": _stability(repeats, threshold) if curve.units == "heads" else None,
        "which": names,
        "which_explained": rounded(of_names.value) if of_names else None,
        "which_low": rounded(of_names.low) if of_names else None,
        "which_high": rounded(of_names.high) if of_names else None,
        "title": title,
        "words": answer(title, repeats, needed, chance, together) if curve.order in SCORE_ORDERS else "",
    }


def _stability(repeats: Repeats, threshold: float) -> Facts | None:
    found = repeats.stability(threshold=threshold)
    if found is None:
        return None
    told = {"shares": found.shares, "words": firmness(repeats, found.k)}
    return {**facts_of(found, "k", "jaccard", "by_chance"), **told}


def _closeness(found: Closeness) -> Facts:
    return {name: rounded(getattr(found, name)) for name in ("distance", "near", "kl")}
