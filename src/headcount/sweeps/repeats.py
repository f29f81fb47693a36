"""The same question again, with other prompts, or another split of a file, and the ranking that they give: one answer.

An interval over the test prompts of one curve takes its ranking for granted, and its first crossing of a threshold may
be luck: a flat stretch that just touches it, or a jump past it. So the repeats are pooled into one curve, the mean over
the prompts of all of them, each prompt under the ranking of its own repeat. Luck at one k evens out there, and units
needed are those with which the behaviour is there on average over prompts and rankings.

Its intervals resample whole repeats, as the prompts of one share a ranking (`resampling.py`: Student's t with R - 1
degrees of freedom). Few repeats may agree by luck; no interval is narrower than that over prompts alone, which are part
of what makes repeats differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from ..core.errors import HeadcountError
from ..core.saving import Floats
from ..core.words import Aim
from .curve import Curve
from .needed import UnitsNeeded
from .ratio import Ratio, compare
from .stability import Stability, stability_of


@dataclass(frozen=True)
class Repeats:
    """Curves of one model, task and order, each with a seed of its own."""

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

    @cached_property
    def pooled(self) -> Curve:
        """One curve of the prompts of all repeats, a group each, at every k that one of them was measured at; between
        its own k a curve is taken as straight. Its ranking is that by mean rank."""
        if len(self.curves) == 1:
            return self.curves[0]
        ks = tuple(sorted({k for curve in self.curves for k in curve.ks}))
        names = [name for name in self.curves[0].values if all(name in curve.values for curve in self.curves)]
        values = {name: np.concatenate([_at(curve, name, ks) for curve in self.curves], axis=2) for name in names}
        groups = tuple(str(number) for number, curve in enumerate(self.curves) for _ in range(curve.pairs))
        total = max(curve.total for curve in self.curves)  # attention edges are as many as prompts are long
        return replace(self.curves[0], ks=ks, total=total, values=values, groups=groups, said={}, ranking=self.ranking)

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """The units by their mean rank over the repeats, which number and names can then be of alike; none of orders by
        chance. Of edges a ranking names the first thousands: one that it does not name comes right behind them."""
        rankings = [curve.ranking for curve in self.curves]
        ranks = [dict(zip(ranking, range(len(ranking)), strict=True)) for ranking in rankings]
        found = dict.fromkeys(unit for ranking in rankings for unit in ranking)
        total = {unit: sum(own.get(unit, len(own)) for own in ranks) for unit in found}
        return tuple(sorted(found, key=total.__getitem__))[: max(map(len, rankings))]

    @property
    def by_prompt(self) -> Curve:
        """The pooled curve with its prompts apart, or the groups that they have in their own repeat."""
        if len(self.curves) == 1:
            return self.curves[0]
        named = [(number, name) for number, one in enumerate(self.curves) for name in one.groups or range(one.pairs)]
        return replace(self.pooled, groups=tuple(f"{number} {name}" for number, name in named))

    def units_needed(self, threshold: float = 0.9, level: float = 0.9, aim: Aim = "faithful") -> UnitsNeeded:
        """Those of the pooled curve, with an interval that holds the noise of prompts and rankings; of a single curve
        its own, over test prompts alone. `each` has the units needed of every repeat."""
        return self.needed_at((threshold,), level, aim)[0]

    def needed_at(
        self, thresholds: Sequence[float], level: float = 0.9, aim: Aim = "faithful"
    ) -> tuple[UnitsNeeded, ...]:
        """`units_needed` at many thresholds."""
        each = zip(*([curve.first_k(at, aim) for at in thresholds] for curve in self.curves), strict=True)
        several = len(self.curves) > 1
        found = self.pooled.needed_at(thresholds, level, aim, jumps=not several)
        if several:
            alone = self.by_prompt.needed_at(thresholds, level, aim, jumps=False)
            found = tuple(_wider(one, other) for one, other in zip(found, alone, strict=True))
        return tuple(replace(one, each=own) for one, own in zip(found, each, strict=True))

    def stability(self, k: int | None = None, threshold: float = 0.9) -> Stability | None:
        """In how many repeats each unit is among the first k; by default as many as are needed. None of a single
        curve, of orders by chance, and where no k is known."""
        k = k or self.units_needed(threshold).value
        rankings = [curve.ranking for curve in self.curves if curve.ranking]
        return None if k is None or len(rankings) < 2 else stability_of(rankings, k, self.curves[0].total)


def compare_repeats(first: Repeats, second: Repeats, threshold: float = 0.9, level: float = 0.9) -> Ratio | None:
    """The ratio between the units that two models need, with an interval over as many repeats as both have: the first
    of one with the first of the other, and so on, on the same prompts where they are the same."""
    count = min(len(first.curves), len(second.curves))
    sides = [Repeats(side.curves[:count]) for side in (first, second)]
    return compare(sides[0].pooled, sides[1].pooled, threshold, level, jumps=count == 1)


def _at(curve: Curve, name: str, ks: Sequence[int]) -> Floats:
    """A metric of every draw and prompt at some k, [draw, k, pair]: measured there, or between the two nearest."""
    places = np.interp(ks, curve.ks, np.arange(len(curve.ks)))
    below = np.floor(places).astype(int)
    above, share = np.minimum(below + 1, len(curve.ks) - 1), (places - below)[:, None]
    values = curve.values[name]
    return np.asarray(values[:, below] * (1 - share) + values[:, above] * share)


def _wider(one: UnitsNeeded, other: UnitsNeeded) -> UnitsNeeded:
    """With the interval that holds those of both; an end that is missing is infinitely far."""
    low = min((end for end in (one.low, other.low) if end is not None), default=None)
    high = max(math.inf if end is None else end for end in (one.high, other.high))
    return replace(one, low=low, high=int(high) if math.isfinite(high) else None)
