"""Agreement between head scores: a heat map of rank correlations, and one of shared top heads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import float64, ndenumerate
from numpy.typing import NDArray

from .style import styled

if TYPE_CHECKING:
    from ..rank.comparison import Comparison
    from ..sweeps.overlap import Overlap


@styled
def draw_agreement(found: "Comparison") -> Figure:
    """Spearman's correlation, and the overlap (Jaccard) of the top heads at each k."""
    panels = [("Spearman", found.spearman, -1.0)]
    panels += [(f"Jaccard, top {k}", matrix, 0.0) for k, matrix in found.jaccard.items()]
    side, longest = 0.55 * len(found.names) + 0.2, 0.085 * max(map(len, found.names))
    size = (len(panels) * (side + 0.1) + longest + 0.1, side + longest + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, matrix, low) in zip(axes, panels, strict=True):
        draw_matrix(ax, name, matrix, found.names, low, named=ax is axes[0])
    return figure


@styled
def draw_overlap(found: "Overlap", title: str = "") -> Figure:
    """How many heads each two sets share, coloured by their Jaccard overlap."""
    names = found.names
    sets = [set(heads) for heads in found.sets.values()]
    side, longest = max(0.55 * len(names), 1.2) + 0.2, 0.085 * max(map(len, names))
    figure = Figure(figsize=(side + longest + 1.2, side + longest + 0.5), layout="constrained")
    ax = figure.subplots()
    counts = [[f"{len(one & other)}" for other in sets] for one in sets]
    draw_matrix(ax, title or "Heads shared", found.jaccard, names, 0.0, named=True, words=counts)
    figure.colorbar(ax.get_images()[0], ax=ax, label="In both / in either", fraction=0.06)
    return figure


def draw_matrix(
    ax: Axes,
    name: str,
    matrix: NDArray[float64],
    names: Sequence[str],
    low: float,
    named: bool,
    words: Sequence[Sequence[str]] = (),
) -> None:
    """A square for each two; in it `words`, or its value."""
    ax.imshow(matrix, cmap="RdBu_r" if low < 0 else "Blues", vmin=low, vmax=1)
    ax.set_title(name, loc="left")
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(names)), names if named else [""] * len(names))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    for (row, column), value in ndenumerate(matrix):
        colour = "white" if abs(value) > 0.6 else "black"
        said = words[row][column] if words else f"{value:.2f}"
        ax.text(column, row, said, ha="center", va="center", fontsize=7, color=colour)
