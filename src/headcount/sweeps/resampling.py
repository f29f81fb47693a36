"""Resampling: intervals that hold the truth as often as they say, with few groups of examples too.

A percentile bootstrap over G groups is too narrow twice: its variance is (G - 1) / G of the unbiased one, and its tails
are a normal's where those of a mean of G groups are Student's with G - 1 degrees of freedom. Both are mended in one
place: the weights of a resampling are moved away from equal ones by

    c = sqrt(G / (G - 1)) · t(G - 1) / z

so that every mean, and with it whatever is computed from means, moves by so much more. For a mean over groups of one
size that is the t-interval, but for skew; for ratios and crossings, which have no formula, the same resamplings serve.
(Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapters 12 and 14.)
"""

import math
from collections.abc import Hashable
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from ..core.errors import HeadcountError
from ..core.saving import Floats

RESAMPLES = 1000
NORMAL = NormalDist()


def ends_of(level: float) -> list[float]:
    """The shares of samples that lie below either end of an interval."""
    if not 0 < level < 1:
        raise HeadcountError(f"The level of an interval is a share between 0 and 1, such as 0.9; got {level}.")
    return [(1 - level) / 2, (1 + level) / 2]


@lru_cache(maxsize=32)
def resamplings(groups: tuple[Hashable, ...], level: float | None = 0.9, stream: int = 0) -> Floats:
    """Weights of the examples in each sample, [sample, example]: whole groups are drawn, with replacement, and moved
    away from equal weights, some of them below 0, so that quantiles are those of an interval of this level; without a
    level, so that variances are right. Always the same weights; another `stream` has others."""
    names = {name: place for place, name in enumerate(dict.fromkeys(groups))}
    place, count = np.array([names[group] for group in groups]), len(names)
    times = np.random.default_rng(stream).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    drawn = times[:, place].astype(np.float64)
    equal = 1 / len(groups)
    return np.asarray(equal + widening(count, level) * (drawn / drawn.sum(1, keepdims=True) - equal))


def widening(groups: int, level: float | None) -> float:
    """The factor c of this file; without a level, its first part. Of one group no spread is known: 1."""
    if groups < 2:
        return 1.0
    tails = 1.0
    if level is not None:
        above = ends_of(level)[1]
        tails = t_quantile(groups - 1, above) / NORMAL.inv_cdf(above)
    return math.sqrt(groups / (groups - 1)) * tails


def share_ends(share: Floats, samples: Floats, groups: int, examples: int, level: float) -> tuple[Floats, Floats]:
    """The interval of a share [k], such as that of right answers, from its resamplings [sample, k]: Wilson's, in which
    the spread is that of the share asked about and not of the share found, so that a few groups that all are right do
    not make it certain. With q = (t · standard error)² / (p (1 - p)), which is t² / n of n free answers,

        ends = (p + q / 2  ±  sqrt(q p (1 - p) + q² / 4)) / (1 + q)

    q is taken for groups of one kind where all are right or all are wrong, and never for more answers than there are.
    (Korn and Graubard 1998 do the same with the Clopper-Pearson interval.)"""
    normal = NORMAL.inv_cdf(ends_of(level)[1])
    student = t_quantile(groups - 1, ends_of(level)[1]) if groups > 1 else normal
    both = share * (1 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        free = np.where(both > 0, normal**2 * samples.var(0) / both, student**2 / groups)
    free = np.maximum(free, student**2 / examples)
    half = np.sqrt(free * both + free**2 / 4)
    return (share + free / 2 - half) / (1 + free), (share + free / 2 + half) / (1 + free)


@cache
def t_quantile(degrees: int, share: float) -> float:
    """Of Student's t. With t = sqrt(n) tan(a) its density becomes cos(a)^(n - 1), which is summed and looked up."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, 200_001)
    density = np.cos(angles) ** (degrees - 1)
    below = np.cumsum(density) - density / 2
    return float(math.sqrt(degrees) * np.tan(np.interp(share, below / density.sum(), angles)))
