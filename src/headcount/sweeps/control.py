"""How much a ranking "explains" of nonsense, on the scale of the real task.

On nonsense (`tasks/nonsense.py`) the whole model has next to no effect, so explained effect would divide noise by
noise. What counts is whether a circuit that was chosen on nonsense does anything on test prompts that would show beside
the real effect:

    control(k) = (n(k) - n(none)) / (m(all) - m(none))

with n the mean metric of the nonsense task and m that of the real one, on the same prompts. It is 0 where nothing can
be explained; a method that makes up circuits for anything gets some share of 1. Both means are of the same prompts, so
intervals resample them together.
"""

import numpy as np

from ..core.errors import HeadcountError
from ..core.saving import Floats
from .curve import Curve, Interval
from .resampling import ends_of, resamplings


def control(real: Curve, nonsense: Curve, k: int, level: float = 0.9) -> Interval[float]:
    """What k units explain of nonsense, as a share of the real effect, with an interval over resampled prompts.

    **Arguments:**

    - `real`: the curve of the task itself; of it only none and all of the units are used.
    - `nonsense`: that of `headcount.nonsense(task)` or the task `nonsense:…`, with units ranked on its own train
      prompts. It must have been measured at k.
    """
    alike = ("model", "units", "fill", "metric", "mode", "kind", "total", "pairs")
    unlike = [name for name in alike if getattr(real, name) != getattr(nonsense, name)]
    if unlike or real.groups != nonsense.groups:
        differ = ", ".join(unlike) or "groups of prompts"
        raise HeadcountError(f"A control and what it controls must be measured alike; these two differ in {differ}.")
    if k not in nonsense.ks:
        measured = ", ".join(map(str, nonsense.ks))
        raise HeadcountError(f"The curve of nonsense was not measured at k = {k}, only at {measured}. Add ks=[{k}].")
    none, whole = (0, real.total) if real.mode == "keep" else (real.total, 0)
    gap = _at(real, whole) - _at(real, none)
    moved = _at(nonsense, k) - _at(nonsense, none)
    weights = resamplings(real.groups or tuple(range(real.pairs)))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.quantile((weights @ moved) / (weights @ gap), ends_of(level))
        return Interval(float(moved.mean() / gap.mean()), float(low), float(high))


def _at(curve: Curve, k: int) -> Floats:
    """The metric of each prompt; of a chance order, the mean over its draws."""
    return np.asarray(curve.values[curve.metric][:, curve.ks.index(k)].mean(0))
