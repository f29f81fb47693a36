"""Explained effect against units kept: panels side by side, a line and a band each, one legend."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from ...core.words import Control, in_words
from ...edit import Fill
from ...sweeps import Curve, Ratio, Repeats, compare_repeats, control
from ...view.style import different, grouped, styled, surround

MODEL_COLOURS = ("#2f6db3", "#e8833a", "#2a9d6f", "#c9559b", "#7a5cc4", "#8c6d46")
CHANCE_COLOUR = "#8a8a8a"
ORDER_COLOURS = {"absolute": "#2f6db3", "signed": "#e8833a", "best": "#2a9d6f"}
ORDERS: dict[str, tuple[str, Any]] = {
    "absolute": ("largest effect first", "-"),
    "signed": ("most helpful first", (0, (5, 1.5))),
    "best": ("best mix of both", (0, (8, 1.5, 2, 1.5))),
    "chance": ("by chance", (0, (1, 1.5))),
    "chance-matched": ("by chance, same layers", (0, (3, 1, 1, 1))),
}
CONTROLS: dict[Control, tuple[str, Any]] = {
    "nonsense": ("nonsense", (0, (1, 3))),
    "shuffled": ("shuffled scores", (0, (2, 3))),
}
"""Words and dashes."""
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
PANEL_WIDTH, PANEL_HEIGHT, PANELS_A_ROW = 3.1, 2.75, 4
BOTTOM, TOP = -0.3, 1.55
ON_WHITE: Any = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6}, "zorder": 6, "va": "bottom"}


DrawnPanel = tuple[str, Sequence[Curve]]
"""Its title and its curves."""
Looks = dict[tuple[str, str], dict[str, Any]]
"""How the line of a model and order is plotted."""


def plot(curves: Sequence[Curve], threshold: float | None = 0.9, title: str = "") -> Figure:
    """A panel a task and fill."""
    panels = [panel for own in grouped(curves, "fill").values() for panel in grouped(own, "title").items()]
    return draw(panels, threshold=threshold, title=title)


@styled
def draw(
    panels: Sequence[DrawnPanel],
    *,
    threshold: float | None,
    title: str = "",
    repeats: Mapping[Curve, Repeats] | None = None,
    controls: Mapping[Curve, Mapping[Control, Curve]] | None = None,
) -> Figure:
    """Panels of curves, each with its own title; where fills differ, each begins a row. Several models are drawn in the
    first order and by chance; tables have the other orders. With repeats, lines are those of the first, and numbers
    speak of all."""
    panels = [(name, _shown(curves)) for name, curves in panels]
    everything = [curve for _, curves in panels for curve in curves]
    looks = _looks(everything)
    whole = {curve: (repeats or {}).get(curve, Repeats((curve,))) for curve in everything}
    rows = _rows(panels)
    columns = max(map(len, rows))
    width = max(PANEL_WIDTH * columns, 5.0) + 0.3
    orders = _order_lines(looks) | _grey_lines(CONTROLS[kind] for own in (controls or {}).values() for kind in own)
    labels = [label for label in dict.fromkeys([*(look["label"] for look in looks.values()), *orders]) if label != "_"]
    # As many as fit side by side, at about 0.08 inches a letter and 0.6 for the line.
    beside = max(min(int(width / (0.08 * max(map(len, labels)) + 0.6)), len(labels)), 1)
    height = PANEL_HEIGHT * len(rows) + 0.55 + 0.2 * -(-len(labels) // beside)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for row, places in zip(rows, axes, strict=True):
        for (name, curves), ax in zip(row, places, strict=False):
            _draw_panel(ax, name, curves, looks, threshold, whole)
            for curve in curves:
                _draw_controls(ax, curve, (controls or {}).get(curve, {}), looks[curve.model, curve.order]["color"])
        for ax in places[len(row) :]:
            ax.remove()
        places[0].set_ylabel("Explained effect")
    legend: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            legend.setdefault(label, handle)
    surround(figure, {**legend, **orders}, beside, title, _caption(everything, threshold, whole), letters=13)
    return figure


def _rows(panels: Sequence[DrawnPanel]) -> list[list[DrawnPanel]]:
    """As many panels side by side as fit; each fill begins a row, and its panels say it."""
    by_fill: dict[str, list[DrawnPanel]] = {}
    for name, curves in panels:
        by_fill.setdefault(curves[0].fill, []).append((name, curves))
    if len(by_fill) > 1:
        by_fill = {fill: [(f"{name}: {fill} fill", curves) for name, curves in own] for fill, own in by_fill.items()}
    starts = {fill: range(0, len(own), PANELS_A_ROW) for fill, own in by_fill.items()}
    return [own[start : start + PANELS_A_ROW] for fill, own in by_fill.items() for start in starts[fill]]


def _shown(curves: Sequence[Curve]) -> list[Curve]:
    several = len({curve.model for curve in curves}) > 1
    return [c for c in curves if not several or c.order == curves[0].order or c.order.startswith("chance")]


def _draw_panel(
    ax: Axes,
    name: str,
    curves: Sequence[Curve],
    looks: Looks,
    threshold: float | None,
    repeats: Mapping[Curve, Repeats],
) -> None:
    total = max(curve.total for curve in curves)
    for curve in curves:
        look = looks[curve.model, curve.order]
        value, low, high = curve.band()
        faint = curve.order.startswith("chance") and look["color"] != CHANCE_COLOUR  # one chance line of several
        ax.fill_between(curve.ks, low, high, color=look["color"], alpha=0.07 if faint else 0.18, linewidth=0)
        ax.plot(curve.ks, value, **look, linewidth=1.0 if faint else 1.6)
    ax.set_title(name, loc="left")
    verb = "kept" if curves[0].mode == "keep" else "masked"
    ax.set_xlabel(f"Number of {in_words(curves[0].units)} {verb}")
    if curves[0].units != "heads":
        # From one edge on; with none kept nothing is explained, by definition.
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(numticks=12))
        ax.xaxis.set_major_formatter(lambda k, _: "10" + str(round(math.log10(k))).translate(RAISED))
        ax.xaxis.set_minor_locator(NullLocator())
    # Curves that leave the range (a signed order far above 1, say) are cut off rather than flatten all others.
    ax.set(xlim=(0 if curves[0].units == "heads" else 1, total), yticks=[0, 0.5, 1], ylim=(BOTTOM, TOP))
    for level in (0, 0.5, 1):
        ax.axhline(level, color="#dddddd", linewidth=0.6, zorder=0)
    ax.spines["left"].set_bounds(0, 1)
    if threshold:
        _draw_threshold(ax, curves, looks, threshold, total, repeats)


def _draw_threshold(
    ax: Axes,
    curves: Sequence[Curve],
    looks: Looks,
    threshold: float,
    total: int,
    repeats: Mapping[Curve, Repeats],
) -> None:
    """The dashed line, with the number of units at which each curve is faithful (a dot), or between two models the
    ratio in words. Where the threshold was reached before, on the way beyond, a ring. Of repeats, the median on the
    dashed line, and their range."""
    level = threshold if curves[0].mode == "keep" else 1 - threshold
    ax.axhline(level, color="black", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    ratio = ratio_of_models(curves, threshold, repeats)
    if ratio:
        more, fewer = f"{ratio.more_units:,}", f"{ratio.fewer_units:,}"
        numbers = f"{more} each" if more == fewer else f"{more} against {fewer}"
        words = f"{str(ratio).replace(' of ', chr(10) + 'of ')}\n{numbers}"
        look: Any = {"transform": ax.get_yaxis_transform(), "fontsize": 7.5, "linespacing": 1.15, **ON_WHITE}
        ax.text(0.5, 1.17, words, ha="center", **look)
    found = [(repeats[curve].units_needed(threshold), curve) for curve in curves]
    crossings = [(needed.value, needed.span, curve) for needed, curve in found if needed.value is not None]
    heights = cycle((1.17, 1.3, 1.43))
    for needed, span, curve in sorted(crossings, key=lambda crossing: crossing[0]):
        colour, several = looks[curve.model, curve.order]["color"], len(repeats[curve].curves) > 1
        value = dict(zip(curve.ks, curve.band().value.tolist(), strict=True))
        height = level if several else value[needed]
        dot: Any = {"marker": "o", "markersize": 4, "color": colour, "zorder": 5, "clip_on": False}
        ax.plot([needed], [height], **dot)
        if several:
            ax.plot(span, [level, level], color=colour, linewidth=2.5, alpha=0.5, zorder=4)
        reached = curve.first_k(threshold, "reached")
        if reached is not None and reached != curve.first_k(threshold) and value[reached] < TOP:
            ax.plot([reached], [value[reached]], **dot, fillstyle="none")
        if not ratio:
            above = next(heights)
            ax.plot([needed, needed], [height, above - 0.01], color=colour, linewidth=0.7, zorder=1)
            # Labels lean inwards, so that none runs out of the panel.
            along = math.log(max(needed, 1)) / math.log(total) if ax.get_xscale() == "log" else needed / total
            side = "left" if along < 0.2 else "right" if along > 0.8 else "center"
            bold: Any = {"fontsize": 8, "color": colour, "fontweight": "bold", **ON_WHITE}
            ax.text(needed, above, f"{needed:,}", ha=side, **bold)


def ratio_of_models(curves: Sequence[Curve], threshold: float, repeats: Mapping[Curve, Repeats]) -> Ratio | None:
    """Between the first and the last model of a panel, in the first of its orders; None where there is one model. What
    stands between them, a dense control say, is drawn and not counted."""
    first, *others = (curve for curve in curves if curve.order == curves[0].order)
    return compare_repeats(repeats[first], repeats[others[-1]], threshold) if others else None


def _looks(curves: Sequence[Curve]) -> Looks:
    """Colour tells models apart, dashes tell orders apart; with one model the orders get the colours."""
    models, orders = list(grouped(curves, "model")), list(grouped(curves, "order"))
    looks = {}
    for model, colour in zip(models, cycle(MODEL_COLOURS), strict=False):
        for order in orders:
            words, dashes = ORDERS[order]
            # With many of both, a line is named by its model, and the dashes have entries of their own.
            label = model if order == orders[0] else "_"
            if len(models) == 1:
                label = words
                colour = CHANCE_COLOUR if order.startswith("chance") else ORDER_COLOURS.get(order, MODEL_COLOURS[0])
            looks[model, order] = {"label": label, "color": colour, "linestyle": dashes}
    return looks


def _order_lines(looks: Looks) -> dict[str, Line2D]:
    """Entries for the dashes, where colours stand for models."""
    orders = dict.fromkeys(order for _, order in looks)
    if len(orders) == 1 or len(looks) == len(orders):
        return {}
    return _grey_lines(ORDERS[order] for order in orders)


def _grey_lines(found: Iterable[tuple[str, Any]]) -> dict[str, Line2D]:
    """Entries of a legend, from words and dashes."""
    return {words: Line2D([], [], color="#555555", linestyle=dashes, linewidth=1.2) for words, dashes in found}


def _draw_controls(ax: Axes, curve: Curve, controls: Mapping[Control, Curve], colour: str) -> None:
    """What there is to explain where there is nothing, on the scale of the real effect."""
    for kind, own in controls.items():
        shares = [control(curve, own, k).value for k in own.ks]
        ax.plot(own.ks, shares, color=colour, linestyle=CONTROLS[kind][1], linewidth=0.9)


def _caption(curves: Sequence[Curve], threshold: float | None, repeats: Mapping[Curve, Repeats]) -> str:
    """What lines, bands and dots are and what fills ask, so that the figure can stand alone."""
    models = []
    for model, own in grouped(curves, "model").items():
        totals = sorted(curve.total for curve in own)  # attention edges are as many as a task's prompts are long
        span = "–".join(dict.fromkeys(f"{total:,}" for total in (totals[0], totals[-1])))
        models.append(f"{model} ({span} {in_words(curves[0].units)})")
    methods = list(dict.fromkeys(curve.method for curve in curves if not curve.order.startswith("chance")))
    parts = [", ".join(models)]
    if methods:
        scored_on = "prompt by prompt" if curves[0].units == "attention-edges" else "on other prompts"
        parts.append(f"scored by {', '.join(methods)} {scored_on}")
    pairs, draws = (different(getattr(curve, name) for curve in curves) for name in ("pairs", "draws"))
    chance = any(curve.draws > 1 for curve in curves)
    by_draws = f" and, by chance, over {draws.removeprefix('1–')} draws" if chance else ""
    parts.append(f"{pairs} test prompts a panel, bands 90 % intervals over them{by_draws}")
    if threshold:
        parts.append(
            f"dots: within {1 - threshold:.2g} of the whole model's effect, on the mean; rings: reached before"
        )
    if (most := max(len(repeats[curve].curves) for curve in curves)) > 1:
        parts.append(f"of {most} repeats the median and the range, lines of the first")
    if curves[0].mode == "keep":
        parts += [f"{fill} fill asks {Fill.parse(fill).asks}" for fill in grouped(curves, "fill")]
    return "; ".join(parts)
