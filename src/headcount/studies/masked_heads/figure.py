"""Masked heads: answers against k, top k solid and random k dashed, accuracy blue and similarity red."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from ...sweeps.curve import Curve
from ...view.style import different, grouped, styled, surround

ACCURACY_COLOUR, SIMILARITY_COLOUR = "#1f5fbf", "#c8322d"
DASHES: dict[str, Any] = {"absolute": "-", "chance": (0, (4, 2)), "chance-matched": (0, (1, 1.6))}
ORDER_WORDS = {"absolute": "TopK", "chance": "RandomK", "chance-matched": "Layer-matched RandomK"}
ACCURACY_WORDS = {"accepted": "Accuracy", "exact": "Accuracy (exact)", "unaffected": "Accuracy (unaffected)"}
SIMILARITY_WORDS = {"comet": "COMET", "similarity": "MiniLM similarity", "chrf": "chrF similarity"}
PANEL_WIDTH, PANEL_HEIGHT = 2.55, 2.5


def plot(curves: Sequence[Curve], threshold: float | None = None, title: str = "") -> Figure:
    """A row a model, a column a function."""
    rows = grouped(curves, "model").values()
    return draw_masked([list(grouped(row, "title").values()) for row in rows], title)


def shown_similarity(curves: Sequence[Curve]) -> str:
    """The first of COMET, sentence similarity and chrF that every curve has; empty where none is there."""
    return next((name for name in SIMILARITY_WORDS if all(name in curve.values for curve in curves)), "")


@styled
def draw_masked(rows: Sequence[Sequence[Sequence[Curve]]], title: str = "") -> Figure:
    """Rows of models, columns of functions; a cell has a curve for each kind of mask."""
    curves = [curve for row in rows for cell in row for curve in cell]
    second, columns = shown_similarity(curves), max(map(len, rows))
    width = max(columns * PANEL_WIDTH + 0.5, 6.4)
    figure = Figure(figsize=(width, PANEL_HEIGHT * len(rows) + 1.45), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False, sharey=True)
    many = len({curve.model for curve in curves}) > 1
    for number, (row, places) in enumerate(zip(rows, axes, strict=True)):
        for cell, ax in zip(row, places, strict=False):
            _draw_cell(ax, cell, second, bottom=number == len(rows) - 1)
            ax.set_title(cell[0].title)
        for ax in places[len(row) :]:
            ax.remove()
        places[0].set_ylabel(f"{row[0][0].model}\nScore" if many else "Score")
    surround(figure, _legend(curves, second), 2, title, _caption(curves, second), fontsize=8)
    return figure


def _draw_cell(ax: Axes, cell: Sequence[Curve], second: str, bottom: bool) -> None:
    for metric, colour in _shown(cell[0].metric, second):
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
    ax.set(ylim=(-0.03, 1.03), yticks=np.linspace(0, 1, 6), xlabel="# Masked Heads" if bottom else "")
    ax.grid(axis="y", color="#e8e8e8", linewidth=0.6)
    ax.set_axisbelow(True)


def _shown(metric: str, second: str) -> list[tuple[str, str]]:
    return [(metric, ACCURACY_COLOUR), *([(second, SIMILARITY_COLOUR)] if second else [])]


def _look(order: str, colour: str) -> dict[str, Any]:
    marker = "o" if order != "chance-matched" else None
    return {"color": colour, "linestyle": DASHES[order], "marker": marker, "markersize": 4}


def _legend(curves: Sequence[Curve], second: str) -> dict[str, Artist]:
    legend: dict[str, Artist] = {}
    for metric, colour in _shown(curves[0].metric, second):
        words = {**ACCURACY_WORDS, **SIMILARITY_WORDS}[metric]
        for order in grouped(curves, "order"):
            legend[f"{ORDER_WORDS[order]} {words}"] = Line2D([], [], **_look(order, colour))
        legend[f"unmasked {words}"] = Line2D([], [], color=colour, linewidth=0.9, alpha=0.45)
    return legend


def _caption(curves: Sequence[Curve], second: str) -> str:
    """What the lines and bands are, so that the figure can stand alone."""
    draws = different(curve.draws for curve in curves if curve.order != "absolute")
    asked = different(curve.pairs for curve in curves)
    heads = list(dict.fromkeys(f"{curve.model} ({curve.total:,} heads)" for curve in curves))
    where = {"generated": "from the last prompt token on", "all": "at every position"}
    places = " and ".join(dict.fromkeys(where[curve.provenance["positions"]] for curve in curves))
    random = f" RandomK: mean of {draws} draws outside the top k, bands 90 % of the draws;"
    against = {
        "comet": "; COMET: masked answer against the unmasked one, with the right answer as source",
        "similarity": "; no COMET here: similarity is the cosine with the unmasked answer's all-MiniLM-L6-v2 embedding",
        "chrf": "; no COMET here: similarity is chrF against the unmasked answer",
        "": "; no similarity could be computed",
    }[second]
    return (
        f"{', '.join(heads)}; heads ranked by {curves[0].method} on other questions, masked with {curves[0].fill}"
        f" {places}; {asked} test questions a function.{random if draws else ''}"
        f" bands of TopK: 90 % over resampled templates{against}"
    )
