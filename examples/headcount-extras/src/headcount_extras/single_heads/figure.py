"""Maps of heads: a row a task, a column a model, a square a head; red where the metric falls without it."""

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.studies.kept.figure import plot as plot  # curves alone look like those of heads-kept
from headcount.view.style import STYLE


def draw(rows, title: str = "") -> Figure:
    """`rows` are the scores of each task, one entry a model."""
    columns = max(map(len, rows))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.9 * columns + 0.8, 2.1 * len(rows) + 0.6), layout="constrained")
        axes = figure.subplots(len(rows), columns, squeeze=False)
        for row, places in zip(rows, axes, strict=True):
            for scores, ax in zip(row, places, strict=False):
                _draw_map(figure, ax, scores)
            for ax in places[len(row) :]:
                ax.remove()
        figure.suptitle(title, fontsize=10.5)
    return figure


def _draw_map(figure, ax, scores) -> None:
    most = abs(scores.values).max() or 1.0
    picture = ax.imshow(scores.values, cmap="RdBu_r", vmin=-most, vmax=most, origin="lower", aspect="auto")
    figure.colorbar(picture, ax=ax, label=f"fall of {scores.metric}")
    ax.set_title(f"{scores.task}, {scores.model}", loc="left")
    ax.set_xlabel("Head")
    ax.set_ylabel("Layer")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=True))
