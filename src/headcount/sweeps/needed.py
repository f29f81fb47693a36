"""How many units a behaviour needs: the k at which enough of it is done, how surely, and how well.

*Done* is explained effect where units are kept, and what is gone of it, 1 - EE, where they are masked. Two questions
are asked of it at a threshold such as 0.9:

    reached      done(k) >= threshold
    faithful     |1 - done(k)| <= 1 - threshold

An order that leaves out what works against the behaviour may reach the threshold early and go far beyond 1: that is not
faithful to the whole model. Nor is any k, whatever its explained effect, with which the next token is further (KL) from
the whole model's than with no unit kept. Faithful is the one that counts. Curves need not be monotone, so that the
first k at which it holds is one number, and the k from which it holds at every larger k that was measured is another,
`stays`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import HeadcountError
from ..core.saving import Floats
from ..core.words import Aim, Mode, in_words
from .resampling import ends_of

Bools = NDArray[np.bool_]
ROUNDING = 1e-9
"""Forgives rounding in (m - m0) / (m1 - m0), nothing more."""
NEAR = 0.25
"""A prompt is near the whole model within so much of the mean effect."""


@dataclass(frozen=True)
class UnitsNeeded:
    """The fewest units with which the behaviour is there (or, masked, gone); None where that never happens."""

    value: int | None
    low: int | None
    high: int | None
    total: int
    threshold: float
    level: float
    units: str
    mode: Mode
    aim: Aim = "faithful"
    stays: int | None = None
    """The k from which it stays so, at all larger k that were measured."""
    each: tuple[int | None, ...] = ()
    """Of repeats: the number of every one."""

    @property
    def span(self) -> tuple[int, int]:
        """The smallest and the largest of the repeats; without an end, all units."""
        numbers = [self.total if k is None else k for k in (self.each or (self.value,))]
        return min(numbers), max(numbers)

    def __str__(self) -> str:
        if self.value is None:
            return f"not reached with all {self.total:,} {in_words(self.units)}"
        low, high = (self.total if end is None else end for end in (self.low, self.high))
        words = f"{count_of(self.value, self.units)}, {self.level:.0%} interval {low:,} to {high:,}".replace("%", " %")
        if len(self.each) < 2:
            return words
        if apart := words_of_repeats(self.value, self.span):
            return f"{words}. {apart}"
        return f"{words}, {self.span[0]:,} to {self.span[1]:,} in {len(self.each)} repeats"


def words_of_repeats(value: int | None, span: Sequence[int]) -> str:
    """Where the mean of all repeats crosses sooner or later than every one of them: that it does, and why."""
    low, high = span
    if value is None or low <= value <= high:
        return ""
    numbers = f"{low:,} to {high:,}" if low != high else f"{low:,}"
    if value < low:
        why = "in the mean of all, too much in one makes up for too little in another"
        return f"Each repeat alone takes more ({numbers}): {why}."
    return f"Each repeat alone takes fewer ({numbers}), but in the mean of all no smaller number is enough."


@dataclass(frozen=True)
class Closeness:
    """How close k units come to the whole model, prompt by prompt, by f = 1 - (m(all) - m(k)) / mean gap.

    The gap is m(all) - m(none). Its mean over prompts is the unit for all of them, as the gap of one prompt may be next
    to nothing; the mean of f is then explained effect.
    """

    k: int
    distance: float
    """Mean |1 - f|."""
    near: float
    """Share of the prompts with |1 - f| of at most 0.25."""
    kl: float | None
    """Mean divergence from the whole model's next token, where it was measured."""


@dataclass(frozen=True)
class Confirmed:
    """So many units, chosen on one half of the test prompts, and explained effect on the other half."""

    k: int
    value: float
    low: float
    high: float
    level: float
    units: str
    mode: Mode

    def __str__(self) -> str:
        verb = "explain" if self.mode == "keep" else "masked leave"
        words = f"{count_of(self.k, self.units)}, chosen on other prompts, {verb} {self.value:.2f} of the effect"
        return f"{words}, {self.low:.2f} to {self.high:.2f}"


def count_of(k: int, units: str) -> str:
    """As prose has it: 1 head, 34 heads, 1,302 edges."""
    return f"{k:,} {in_words(units if k != 1 else units.removesuffix('s'))}"


def holds(done: Floats, threshold: float, aim: Aim) -> Bools:
    """Where enough is done, or neither too little nor too much."""
    if not 0 < threshold <= 1:
        raise HeadcountError(f"A threshold of explained effect must lie above 0 and not above 1; got {threshold}.")
    enough = done >= threshold - ROUNDING
    return np.asarray(enough & (done <= 2 - threshold + ROUNDING) if aim == "faithful" else enough)


def first_k(ks: Floats, holding: Bools) -> Floats:
    """The first k of each row [..., k] at which something holds; infinite where it never does."""
    return np.asarray(np.where(holding.any(-1), ks[holding.argmax(-1)], np.inf))


def resampled_first_k(ks: Floats, samples: Floats, threshold: float, aim: Aim, jumps: bool) -> Floats:
    """The first k of each resampling of a curve, [sample, k].

    A sweep is made fine where its own mean is near the range. A resampling that passes it elsewhere, between two k with
    others between them that were not measured, was in it there; its k is then the upper one. And where one unit more
    can make a curve jump over the range, `jumps`, one that does so is faithful only where it comes back, which may be
    with all units. The mean over many rankings has no such jumps, as they come at another k in each; that over a few
    repeats shows some of them, and a resampling of it more.
    """
    within = holds(samples, threshold, aim)
    within[:, 1:] |= (samples[:, :-1] < threshold) & (samples[:, 1:] > threshold) & ((np.diff(ks) > 1) | (not jumps))
    return first_k(ks, within)


def stays_from(ks: Floats, holding: Bools) -> float:
    """The first k from which it holds at every k; infinite where it does not hold at the last."""
    broken = np.flatnonzero(~holding)
    start = 0 if not len(broken) else int(broken[-1]) + 1
    return float(ks[start]) if start < len(ks) else np.inf


def upper_first_ks(
    ks: Floats, samples: Floats, thresholds: Sequence[float], level: float, aim: Aim, jumps: bool
) -> Floats:
    """The upper quantile of the resamplings' own first k, [threshold]: all at once, as numpy takes longer to begin with
    a quantile than to find one."""
    firsts = np.empty((len(thresholds), len(samples)))
    for row, threshold in zip(firsts, thresholds, strict=True):
        row[:] = resampled_first_k(ks, samples, threshold, aim, jumps)
    return np.asarray(np.quantile(firsts, ends_of(level)[1], axis=1, method="closest_observation"))


def interval_of_k(
    ks: Floats, done: Floats, ends: Floats, upper: float, threshold: float, aim: Aim
) -> tuple[float, float, float]:
    """The first k of a curve [k] and the interval that its resamplings leave, whose quantiles are `ends`, [end, k], and
    that of their own first k `upper`.

    Low is the first k at which the interval of what is done touches the wanted range. High is the first k at which that
    whole interval has reached the threshold; or, if it is later, the upper quantile of the resamplings' own first k, as
    where some of them jump over the range. (These quantiles alone lie too low: noise makes a first crossing early, and
    resamplings have the noise twice.)
    """
    value = float(first_k(ks, holds(done, threshold, aim)))
    bottom, top = ends
    touching = holds(top, threshold, "reached")
    if aim == "faithful":
        touching &= bottom <= 2 - threshold + ROUNDING
    surely = float(first_k(ks, holds(bottom, threshold, "reached")))
    return value, min(float(first_k(ks, touching)), value), max(surely, upper, value)


def whole_number(k: float) -> int | None:
    return int(k) if np.isfinite(k) else None
