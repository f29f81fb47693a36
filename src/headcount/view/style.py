"""What all figures share: how they look, what stands around their panels, and how they are saved."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..core.files import write_file
from ..core.words import FigureWidth

T = TypeVar("T")
STYLE: Any = mpl.rc_params_from_file(Path(__file__).with_name("headcount.mplstyle"), use_default_template=False)
styled = mpl.rc_context(STYLE)
"""Decorates a function that draws."""
CAPTION: Any = {"fontsize": 7, "color": "#555555"}
CAPTION_LINES = 2
"""At most; the pages of the studies in docs/ say the rest."""
LETTERS = 128
"""Of one point, that an inch holds."""
WIDTHS = {"column": 3.3, "page": 6.9}
"""Inches of a column and of the text block of a two-column paper."""
LEAST = 1.3
"""Inches that a panel takes at least."""


def figure_width(natural: float, asked: FigureWidth, panels: int) -> float:
    """Of so many panels side by side, as wide as asked for where they fit."""
    return max(WIDTHS[asked], LEAST * panels) if asked else natural


def surround(figure: Figure, legend: dict[str, Artist], columns: int, title: str, caption: str, **look: object) -> None:
    """A legend above all panels, and below them what they show."""
    titled = {"title": within(title, figure.get_figwidth() - 0.2, 10.5) or None, "title_fontsize": 10.5}
    place: Any = {"loc": "outside upper center", "ncols": columns, **titled, **look}
    figure.legend(legend.values(), legend.keys(), **place)
    figure.supxlabel(_in_lines(caption, figure.get_figwidth() - 0.2), **CAPTION)


def _in_lines(caption: str, inches: float) -> str:
    """As many of its parts, the first before the last, as the lines of a caption hold."""
    parts = caption.split("; ")
    while len(parts) > 1 and within("; ".join(parts), inches, CAPTION["fontsize"]).count("\n") >= CAPTION_LINES:
        parts.pop()
    return within("; ".join(parts), inches, CAPTION["fontsize"])


def within(words: str, inches: float, size: float = 10) -> str:
    """Words on as many lines as it takes to stay within so many inches, in letters of so many points."""
    return "\n".join(wrap(words, max(int(inches * LETTERS / size), 8)))


def room_for(titles: Iterable[str]) -> float:
    """Inches that titles of several lines take beyond those of one."""
    return 0.17 * max(title.count("\n") for title in titles)


def number_heads(ax: Axes) -> None:
    """Of a map of layers and heads."""
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))


def grouped(things: Sequence[T], name: str) -> dict[str, list[T]]:
    """By the value of an attribute, in the order in which values first come."""
    groups: dict[str, list[T]] = {}
    for thing in things:
        groups.setdefault(getattr(thing, name), []).append(thing)
    return groups


def different(numbers: Iterable[int]) -> str:
    return "–".join(map(str, sorted(set(numbers))))


@styled
def save_figure(figure: Figure, folder: Path, name: str = "figure") -> list[Path]:
    """PNG, SVG and PDF, each whole or absent; the same figure gives the same bytes. It is laid out once, for the PNG:
    that takes as long as drawing it."""
    dates = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}
    paths = {ending: folder / f"{name}.{ending}" for ending in dates}
    layout = figure.get_layout_engine()
    try:
        for ending, path in paths.items():
            drawn = io.BytesIO()
            figure.savefig(drawn, format=ending, metadata={dates[ending]: None})
            write_file(path, drawn.getvalue())
            figure.set_layout_engine(None)
    finally:
        figure.set_layout_engine(layout)
    return list(paths.values())
