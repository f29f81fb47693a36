"""Beside the curves: maps of the heads of each function and how far they overlap; accuracy with heads pushed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...sweeps.steering import Steering
from ...tasks.questions import function_title
from ...view.agreement import draw_matrix
from ...view.style import CAPTION, number_heads, styled, surround

MAP_WORDS = "Maps: score of every head, red above zero and blue below, white at zero; each map has its own scale"
MAP_WIDTH, MAP_HEIGHT, COLUMNS = 1.75, 2.5, 4
TEST_COLOUR, VALIDATION_COLOUR, CONTROL_COLOUR = "#1f5fbf", "#8fb3e3", "#8a8a8a"


@styled
def draw_functions(
    maps: NDArray[np.float64], functions: Sequence[str], overlap: NDArray[np.float64], k: int, title: str = ""
) -> Figure:
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
        ax.imshow(scores, aspect="auto", origin="lower", **look)
        ax.set_title(name, fontsize=8.5)
        number_heads(ax)
    for ax in axes[len(functions) :]:
        ax.remove()
    for ax in axes[::columns]:
        ax.set_ylabel("Layer")
    for ax in axes[max(len(functions) - columns, 0) : len(functions)]:
        ax.set_xlabel("Head")
    draw_matrix(right.subplots(), f"Overlap of the top {k} (Jaccard)", overlap, names, low=0.0, named=True)
    figure.suptitle(title, fontsize=10.5)
    figure.supxlabel(MAP_WORDS, **CAPTION)
    return figure


@styled
def draw_steering(found: Sequence[Steering], title: str = "") -> Figure:
    """A panel a function."""
    figure = Figure(figsize=(max(2.4 * len(found) + 0.4, 5.0), 3.5), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for ax, entry in zip(axes, found, strict=True):
        _draw(ax, entry)
    axes[0].set_ylabel("Accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    caption = (
        "Directions from wrong to right train answers, of length one standard deviation, times alpha, added to the"
        f" function's heads while the model writes; bars: 90 % of {len(found[0].control)} random directions of the"
        " same size on the same heads; circle: the alpha that is best on validation"
    )
    legend = dict(zip(labels, handles, strict=True))
    surround(figure, legend, 3, title, caption, title_fontsize=None, fontsize=8)
    return figure


def _draw(ax: Axes, entry: Steering) -> None:
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
    ax.set_title(f"{function_title(entry.function)}\n{entry.heads} heads", fontsize=9)
