"""Masked heads: answers against k, top k solid and random k dashed, accuracy blue and similarity red; beside them maps
of the heads of each function and their overlap, and accuracy with heads pushed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from ...core.saving import Floats
from ...core.words import FigureWidth
from ...sweeps.curve import Curve
from ...sweeps.steering import Steering
from ...tasks.questions import function_title
from ...view.agreement import draw_matrix
from ...view.style import CAPTION, different, figure_width, grouped, number_heads, room_for, styled, surround, within

ACCURACY_COLOUR, SIMILARITY_COLOUR, LEGEND_COLOUR = "#1f5fbf", "#c8322d", "#444444"
DASHES: dict[str, Any] = {"absolute": "-", "chance": (0, (4, 2)), "chance-matched": (0, (1, 1.6))}
ORDER_WORDS = {"absolute": "top k", "chance": "random k", "chance-matched": "random k of the same layers"}
ACCURACY_WORDS = {"accepted": "Accuracy", "exact": "Accuracy (exact)", "unaffected": "Accuracy (unaffected)"}
SIMILARITY_WORDS = {"comet": "COMET", "similarity": "MiniLM similarity", "chrf": "chrF similarity"}
PANEL_WIDTH, PANEL_HEIGHT = 2.55, 2.5
MAP_WORDS = "Maps: score of every head, red above zero and blue below, white at zero; each map has its own scale"
MAP_WIDTH, MAP_HEIGHT, COLUMNS = 2.1, 2.5, 4
TEST_COLOUR, VALIDATION_COLOUR, CONTROL_COLOUR = "#1f5fbf", "#8fb3e3", "#8a8a8a"


def plot(curves: Sequence[Curve], threshold: float | None = None, title: str = "", width: FigureWidth = "") -> Figure:
    """One row per model and quantity, one column per function."""
    rows = grouped(curves, "model").values()
    return draw_masked([list(grouped(row, "title").values()) for row in rows], title, width)


def shown_similarity(curves: Sequence[Curve]) -> str:
    """The first of COMET, sentence similarity and chrF that every curve has; empty where none is there."""
    return next((name for name in SIMILARITY_WORDS if all(name in curve.values for curve in curves)), "")


@styled
def draw_masked(rows: Sequence[Sequence[Sequence[Curve]]], title: str = "", width: FigureWidth = "") -> Figure:
    """Rows of models, and of each model a row for accuracy and one for similarity; columns of functions. A cell has a
    curve for each kind of mask."""
    curves = [curve for row in rows for cell in row for curve in cell]
    second, columns = shown_similarity(curves), max(map(len, rows))
    drawn = [(row, metric, colour) for row in rows for metric, colour in _shown(curves[0].metric, second)]
    inches = figure_width(max(columns * PANEL_WIDTH + 0.5, 6.4), width, columns)
    names = [[within(cell[0].title, inches / columns - 0.4) for cell in row] for row in rows]
    height = PANEL_HEIGHT * len(drawn) + sum(map(room_for, names)) + 1.2
    figure = Figure(figsize=(inches, height), layout="constrained")
    axes = figure.subplots(len(drawn), columns, squeeze=False, sharey=True)
    many = len({curve.model for curve in curves}) > 1
    for number, ((row, metric, colour), places) in enumerate(zip(drawn, axes, strict=True)):
        for cell, ax in zip(row, places, strict=False):
            _draw_cell(ax, cell, metric, colour, bottom=number == len(drawn) - 1)
            if metric == curves[0].metric:
                ax.set_title(within(cell[0].title, inches / columns - 0.4))
        for ax in places[len(row) :]:
            ax.remove()
        words = {**ACCURACY_WORDS, **SIMILARITY_WORDS}[metric]
        places[0].set_ylabel(f"{row[0][0].model}\n{words}" if many else words)
    beside = 4 if inches > 6 else 2
    surround(figure, _legend(curves), beside, title, _caption(curves, second), fontsize=8)
    return figure


def _draw_cell(ax: Axes, cell: Sequence[Curve], metric: str, colour: str, bottom: bool) -> None:
    if metric in cell[0].whole:
        ax.axhline(cell[0].whole[metric], color=colour, linewidth=0.9, alpha=0.45, zorder=0)
    for curve in cell:
        value, low, high = curve.band(metric)
        main = curve.order != "chance-matched"
        strength: Any = {"linewidth": 1.6, "alpha": 1.0} if main else {"linewidth": 1.1, "alpha": 0.75}
        ax.plot(curve.ks, value, **_look(curve.order, colour), **strength)
        if main:
            ax.fill_between(curve.ks, low, high, color=colour, alpha=0.13, linewidth=0)
    ax.set_xscale("log", base=2)
    ax.set_xticks(cell[0].ks, list(map(str, cell[0].ks)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(ylim=(-0.03, 1.03), yticks=np.linspace(0, 1, 6), xlabel="Number of heads masked" if bottom else "")
    ax.grid(axis="y", color="#e8e8e8", linewidth=0.6)
    ax.set_axisbelow(True)


def _shown(metric: str, second: str) -> list[tuple[str, str]]:
    return [(metric, ACCURACY_COLOUR), *([(second, SIMILARITY_COLOUR)] if second else [])]


def _look(order: str, colour: str) -> dict[str, Any]:
    marker = "o" if order != "chance-matched" else None
    return {"color": colour, "linestyle": DASHES[order], "marker": marker, "markersize": 4}


def _legend(curves: Sequence[Curve]) -> dict[str, Artist]:
    """The kinds of mask; rows say what is measured."""
    legend: dict[str, Artist] = {
        ORDER_WORDS[order]: Line2D([], [], **_look(order, LEGEND_COLOUR)) for order in grouped(curves, "order")
    }
    return {**legend, "no head masked": Line2D([], [], color=LEGEND_COLOUR, linewidth=0.9, alpha=0.45)}


def _caption(curves: Sequence[Curve], second: str) -> str:
    """What the lines and bands are, so that the figure can stand alone."""
    draws = different(curve.draws for curve in curves if curve.order != "absolute")
    asked = different(curve.pairs for curve in curves)
    heads = list(dict.fromkeys(f"{curve.model} ({curve.total:,} heads)" for curve in curves))
    where = {"generated": "from the last prompt token on", "all": "at every position"}
    places = " and ".join(dict.fromkeys(where[str(curve.provenance["positions"])] for curve in curves))
    against = {
        "comet": "COMET: masked answer against the unmasked one",
        "similarity": "similarity: cosine with the unmasked answer (MiniLM), as there is no COMET",
        "chrf": "similarity: chrF against the unmasked answer, as there is no COMET",
        "": "no similarity could be computed",
    }[second]
    parts = [
        f"{', '.join(heads)} ranked by {curves[0].method}, masked with {curves[0].fill} {places}",
        f"{asked} test questions per function",
        *([f"random k: mean of {draws} draws outside the top k"] if draws else []),
        f"bands: 90 % intervals over templates{' and draws' if draws else ''}",
        against,
    ]
    return "; ".join(parts)


@styled
def draw_functions(maps: Floats, functions: Sequence[str], overlap: Floats, k: int, title: str = "") -> Figure:
    """Scores [function, layer, head], each function on its own scale, and the overlap of their top k."""
    rows = -(-len(functions) // COLUMNS)
    columns = min(COLUMNS, len(functions))
    side = 0.38 * len(functions) + 1.9
    size = (columns * MAP_WIDTH + side + 0.4, max(rows * MAP_HEIGHT, side) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(columns * MAP_WIDTH, side))
    left, right = halves
    axes = left.subplots(rows, columns, squeeze=False).ravel()
    names = [function_title(function) for function in functions]
    for name, scores, ax in zip(names, maps, axes, strict=False):
        limit = max(float(np.abs(scores).max()), 1e-12)
        look: Any = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
        image = ax.imshow(scores, aspect="auto", origin="lower", **look)
        left.colorbar(image, ax=ax, fraction=0.1, pad=0.04).ax.tick_params(labelsize=6)
        ax.set_title(within(name, MAP_WIDTH - 0.4, 8.5), fontsize=8.5)
        number_heads(ax)
    for ax in axes[len(functions) :]:
        ax.remove()
    for ax in axes[::columns]:
        ax.set_ylabel("Layer")
    for ax in axes[max(len(functions) - columns, 0) : len(functions)]:
        ax.set_xlabel("Head")
    draw_matrix(right.subplots(), f"Overlap of the top {k} (Jaccard)", overlap, names, low=0.0, named=True)
    figure.suptitle(within(title, size[0], 10.5), fontsize=10.5)
    figure.supxlabel(MAP_WORDS, **CAPTION)
    return figure


@styled
def draw_steering(found: Sequence[Steering], title: str = "") -> Figure:
    """One panel per function."""
    figure = Figure(figsize=(max(2.4 * len(found) + 0.4, 5.0), 3.5), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for ax, entry in zip(axes, found, strict=True):
        _draw_pushes(ax, entry)
    axes[0].set_ylabel("Accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    caption = (
        f"alpha times the direction from wrong to right answers; bars: 90 % of {len(found[0].control)} random"
        " directions; circle: the alpha that is best on validation"
    )
    legend = dict(zip(labels, handles, strict=True))
    surround(figure, legend, 3, title, caption, title_fontsize=None, fontsize=8)
    return figure


def _draw_pushes(ax: Axes, entry: Steering) -> None:
    validation, test = entry.validation.mean(1), entry.test.mean(1)
    ax.plot(entry.alphas, validation, color=VALIDATION_COLOUR, marker=".", label="validation questions")
    ax.plot(entry.alphas, test, color=TEST_COLOUR, marker=".", label="test questions")
    alpha, by_draw = entry.provenance["control_alpha"], entry.control.mean(1)
    low, high = np.quantile(by_draw, [0.05, 0.95])
    middle = float(by_draw.mean())
    look: Any = {"color": CONTROL_COLOUR, "marker": "s", "markersize": 4, "capsize": 3, "linestyle": "none"}
    bars = [[middle - low], [high - middle]]
    ax.errorbar([alpha], [middle], yerr=bars, label="random directions, test", **look)
    place = [entry.alphas[entry.chosen]], [test[entry.chosen]]
    ax.plot(*place, "o", markersize=9, fillstyle="none", color=TEST_COLOUR)
    ax.set(ylim=(-0.03, 1.03), xlabel="alpha")
    ax.set_title(f"{within(function_title(entry.function), 2.0, 9)}\n{entry.heads} heads", fontsize=9)
