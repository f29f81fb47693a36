"""Where the heads of each function are: a map of layers and heads a function, and how far their top heads overlap."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...tasks.questions import function_title
from ...view.agreement import draw_matrix
from ...view.style import CAPTION, number_heads, styled

MAP_WORDS = "Maps: score of every head, red above zero and blue below, white at zero; each map has its own scale"
MAP_WIDTH, MAP_HEIGHT, COLUMNS = 1.75, 2.5, 4


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
