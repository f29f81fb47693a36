"""`headcount.plot`: curves as the figure of the study that makes such curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ..core.errors import HeadcountError
from ..sweeps import Curve
from . import STUDIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(curves: Curve | Sequence[Curve], *, threshold: float | None = 0.9, title: str = "") -> "Figure":
    """Draw curves of one kind: explained effect, a panel a task; curves by role, a row a task and a column a model;
    masked answers, a row a model and a column a function. Returns a matplotlib figure, to be shown or saved."""
    listed = [curves] if isinstance(curves, Curve) else list(curves)
    if not listed:
        raise HeadcountError("There is nothing to plot: no curves were given.")
    kinds = {curve.kind for curve in listed}
    if len(kinds) > 1:
        apart = f"Curves of {' and '.join(sorted(kinds))} say different things"
        raise HeadcountError(f"{apart} and cannot share a figure. Plot them one by one.")
    study = next(study for study in STUDIES.sound().values() if study.curves in kinds)
    return cast("Figure", study.part("figure").plot(listed, threshold, title))
