"""Pushed heads: accuracy against how hard they are pushed, and what pushes in random directions do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...sweeps.steering import Steering
from ...tasks.questions import function_title
from ...view.style import styled, surround

TEST_COLOUR, VALIDATION_COLOUR, CONTROL_COLOUR = "#1f5fbf", "#8fb3e3", "#8a8a8a"


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
