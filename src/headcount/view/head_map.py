"""Maps of heads: a square a head, layers upward, coloured by its score, with a colour bar."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import CAPTION, number_heads, room_for, styled, within

if TYPE_CHECKING:
    from ..rank.scores import HeadScores

LARGEST, SMALLEST, WIDEST, LEAST = 0.2, 0.05, 3.2, 1.3
"""A square in inches, the side that a map with many heads is squeezed into, and that of one with few."""
NUMBERED = 5
"""So many of the first heads are numbered."""
MAPS_A_ROW = 4
MAP_CAPTION = f"Numbers: the {NUMBERED} heads with the largest scores by size. "
SIGNED = "Above 0: keeping the head raises the metric."


@styled
def draw_scores(scores: "Sequence[HeadScores]", title: str = "") -> Figure:
    """A map for each of the scores, every one with a scale of its own."""
    columns, rows = min(len(scores), MAPS_A_ROW), -(-len(scores) // MAPS_A_ROW)
    shapes = [entry.values.shape for entry in scores]
    heads, layers = max(shape[1] for shape in shapes), max(shape[0] for shape in shapes)
    square = max(min(max(WIDEST / max(heads, layers), SMALLEST), LARGEST), LEAST / max(heads, layers))
    width, height = max(heads * square, LEAST) + 1.15, max(layers * square, 0.8) + 0.65
    names = [within(name, width - 0.55, 11) for name in names_of(scores)]
    height += room_for(names)
    figure = Figure(figsize=(columns * width + 0.1, rows * height + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for ax, entry, name in zip(axes, scores, names, strict=False):
        _draw_map(ax, entry, name)
    for ax in list(axes)[len(scores) :]:
        ax.remove()
    inches = figure.get_figwidth() - 0.2
    if title:
        figure.suptitle(within(title, inches, 10.5), fontsize=10.5)
    caption = MAP_CAPTION + (SIGNED if any(entry.signed for entry in scores) else "")
    figure.supxlabel(within(caption, inches, CAPTION["fontsize"]), **CAPTION)
    return figure


def names_of(scores: "Sequence[HeadScores]") -> list[str]:
    """What sets the scores apart; of a single one, all there is to say."""
    parts = [part for part in ("task", "model", "method") if len({getattr(entry, part) for entry in scores}) > 1]
    parts = parts or ["task", "model", "method"]
    return [" · ".join(filter(None, (getattr(entry, part) for part in parts))) for entry in scores]


def _draw_map(ax: Axes, scores: "HeadScores", name: str) -> None:
    values = scores.values
    most = float(np.abs(values).max()) or 1.0
    low = -most if scores.signed else min(float(values.min()), 0.0)
    look: Any = {"cmap": "RdBu_r" if scores.signed else "Blues", "vmin": low, "vmax": most}
    image = ax.imshow(values, origin="lower", interpolation="nearest", **look)
    ax.figure.colorbar(image, ax=ax, label=scores.metric if scores.signed else "Score", fraction=0.08, pad=0.04)
    for rank, (layer, head) in enumerate(scores.order()[:NUMBERED], start=1):
        dark = abs(values[layer, head]) > 0.6 * most
        ax.text(head, layer, str(rank), ha="center", va="center", fontsize=5.5, color="white" if dark else "black")
    number_heads(ax)
    ax.set(xlabel="Head", ylabel="Layer")
    ax.set_title(name, loc="left", fontsize=9)
