"""The report of a study of what is kept: units needed in a sentence each, maps of heads, circuits."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...core.errors import HeadcountError
from ...core.words import CHANCE_ORDERS, SCORE_ORDERS, ScoreOrder, in_words
from ...edit import Fill
from ...rank.scores import EdgeScores, HeadScores
from ...sweeps.curve import Interval
from ...sweeps.needed import words_of_repeats
from ...view.page.curves import control_data
from ...view.page.data import CircuitData, ControlData, CurveData, MapData, PanelData, Report
from ...view.page.maps import map_data, order_data
from ..report import Found
from .words import named, of_named

if TYPE_CHECKING:
    from .controls import ControlEntry
    from .outputs import KeptEntry, KeptSummary


def page(found: "Found[KeptSummary]") -> Report:
    entries = found.summary["curves"]
    beside = list(zip(entries, found.curves, strict=True))
    ranked = [(e, c) for e, c in beside if e["order"] not in CHANCE_ORDERS] or beside
    first: dict[tuple[int, str, str], KeptEntry] = {}
    for entry, curve in ranked:  # of each panel, model and method, the order that stands first
        first.setdefault((curve.panel, curve.model, curve.method), entry)
    several = {panel for panel, *_ in first if len({method for at, _, method in first if at == panel}) > 1}
    sentences = [
        _needed(entry, found.panels[panel], f", ranked by {method}" if panel in several else "")
        for (panel, _, method), entry in first.items()
    ]
    orders = {entry["order"] for entry in first.values()}
    compared = [*(r for r in found.summary["ratios"] if r["order"] in orders), *found.summary.get("searches", [])]
    titles = {(curve.task, curve.fill): found.panels[curve.panel].title for curve in reversed(found.curves)}
    sentences += [f"{titles.get((one['task'], one['fill']), one['task'])}: {one['words']}." for one in compared]
    controls = [_control(entry) for entry in found.summary.get("controls", [])]
    warned = {  # of each panel and model once, in the first of its orders
        (c.panel, e["model"]): f"{found.panels[c.panel].title}, {e['model']}: {e['warning']}"
        for e, c in reversed(beside)
        if e["warning"]
    }
    return Report(
        kind=str(found.summary["kind"]),
        title=str(found.summary["title"]),
        sentences=sentences,
        warnings=list(dict.fromkeys(reversed(warned.values()))),
        caveats=[*_caveats(entries), *controls],
        controls=list(_controls(found)),
        maps=list(_maps(found)),
        circuits=list(_circuits(found)),
    )


def _needed(entry: "KeptEntry", panel: PanelData, ranked: str) -> str:
    share, units, total = f"{entry['threshold']:.0%}".replace("%", " %"), in_words(entry["units"]), entry["total"]
    effect = f"{share} of {panel.title}"
    if entry["needed"] is None:
        return f"{entry['model']} does not come to {effect} with any of its first {total:,} {units}{ranked}."
    low, high = (total if end is None else end for end in (entry["needed_low"], entry["needed_high"]))
    needed = f"{entry['needed']:,}"
    some, span = f"{needed} of {total:,} {units}", f"{low:,} to {high:,}{ranked}"
    said = f"{entry['model']} needs {some} for {effect}, {span}"
    if entry["mode"] == "mask":
        said = f"{entry['model']} loses {effect} with {some} masked, {span}"
    if names := named(entry.get("which", []), entry["needed"]):
        said += f": {names}"
    stability = entry.get("stability")
    firm = stability.get("words", "") if stability else ""  # older summaries say less
    apart = words_of_repeats(entry["needed"], entry["needed_range"]).removesuffix(".")
    return ". ".join(filter(None, [said, _as_a_set(entry), firm, apart])) + "."


def _as_a_set(entry: "KeptEntry") -> str:
    """What the named heads explain, where repeats kept others; older summaries do not know."""
    value, low, high = entry.get("which_explained"), entry.get("which_low"), entry.get("which_high")
    if entry["repeats"] == 1 or entry["needed"] is None or value is None or low is None or high is None:
        return ""
    return of_named(entry["needed"], Interval(value, low, high), entry["mode"])


def _control(entry: "ControlEntry") -> str:
    """What as many units explain where there is nothing to find."""
    told = f"{entry['task']}, {entry['model']}, control {entry['control']}: {entry['k']:,} units"
    if entry["explained"] is None:
        return f"{told} explain no number."
    low, high = entry["explained_low"], entry["explained_high"]
    return f"{told} explain {entry['explained']:.2f} of the real effect, {low:.2f} to {high:.2f}."


def _caveats(entries: "Sequence[KeptEntry]") -> list[str]:
    first = entries[0]
    methods = list(dict.fromkeys(e["method"] for e in entries if not e["order"].startswith("chance")))
    own = first["units"] == "attention-edges"
    where = (
        "prompt by prompt, on the test prompts themselves"
        if own
        else "on the train prompts, and measured on the test prompts"
    )
    prompts, draws = max(e["test_pairs"] for e in entries), max(e["draws"] for e in entries)
    told = [
        "Explained effect is (m(k) − m(none)) / (m(all) − m(none)) of the mean metric. Units needed: the fewest with"
        f" which it is within {1 - first['threshold']:.2g} of {'0' if first['mode'] == 'mask' else '1'}; only"
        " measured k count.",
        f"Intervals are of {first['interval']:.0%}".replace("%", " %")
        + f", over {prompts} test prompts"
        + (f" and, of random orders, {draws} draws." if draws > 1 else "."),
    ]
    if methods:
        told.append(f"Units are ranked by {', '.join(methods)} {where}.")
    if first["mode"] == "keep":
        told += [f"{f.capitalize()} fill asks {Fill.parse(f).asks}." for f in dict.fromkeys(e["fill"] for e in entries)]
    if (repeats := max(e["repeats"] for e in entries)) > 1:
        told.append(
            f"Everything was done {repeats} times with other prompts and seeds: lines, units needed and intervals"
            " pool all repeats, each with the ranking of its own, and units are named by their mean rank. Maps,"
            " circuits and the prompts below are those of the first."
        )
    return told


def _controls(found: "Found[KeptSummary]") -> Iterator[ControlData]:
    for number, row in enumerate(found.cells):
        for cell in row:
            for kind, own in cell.controls.items() if cell.controlled else ():
                yield control_data(cell.controlled, kind, own, number)


def _maps(found: "Found[KeptSummary]") -> Iterator[MapData]:
    for number, row in enumerate(found.cells):
        for cell in row:
            if isinstance(cell.scores, HeadScores):
                yield map_data(cell.scores, number, str(cell.panel.fill))
    if not found.cells:
        for path in sorted(found.folder.glob("scores/*/scores.json")):
            scores = HeadScores.load(path.parent)
            yield map_data(scores, _panel_of(found, scores.task, scores.model))


def _circuits(found: "Found[KeptSummary]") -> Iterator[CircuitData]:
    """The first edges of every order that comes from scores."""
    for number, row in enumerate(found.cells):
        for cell in row:
            if isinstance(cell.scores, EdgeScores):
                for curve in cell.curves:
                    if curve.order in SCORE_ORDERS:
                        yield order_data(cell.scores, curve.order, curve.mix, number)
    if not found.cells:
        for path in sorted(found.folder.glob("edges/*/edge-scores.json")):
            scores = EdgeScores.load(path.parent)
            panel = _panel_of(found, scores.task, scores.model)
            for order in _plain_orders(found.curves, scores):
                yield order_data(scores, order, panel=panel)


def _plain_orders(curves: list[CurveData], scores: EdgeScores) -> list[ScoreOrder]:
    """But for `best`, whose mix older results do not tell."""
    own = {curve.order for curve in curves if (curve.task, curve.model) == (scores.task, scores.model)}
    return [order for order in SCORE_ORDERS if order in own and order != "best"]


def _panel_of(found: "Found[KeptSummary]", task: str, model: str) -> int:
    for curve in found.curves:
        if (curve.task, curve.model) == (task, model):
            return curve.panel
    raise HeadcountError(f"{found.folder} has scores of {model} on {task}, and curves.csv has no such curve.")
