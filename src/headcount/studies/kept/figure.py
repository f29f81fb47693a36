"""Explained effect against units kept: panels side by side, a line and a band each, one legend."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from ...core.words import Control, FigureWidth, in_words
from ...sweeps import Curve, Ratio, Repeats, compare_repeats, control
from ...view.style import different, figure_width, grouped, room_for, styled, surround, within
from .looks import (
    CHANCE_COLOUR,
    CONTROLS,
    DrawnPanel,
    Looks,
    by_chance,
    grey_lines,
    looks_of,
    order_lines,
    words_of_orders,
)
from .scale import Scale

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
PANEL_WIDTH, PANEL_HEIGHT = 3.1, 2.75
SIDE_BY_SIDE: dict[FigureWidth, int] = {"": 4, "column": 1, "page": 2}
"""Panels in a row, at most."""
ON_WHITE: Any = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6}, "zorder": 6, "va": "bottom"}
Threshold = float | None


def plot(
    curves: Sequence[Curve],
    threshold: float | None = 0.9,
    title: str = "",
    one_panel: bool = False,
    width: FigureWidth = "",
) -> Figure:
    """One panel per task and fill; or all in one panel, whose lines are then told apart by their tasks too."""
    panels = [panel for own in grouped(curves, "fill").values() for panel in grouped(own, "title").items()]
    if one_panel:
        together = "; ".join(dict.fromkeys(curve.title for curve in curves))
        panels = [(together, list(curves))]
    return draw(panels, threshold=threshold, title=title, width=width)


@styled
def draw(
    panels: Sequence[DrawnPanel],
    *,
    threshold: Threshold | Sequence[Threshold],
    title: str = "",
    width: FigureWidth = "",
    repeats: Mapping[Curve, Repeats] | None = None,
    controls: Mapping[Curve, Mapping[Control, Curve]] | None = None,
) -> Figure:
    """Panels of curves, each with its own title, and one threshold for all or one for each; where fills differ, each
    begins a row. Several models or methods are drawn in the first of their orders and by chance; tables have the other
    orders. Repeats are drawn as one, pooled."""
    panels = [(name, _shown(curves)) for name, curves in panels]
    given = threshold if isinstance(threshold, Sequence) else [threshold] * len(panels)
    thresholds = {curves[0]: own for (_, curves), own in zip(panels, given, strict=True)}
    everything = [curve for _, curves in panels for curve in curves]
    whole = {curve: (repeats or {}).get(curve, Repeats((curve,))) for curve in everything}
    called = words_of_orders(whole)
    looks = looks_of(panels, called)
    rows = _rows(panels, SIDE_BY_SIDE[width])
    columns = max(map(len, rows))
    inches = figure_width(max(PANEL_WIDTH * columns, 5.0) + 0.3, width, columns)
    asked = [CONTROLS[kind] for own in (controls or {}).values() for kind in own]
    orders = order_lines(looks, called) | grey_lines(asked)
    labels = [label for label in dict.fromkeys([*(look["label"] for look in looks.values()), *orders]) if label != "_"]
    # As many as fit side by side, at about 0.08 inches a letter and 0.6 for the line.
    beside = max(min(int(inches / (0.08 * max(map(len, labels)) + 0.6)), len(labels)), 1)
    scales = [Scale.around(whole[curve].pooled.band().value for _, own in row for curve in own) for row in rows]
    stretches = [scale.stretch for scale in scales]
    rows = [[(within(name, inches / columns - 0.5), own) for name, own in row] for row in rows]
    titles = sum(room_for(name for name, _ in row) for row in rows)
    height = PANEL_HEIGHT * sum(stretches) + titles + 0.55 + 0.2 * -(-len(labels) // beside)
    figure = Figure(figsize=(inches, height), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False, height_ratios=stretches)
    for row, scale, places in zip(rows, scales, axes, strict=True):
        for (name, curves), ax in zip(row, places, strict=False):
            _draw_panel(ax, name, curves, looks, scale, thresholds[curves[0]], whole)
            for curve in curves:
                _draw_controls(ax, curve, (controls or {}).get(curve, {}), looks[curve]["color"])
        for ax in places[len(row) :]:
            ax.remove()
        places[0].set_ylabel("Explained effect")
    legend: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            legend.setdefault(label, handle)
    surround(figure, {**legend, **orders}, beside, title, _caption(everything, list(thresholds.values()), whole))
    return figure


def _rows(panels: Sequence[DrawnPanel], most: int) -> list[list[DrawnPanel]]:
    """As many panels side by side as fit; each fill begins a row, and its panels say it."""
    by_fill: dict[str, list[DrawnPanel]] = {}
    for name, curves in panels:
        by_fill.setdefault(curves[0].fill, []).append((name, curves))
    if len(by_fill) > 1:
        by_fill = {fill: [(f"{name}: {fill} fill", curves) for name, curves in own] for fill, own in by_fill.items()}
    starts = {fill: range(0, len(own), most) for fill, own in by_fill.items()}
    return [own[start : start + most] for fill, own in by_fill.items() for start in starts[fill]]


def _shown(curves: Sequence[Curve]) -> list[Curve]:
    first: dict[tuple[str, ...], str] = {}
    for curve in (curve for curve in curves if not by_chance(curve)):
        first.setdefault((curve.title, curve.model, curve.method), curve.order)
    shown = [c for c in curves if by_chance(c) or first[c.title, c.model, c.method] == c.order]
    return shown if len(first) > 1 else list(curves)


def _draw_panel(
    ax: Axes,
    name: str,
    curves: Sequence[Curve],
    looks: Looks,
    scale: Scale,
    threshold: float | None,
    repeats: Mapping[Curve, Repeats],
) -> None:
    total = max(curve.total for curve in curves)
    for curve in curves:
        look, line = looks[curve], repeats[curve].pooled
        value, low, high = line.band()
        faint = by_chance(curve) and look["color"] != CHANCE_COLOUR  # one chance line of several
        ax.fill_between(line.ks, low, high, color=look["color"], alpha=0.07 if faint else 0.18, linewidth=0)
        ax.plot(line.ks, value, **look, linewidth=1.0 if faint else 1.6)
    ax.set_title(name, loc="left")
    verb = "kept" if curves[0].mode == "keep" else "masked"
    ax.set_xlabel(f"Number of {in_words(curves[0].units)} {verb}")
    if curves[0].units != "heads":
        # From one edge on; with none kept nothing is explained, by definition.
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(numticks=12))
        ax.xaxis.set_major_formatter(lambda k, _: "10" + str(round(math.log10(k))).translate(RAISED))
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlim=(0 if curves[0].units == "heads" else 1, total), ylim=(scale.bottom, scale.top), yticks=scale.ticks)
    for level in scale.ticks:
        ax.axhline(level, color="#dddddd", linewidth=0.6, zorder=0)
    ax.spines["left"].set_bounds(scale.ticks[0], scale.ticks[-1])
    _mark_leaving(ax, curves, looks, scale, repeats)
    if threshold:
        _draw_threshold(ax, curves, looks, scale, threshold, total, repeats)


def _mark_leaving(
    ax: Axes, curves: Sequence[Curve], looks: Looks, scale: Scale, repeats: Mapping[Curve, Repeats]
) -> None:
    """An arrow at the edge of the panel where a line is farthest beyond it, and how far that is."""
    for curve in curves:
        line, colour = repeats[curve].pooled, looks[curve]["color"]
        value = line.band().value
        for place, edge, arrow, side in (
            (int(value.argmax()), scale.top, "▲", "top"),
            (int(value.argmin()), scale.bottom, "▼", "bottom"),
        ):
            if (value[place] > scale.lines) if side == "top" else (value[place] < scale.bottom):
                words, along = f"{arrow} {value[place]:.2g}", _along(ax, line.ks[place], line.total)
                look: Any = {"fontsize": 6.5, "color": colour, **ON_WHITE, "va": side}
                ax.text(line.ks[place], edge, words, ha=_leaning(along), **look)


def _along(ax: Axes, k: int, total: int) -> float:
    """Where a k stands between the sides of a panel, from 0 to 1."""
    return math.log(max(k, 1)) / math.log(total) if ax.get_xscale() == "log" else k / total


def _leaning(along: float) -> str:
    """Labels lean inwards, so that none runs out of the panel."""
    return "left" if along < 0.2 else "right" if along > 0.8 else "center"


def _draw_threshold(
    ax: Axes,
    curves: Sequence[Curve],
    looks: Looks,
    scale: Scale,
    threshold: float,
    total: int,
    repeats: Mapping[Curve, Repeats],
) -> None:
    """The dashed line, with the number of units at which each curve is faithful (a dot), or between two models the
    ratio in words. Where the threshold was reached before, on the way beyond, a ring. Of repeats, also the range on the
    dashed line."""
    level = threshold if curves[0].mode == "keep" else 1 - threshold
    ax.axhline(level, color="black", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    ratio = ratio_of_models(curves, threshold, repeats)
    if ratio:
        more, fewer = f"{ratio.more_units:,}", f"{ratio.fewer_units:,}"
        numbers = f"{more} each" if more == fewer else f"{more} against {fewer}"
        words = f"{str(ratio).replace(' of ', chr(10) + 'of ')}\n{numbers}"
        look: Any = {"transform": ax.get_yaxis_transform(), "fontsize": 7.5, "linespacing": 1.15, **ON_WHITE}
        ax.text(0.5, scale.lines, words, ha="center", **look)
    found = [(repeats[curve].units_needed(threshold), curve) for curve in curves]
    crossings = [(needed.value, needed.span, curve) for needed, curve in found if needed.value is not None]
    heights = cycle(map(scale.above, (0, 1 / 3, 2 / 3)))
    for needed, span, curve in sorted(crossings, key=lambda crossing: crossing[0]):
        colour, several = looks[curve]["color"], len(repeats[curve].curves) > 1
        line = repeats[curve].pooled
        value = dict(zip(line.ks, line.band().value.tolist(), strict=True))
        height = value[needed]
        dot: Any = {"marker": "o", "markersize": 4, "color": colour, "zorder": 5, "clip_on": False}
        ax.plot([needed], [height], **dot)
        if several:
            ax.plot(span, [level, level], color=colour, linewidth=2.5, alpha=0.5, zorder=4)
        reached = line.first_k(threshold, "reached")
        if reached is not None and reached != needed and value[reached] <= scale.lines:
            ax.plot([reached], [value[reached]], **dot, fillstyle="none")
        if not ratio:
            above = next(heights)
            ax.plot([needed, needed], [height, above], color=colour, linewidth=0.7, zorder=1)
            bold: Any = {"fontsize": 8, "color": colour, "fontweight": "bold", **ON_WHITE}
            ax.text(needed, above, f"{needed:,}", ha=_leaning(_along(ax, needed, total)), **bold)


def ratio_of_models(curves: Sequence[Curve], threshold: float, repeats: Mapping[Curve, Repeats]) -> Ratio | None:
    """Between the first and the last model of a panel, in the first of its orders; None where there is one model, or
    where its lines differ in more than their models. What stands between them, a dense control say, is drawn and not
    counted."""
    alike = ("title", "method", "order")
    first, *others = [curve for curve in curves if not by_chance(curve)] or [curves[0]]
    if not others or any(getattr(first, part) != getattr(other, part) for other in others for part in alike):
        return None
    return compare_repeats(repeats[first], repeats[others[-1]], threshold)


def _draw_controls(ax: Axes, curve: Curve, controls: Mapping[Control, Curve], colour: str) -> None:
    """What there is to explain where there is nothing, on the scale of the real effect."""
    for kind, own in controls.items():
        shares = [control(curve, own, k).value for k in own.ks]
        ax.plot(own.ks, shares, color=colour, linestyle=CONTROLS[kind][1], linewidth=0.9)


def _caption(curves: Sequence[Curve], thresholds: Sequence[Threshold], repeats: Mapping[Curve, Repeats]) -> str:
    """What lines, bands and dots are, the most important first: a narrow figure has room for some of it."""
    models = []
    for model, own in grouped(curves, "model").items():
        totals = sorted(curve.total for curve in own)  # attention edges are as many as a task's prompts are long
        span = "–".join(dict.fromkeys(f"{total:,}" for total in (totals[0], totals[-1])))
        models.append(f"{model} ({span} {in_words(curves[0].units)})")
    methods = list(dict.fromkeys(curve.method for curve in curves if not curve.order.startswith("chance")))
    parts, late = [", ".join(models)], list[str]()
    if methods:
        scored_on = ", prompt by prompt" if curves[0].units == "attention-edges" else ""
        parts[0] += f" scored by {', '.join(methods)}{scored_on}"
    pairs = different(repeats[curve].curves[0].pairs for curve in curves)
    draws = different(repeats[curve].pooled.draws for curve in curves)
    most = max(len(repeats[curve].curves) for curve in curves)
    parts.append(f"{' and '.join(grouped(curves, 'fill'))} fill")
    parts.append(f"{pairs} test prompts " + (f"in each of {most} repeats, pooled" if most > 1 else "per panel"))
    parts.append("bands: 90 % intervals")
    if most > 1:
        parts.append("bars: range of repeats")
    if drawn := dict.fromkeys(f"{1 - threshold:.2g}" for threshold in thresholds if threshold):
        within = " or ".join(drawn) + (", panel by panel," if len(drawn) > 1 else "")
        parts.append(f"dots: within {within} of the whole effect")
        late.append("rings: reached before")
    if any(curve.draws > 1 for curve in curves):
        parts.append(f"random order: mean of {draws.removeprefix('1–')} draws")
    return "; ".join([*parts, *late])
