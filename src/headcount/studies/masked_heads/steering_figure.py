"""Pushed heads: accuracy against how hard they are pushed, and what pushes in random directions do."""

from collections.abc import Sequence
from textwrap import wrap

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...sweeps.steering import Steering
from ...tasks.questions import function_title
from ...view.style import STYLE

TEST_COLOUR, VALIDATION_COLOUR, CONTROL_COLOUR = "#1f5fbf", "#8fb3e3", "#8a8a8a"


def draw_steering(found: Sequence[Steering], title: str = "") -> Figure:
    """A panel a function."""
    width = max(2.4 * len(found) + 0.4, 5.0)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, 3.5), layout="constrained")
        axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
        for ax, entry in zip(axes, found, strict=True):
            _draw(ax, entry)
        axes[0].set_ylabel("Accuracy")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, title=title or None, fontsize=8)
        first = found[0]
        caption = (
            "Directions from wrong to right train answers, of length one standard deviation, times alpha, added to the"
            f" function's heads while the model writes; bars: 90 % of {len(first.control)} random directions of the"
            " same size on the same heads; circle: the alpha that is best on validation"
        )
        figure.supxlabel("\n".join(wrap(caption, int(width * 17))), fontsize=7, color="#555555")
    return figure


def _draw(ax: Axes, entry: Steering) -> None:
    ax.plot(entry.alphas, entry.validation.mean(1), color=VALIDATION_COLOUR, marker=".", label="validation questions")
    ax.plot(entry.alphas, entry.test.mean(1), color=TEST_COLOUR, marker=".", label="test questions")
    alpha, by_draw = entry.provenance["control_alpha"], entry.control.mean(1)
    low, high = np.quantile(by_draw, [0.05, 0.95])
    middle = float(by_draw.mean())
    ax.errorbar(
        [alpha], [middle], yerr=[[middle - low], [high - middle]], color=CONTROL_COLOUR, marker="s", markersize=4,
        capsize=3, linestyle="none", label="random directions, test",
    )  # fmt: skip
    ax.plot(
        [entry.alphas[entry.chosen]], [entry.test.mean(1)[entry.chosen]], "o", markersize=9, fillstyle="none",
        color=TEST_COLOUR,
    )  # fmt: skip
    ax.set_ylim(-0.03, 1.03)
    ax.set_title(f"{function_title(entry.function)}\n{entry.heads} heads", fontsize=9)
    ax.set_xlabel("alpha")
