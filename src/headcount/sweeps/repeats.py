"""The same question again, with other prompts, other names and the ranking that they give: how far answers lie apart.

An interval over the test prompts of one curve takes its ranking for granted. Repeats do not: the spread of their
answers holds the noise of prompts, names and rankings together. On R of them the interval of units needed is Student's,

    exp( mean log k  ±  t(R - 1) · s / sqrt(R) ),      s² = the larger of  var log k  and  the variance within a repeat

on logarithms, as numbers of units vary by a factor. The variance within, that of log k over resampled test prompts, is
part of what makes repeats differ, so that s² below it can only be luck, of which three repeats have plenty.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..core.errors import HeadcountError
from ..core.saving import Floats
from ..core.words import Aim
from .curve import Curve
from .needed import UnitsNeeded
from .ratio import Ratio, compare, log_ratios
from .resampling import ends_of, t_quantile
from .stability import Stability, stability_of


@dataclass(frozen=True)
class Repeats:
    """Curves of one model, task and order, each with a seed of its own. The first is the one that is shown."""

    curves: tuple[Curve, ...]

    def __post_init__(self) -> None:
        if not self.curves:
            raise HeadcountError("Repeats need at least one curve, and none came.")
        for one, other in pairwise(self.curves):
            names = ("model", "task", "units", "order", "mode", "fill")
            if wrong := [name for name in names if getattr(one, name) != getattr(other, name)]:
                raise HeadcountError(
                    f"Repeats are curves of the same question, but one has the {wrong[0]} {getattr(one, wrong[0])!r}"
                    f" and the next {getattr(other, wrong[0])!r}. Put them into repeats of their own."
                )

    def units_needed(self, threshold: float = 0.9, level: float = 0.9, aim: Aim = "faithful") -> UnitsNeeded:
        """The median over the repeats, with an interval that holds the noise of prompts, names and rankings; of a
        single curve its own, over test prompts alone. Where the repeats are even in number, the smaller of the two in
        the middle. `each` has the units needed of every repeat; `stays` is the median as well."""
        return self.needed_at((threshold,), level, aim)[0]

    def needed_at(
        self, thresholds: Sequence[float], level: float = 0.9, aim: Aim = "faithful"
    ) -> tuple[UnitsNeeded, ...]:
        """`units_needed` at many thresholds."""
        by_curve = [curve.needed_at(thresholds, level, aim) for curve in self.curves]
        if len(self.curves) == 1:
            return tuple(replace(first, each=(first.value,)) for first in by_curve[0])
        crossings = [curve.crossings_at(thresholds, None, aim) for curve in self.curves]
        sides = zip(zip(*by_curve, strict=True), zip(*crossings, strict=True), strict=True)
        return tuple(_together(found, [np.log(own) for own in samples], level) for found, samples in sides)

    def stability(self, k: int | None = None, threshold: float = 0.9) -> Stability | None:
        """In how many repeats each unit is among the first k; by default as many as the median of the repeats needs.
        None of a single curve, of orders by chance, and where no k is known."""
        k = k or self.units_needed(threshold).value
        rankings = [curve.ranking for curve in self.curves if curve.ranking]
        return None if k is None or len(rankings) < 2 else stability_of(rankings, k, self.curves[0].total)


def compare_repeats(first: Repeats, second: Repeats, threshold: float = 0.9, level: float = 0.9) -> Ratio | None:
    """The ratio between the median units that two models need, with an interval over their repeats: the first of one
    with the first of the other, and so on, on the same prompts where they are the same."""
    ratios = [compare(*both, threshold, level) for both in zip(first.curves, second.curves, strict=False)]
    found = [ratio for ratio in ratios if ratio is not None]
    if len(found) < len(ratios):
        return None
    if len(found) == 1:
        return found[0]
    needed = [(repeats.units_needed(threshold).value or 0, repeats) for repeats in (first, second)]
    (more_units, more), (fewer_units, fewer) = sorted(needed, key=lambda side: -side[0])
    sides = list(zip(more.curves, fewer.curves, strict=False))
    samples = [log_ratios(*side, threshold, None) for side in sides]
    each = np.array([math.log((a.first_k(threshold) or 1) / (b.first_k(threshold) or 1)) for a, b in sides])
    bottom, top = np.exp(interval_of_repeats(each, _variance_within(samples), level))
    ends = min(bottom, more_units / fewer_units), max(top, more_units / fewer_units)
    return replace(
        found[0],
        more=more.curves[0].model,
        fewer=fewer.curves[0].model,
        more_units=more_units,
        fewer_units=fewer_units,
        low=float(ends[0]),
        high=float(ends[1]),
    )


def _together(found: Sequence[UnitsNeeded], samples: list[Floats], level: float) -> UnitsNeeded:
    """What the repeats say at one threshold, with the logarithms of their resampled crossings."""
    first = found[0]
    each, stays = (tuple(getattr(one, name) for one in found) for name in ("value", "stays"))
    value, low, high = middle(each), None, None
    if value is not None and None not in each:
        bottom, top = interval_of_repeats(np.log(np.array(each, dtype=np.float64)), _variance_within(samples), level)
        low = min(max(math.floor(math.exp(bottom)), 1), value)
        high = max(min(math.ceil(math.exp(min(top, 700))), first.total), value)
    return replace(first, value=value, low=low, high=high, stays=middle(stays), each=each)


def interval_of_repeats(each: Floats, within: float, level: float) -> tuple[float, float]:
    """The interval of this file, on logarithms."""
    spread = math.sqrt(max(float(each.var(ddof=1)), within) / len(each)) * t_quantile(len(each) - 1, ends_of(level)[1])
    return float(each.mean()) - spread, float(each.mean()) + spread


def middle(numbers: tuple[int | None, ...]) -> int | None:
    """The median, none counting as more than any; the smaller of two in the middle."""
    ordered = sorted(numbers, key=lambda k: math.inf if k is None else k)
    return ordered[(len(ordered) - 1) // 2]


def _variance_within(samples: list[Floats]) -> float:
    """Of resamplings that get somewhere, on average over the repeats."""
    return float(np.mean([one[np.isfinite(one)].var() if np.isfinite(one).any() else 0.0 for one in samples]))
