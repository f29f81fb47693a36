"""Roles of heads: one row per task; for each model the curves by role, and a map of roles with their shares."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from ...core.words import ROLES, FigureWidth
from ...rank.roles import LABELS, HeadRoles
from ...sweeps.curve import Curve
from ...view.style import different, figure_width, grouped, number_heads, room_for, styled, surround, within

ROLE_COLOURS = {"facilitation": "#45b36b", "irrelevance": "#2f6db3", "interference": "#b3262b", "chance": "#8a8a8a"}
ROLE_DASHES: dict[str, Any] = {
    "facilitation": "-",
    "irrelevance": (0, (4, 1)),
    "interference": (0, (6, 1, 1, 1)),
    "chance": (0, (1, 1.5)),
}
"""So that nobody has to tell red from green."""
UNCLEAR_COLOUR = "#e6e6e6"
CHANGES = {"log_prob_change": "of the target", "log_prob_per_token_change": "of a target token"}
MAP_CAPTION = (
    "maps: the role that most seeds give a head, paler where they disagree, crosses: interference",
    "above the maps, share of heads with a score of at least one half, facilitation · irrelevance · interference",
)
CURVE_WIDTH, MAP_WIDTH, ROW_HEIGHT = 3.1, 1.75, 2.3

Cell = tuple[HeadRoles | None, Sequence[Curve]]
"""One task and model; without roles no map is drawn."""


def plot(curves: Sequence[Curve], threshold: float | None = None, title: str = "", width: FigureWidth = "") -> Figure:
    """One row per task, one column per model."""
    rows = grouped(curves, "title").values()
    return draw_roles([[(None, own) for own in grouped(row, "model").values()] for row in rows], title, width)


@styled
def draw_roles(rows: Sequence[Sequence[Cell]], title: str = "", width: FigureWidth = "") -> Figure:
    """Rows of tasks, columns of models; all curves of a row have one scale."""
    models = max(len(row) for row in rows)
    maps = models if any(roles is not None for row in rows for roles, _ in row) else 0
    inches = figure_width(max(models * CURVE_WIDTH + maps * MAP_WIDTH + 0.4, 4.6), width, models + maps)
    ratios = [CURVE_WIDTH] * models + [MAP_WIDTH] * maps
    narrower = min(inches / (sum(ratios) + 0.4), 1.0)
    names = [within(curves[0].model, (CURVE_WIDTH - 0.5) * narrower) for _, curves in rows[0]]
    above = [within(f"{curves[0].model}: roles", (MAP_WIDTH - 0.4) * narrower) for _, curves in rows[0]]
    height = ROW_HEIGHT * len(rows) + room_for([*names, *above] if maps else names) + 1.3
    figure = Figure(figsize=(inches, height), layout="constrained")
    axes = figure.subplots(len(rows), models + maps, squeeze=False, width_ratios=ratios)
    for number, (row, places) in enumerate(zip(rows, axes, strict=True)):
        curve_axes, map_axes = places[:models], places[models:]
        top, bottom = number == 0, number == len(rows) - 1
        for column, (roles, curves) in enumerate(row):
            _draw_curves(curve_axes[column], names[column] if top else "", curves, bottom)
            if roles is not None:
                _draw_map(map_axes[column], roles, above[column] if top else "", bottom)
        for ax in (*curve_axes[len(row) :], *map_axes[len(row) :]):
            ax.remove()
        _share_scale(curve_axes[: len(row)], [curve for _, curves in row for curve in curves])
        first = row[0][1][0]
        words = f"Δ log-probability\n{CHANGES[first.metric]}" if first.metric in CHANGES else first.metric
        curve_axes[0].set_ylabel("\n".join([*wrap(first.title, 26), words]))
    legend: dict[str, Any] = {}
    for order in (curve.order for curve in rows[0][0][1]):
        words = "Random order" if order == "chance" else order.capitalize()
        legend[words] = Line2D([], [], **_look(order))
    if maps:
        legend["Unclear"] = Patch(color=UNCLEAR_COLOUR)
    surround(figure, legend, 5 if inches > 7 else 3 if inches > 4 else 2, title, _caption(rows))
    return figure


def _look(order: str) -> dict[str, Any]:
    return {"color": ROLE_COLOURS[order], "linestyle": ROLE_DASHES[order], "linewidth": 1.6}


def _draw_curves(ax: Axes, name: str, curves: Sequence[Curve], bottom: bool) -> None:
    ax.axhline(0, color="#999999", linewidth=0.7, zorder=0)
    for curve in curves:
        value, low, high = curve.band(curve.metric)
        ax.fill_between(curve.ks, low, high, color=ROLE_COLOURS[curve.order], alpha=0.18, linewidth=0)
        ax.plot(curve.ks, value, **_look(curve.order))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.set(xlim=(0, curves[0].ks[-1]), xlabel="Number of ablated heads" if bottom else "")
    ax.set_title(name, loc="left")


def _share_scale(axes: Sequence[Axes], curves: Sequence[Curve]) -> None:
    """One scale for the row, wide enough for every mean line; a wide band is cut rather than flatten them."""
    values = np.concatenate([curve.band(curve.metric).value for curve in curves])
    bands = np.concatenate([np.concatenate(curve.band(curve.metric)[1:]) for curve in curves])
    room = 0.08 * max(float(np.ptp(values)), 1e-6)
    low = max(float(bands.min()), float(values.min()) - 4 * room) - room
    high = min(float(bands.max()), float(values.max()) + 4 * room) + room
    for ax in axes:
        ax.set_ylim(low, high)


def _draw_map(ax: Axes, roles: HeadRoles, name: str, bottom: bool) -> None:
    """A square a head in the colour of the role that most seeds give it, the paler the smaller their lead over the next
    role is; the share of the heads in each role above."""
    votes = np.stack([(roles.labels() == LABELS[role]).mean(0) for role in ROLES])
    *_, second, first = np.sort(votes, axis=0)
    colours = np.array([to_rgb(ROLE_COLOURS[role]) for role in ROLES])[votes.argmax(0)]
    pale = np.array(to_rgb(UNCLEAR_COLOUR))
    ax.imshow(
        pale + (colours - pale) * (first - second)[..., None], aspect="auto", origin="lower", interpolation="nearest"
    )
    layers, heads = roles.plus.shape[1:]
    hurting = np.argwhere((votes.argmax(0) == ROLES.index("interference")) & (first > second))
    size = min(60 / max(heads, layers), 5)
    ax.plot(hurting[:, 1], hurting[:, 0], "x", color="white", markersize=size, markeredgewidth=size / 6)
    ax.set_xticks(np.arange(-0.5, heads), minor=True)
    ax.set_yticks(np.arange(-0.5, layers), minor=True)
    ax.grid(which="minor", color="white", linewidth=0.4)
    ax.tick_params(which="minor", length=0)
    number_heads(ax)
    ax.set(ylabel="Layer", xlabel="Head" if bottom else "")
    ax.spines[:].set_visible(False)
    _draw_shares(ax, roles, heads)
    ax.set(xlim=(-0.5, heads - 0.5), ylim=(-0.5, layers - 0.5))
    ax.set_title(name, loc="left", pad=25)


def _draw_shares(ax: Axes, roles: HeadRoles, heads: int) -> None:
    """A bar above the map, as long as all heads; where roles overlap, their lengths are scaled down to it."""
    shares = {role: by["mean"] for role, by in roles.shares().items()}
    scale = heads / max(sum(shares.values()), 1.0)
    above = ax.get_xaxis_transform()  # heads across, shares of the map's height upward
    start = -0.5
    for role, share in shares.items():
        look: Any = {"color": ROLE_COLOURS[role], "linewidth": 0, "transform": above, "clip_on": False}
        ax.add_patch(Rectangle((start, 1.03), share * scale, 0.05, **look))
        start += share * scale
    words = " · ".join(f"{100 * share:.0f}" for share in shares.values()) + " %"
    ax.text(heads / 2 - 0.5, 1.1, words, transform=above, ha="center", va="bottom", fontsize=7)


def _caption(rows: Sequence[Sequence[Cell]]) -> str:
    """What the lines and bands are, so that the figure can stand alone."""
    cells = [cell for row in rows for cell in row]
    curves = [curve for _, curves in cells for curve in curves]
    seeds = different(curve.draws for curve in curves if curve.order != "chance")
    examples = different(curve.pairs for curve in curves)
    base = "G+" if curves[0].base == "plus" else "all ones"
    fill = "zero" if curves[0].fill == "zero" else f"the fill {curves[0].fill}"
    heads = list(dict.fromkeys(f"{curve.model} ({curve.total:,} heads)" for curve in curves))
    parts = [
        f"{', '.join(heads)}, {seeds} seeds, {examples} test prompts",
        f"lines: change in log P when the first k gates close, the others as in {base}",
        "bands: 90 % intervals over seeds and prompts",
        *(MAP_CAPTION if any(roles is not None for roles, _ in cells) else ()),
        f"closed gates let {fill} through",
    ]
    return "; ".join(parts)
