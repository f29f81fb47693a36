"""Attention patterns: one map per head, from tokens (down) to the tokens that they look at (across)."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..core.errors import HeadcountError
from .style import CAPTION, styled

if TYPE_CHECKING:
    from ..meters.attention_patterns import AttentionPattern

WITH_TOKENS = 4
"""Of so many heads every map says its tokens; of more they are small, to be looked over."""
LETTERS = 14
"""Of a token that are shown."""
COLOURS: Any = {"cmap": "Blues", "vmin": 0, "vmax": 1, "interpolation": "nearest"}


@styled
def draw_attention(pattern: "AttentionPattern", title: str = "") -> Figure:
    if not pattern.heads:
        raise HeadcountError("There is nothing to plot: the pattern has no heads.")
    figure = _with_tokens(pattern) if len(pattern.heads) <= WITH_TOKENS else _overview(pattern)
    image = figure.axes[-1].get_images()[0]
    shrink = min(1.0, 2.4 / figure.get_figheight())
    figure.colorbar(image, ax=list(figure.axes), label="Attention weight", shrink=shrink, pad=0.02)
    words: Any = {**CAPTION, "fontsize": 8} if not title else {}
    figure.suptitle(title or f"{pattern.model}: rows look at columns", x=0.02, ha="left", **words)
    return figure


def _with_tokens(pattern: "AttentionPattern") -> Figure:
    """Side by side."""
    count, names = len(pattern.heads), [visible(token) for token in pattern.tokens]
    room = 0.075 * max(map(len, names)) + 0.3
    side = min(max(0.16 * len(names), 1.6), 6.0)
    figure = Figure(figsize=(count * (side + room) + 0.9, side + room + 0.5), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    for ax, head, weights in zip(axes, pattern.heads, pattern.weights, strict=True):
        ax.imshow(weights, **COLOURS)
        ax.set_title(head, loc="left")
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        _name_tokens(ax, names, side)
    return figure


def _overview(pattern: "AttentionPattern") -> Figure:
    """Tiles of one image, as axes by the hundred would take minutes to lay out."""
    count, length = len(pattern.heads), len(pattern.tokens)
    columns = min(count, 8)
    rows = -(-count // columns)
    across, down = length * 1.15, length * 1.3
    figure = Figure(figsize=(columns * 0.95 + 0.9, rows * 1.05 + 0.5), layout="constrained")
    ax = figure.subplots()
    for place, (head, weights) in enumerate(zip(pattern.heads, pattern.weights, strict=True)):
        left, top = place % columns * across, place // columns * down
        ax.imshow(np.asarray(weights), extent=(left, left + length, top + length, top), **COLOURS)
        ax.text(left, top - 0.03 * length, head, fontsize=6.5, va="bottom")
    ax.set(xlim=(0, columns * across), ylim=(rows * down, -0.3 * length), aspect="equal")
    ax.axis("off")
    return figure


def _name_tokens(ax: Axes, names: list[str], side: float) -> None:
    """All of them, or as many as fit."""
    every = max(1, round(len(names) * 0.12 / side))
    places = range(0, len(names), every)
    ax.set_xticks(places, [names[place] for place in places], rotation=90, fontsize=7)
    ax.set_yticks(places, [names[place] for place in places], fontsize=7)


def visible(token: str) -> str:
    """A token on an axis: spaces and line ends can be seen, and long ones are cut short."""
    shown = token.replace("\n", "\\n").replace("\t", "\\t").replace(" ", "·")
    return shown if len(shown) <= LETTERS else f"{shown[: LETTERS - 1]}…"
