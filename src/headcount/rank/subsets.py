"""The search for small sets of heads: every set measured exactly, many of them in a forward, each once.

    ranking    the first k heads of the scores' orders, for the smallest k that meets the aim: where the search begins
    backward   of the heads in S, take out the one, or the several, without which EE is nearest to its aim
    exchange   two heads out and one in, or two out; then backward again
    forward    from no head on, add the head that brings EE nearest to its aim, until S meets it; then backward again

If all smaller sets are few enough they are tried too, and what is found is then the optimum.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..core.errors import HeadcountError
from ..core.saving import Floats
from ..core.words import Aim, ScoreOrder
from ..meters import HeadMeter
from .crossing import first_near
from .scores import ranked

WIDTH = 32
"""Heads that are tried in one round."""
EXCHANGED = 8
"""Heads that may be exchanged, on either side."""
Set = frozenset[int]
"""Heads by their places in the flattened map."""


class _Tried(NamedTuple):
    heads: Set
    meets: bool


class Trials:
    """Sets of heads and their explained effect on train; each is run once, and at most `most` of them."""

    def __init__(
        self, meter: HeadMeter, metric: str, shape: tuple[int, int], aim: Aim, threshold: float, most: int
    ) -> None:
        self.meter, self.metric, self.shape, self.most = meter, metric, shape, most
        self.aim, self.threshold = aim, threshold
        self.total, self.run = shape[0] * shape[1], 0
        self._means: dict[Set, float] = {}
        ends = self._measured([Set(), Set(range(self.total))])
        self.none, self.whole = ends
        if not np.isfinite(self.whole - self.none) or self.whole == self.none:
            raise HeadcountError(
                f"{metric} is {self.whole:.4g} with all heads and {self.none:.4g} with none on the train prompts, so"
                " there is no effect whose heads could be searched for."
            )

    @property
    def left(self) -> int:
        return max(self.most - self.run, 0)

    def _measured(self, sets: Sequence[Set]) -> Floats:
        """Mean of the metric over the prompts for each set."""
        new = list(dict.fromkeys(heads for heads in sets if heads not in self._means))
        if new:
            keeps = torch.zeros(len(new), self.total, dtype=torch.bool)
            for row, heads in zip(keeps, new, strict=True):
                row[list(heads)] = True
            found = self.meter.measure(keeps.view(-1, *self.shape))[self.metric].mean(1)
            self._means |= zip(new, found.tolist(), strict=True)
            self.run += len(new)
        return np.array([self._means[heads] for heads in sets])

    def explained(self, sets: Sequence[Set]) -> Floats:
        return np.asarray((self._measured(sets) - self.none) / (self.whole - self.none))

    def off(self, explained: Floats) -> Floats:
        """How far from the aim, so that the least is the best; infinite where the metric is not a number."""
        off = np.abs(1 - explained) if self.aim == "faithful" else -explained
        return np.asarray(np.nan_to_num(off, nan=np.inf))

    def meets(self, explained: Floats) -> NDArray[np.bool_]:
        """True where the aim is met; the tolerance forgives rounding and nothing more."""
        most = 1 - self.threshold if self.aim == "faithful" else -self.threshold
        return np.asarray(self.off(explained) <= most + 1e-9)

    def met(self, heads: Iterable[int]) -> bool:
        """Of a set that has been run."""
        return bool(self.meets(self.explained([Set(heads)]))[0])

    def tried(self, sets: Iterable[Set]) -> list[_Tried]:
        """The sets, as many of them as may still be run, best first; ties as they came. If one of them meets the aim,
        the first one does."""
        affordable, left = list[Set](), self.left
        for heads in sets:
            left -= heads not in self._means
            if left < 0:
                break
            affordable.append(heads)
        explained = self.explained(affordable)
        met = self.meets(explained)
        return [_Tried(affordable[i], bool(met[i])) for i in np.argsort(self.off(explained), kind="stable")]


class Best(NamedTuple):
    """What was found, and what the ranking takes."""

    order: list[int]  # all heads, those found first
    size: int  # how many of them were found
    ranked: int
    ranked_by: ScoreOrder
    optimal: bool

    @property
    def heads(self) -> Set:
        return Set(self.order[: self.size])


def smallest_set(trials: Trials, values: Floats, signed: bool) -> Best:
    """From the ranking that scores give, flattened."""
    orders: list[ScoreOrder] = ["absolute", "signed"] if signed else ["absolute"]
    needed = {by: _first(trials, ranked(values, by).tolist()) for by in orders}
    by = min(orders, key=lambda order: needed[order])
    ranking = ranked(values, by).tolist()
    kept = _backward(trials, Set(ranking[: needed[by]]), ranking)
    while smaller := _exchange(trials, kept, ranking):
        kept = _backward(trials, smaller, ranking)
    inside = _forward(trials, [head for head in ranking if head in kept], len(kept))
    if trials.met(inside):  # without what would have been added last, where that is not needed
        kept = Set(inside)
    chosen = _forward(trials, ranking[:WIDTH], len(kept) - 1)
    if trials.met(chosen):
        kept, inside = _backward(trials, Set(chosen), ranking), chosen
    fewest, optimal = _exhaust(trials, kept)
    if len(fewest) < len(kept):
        kept, inside = fewest, _forward(trials, sorted(fewest), len(fewest))
    first = [head for head in (*inside, *ranking) if head in kept]
    return Best(list(dict.fromkeys([*first, *ranking])), len(kept), needed[by], by, optimal)


def _first(trials: Trials, order: list[int]) -> int:
    """The smallest k, on a grid that is made finer, whose first k heads meet the aim. All heads always do."""
    grid = np.unique((trials.total * np.linspace(0, 1, WIDTH + 1) ** 2).round()).astype(int).tolist()

    def measure(ks: Sequence[int]) -> Floats:
        """How much of the effect is missing; more of it than all is no fault where it has to be reached alone."""
        missing = 1 - trials.explained([Set(order[:k]) for k in ks])
        return missing if trials.aim == "faithful" else np.maximum(missing, 0)

    return first_near(measure, grid, 1 - trials.threshold, at_once=WIDTH) or trials.total


def _backward(trials: Trials, kept: Set, ranking: list[int]) -> Set:
    """Take heads out while the aim is met: the least of the ranking are tried, and of those that can go the best one,
    or several at once where many heads are left."""
    while kept:
        weakest = [head for head in reversed(ranking) if head in kept][:WIDTH]
        tried = trials.tried(kept - {head} for head in weakest)
        going = [kept - one.heads for one in tried if one.meets]
        if not going:
            return kept
        counts = [count for count in (16, 8, 4, 2) if count <= min(len(going), len(kept) // 8)]
        several = trials.tried(kept - Set().union(*going[:count]) for count in counts)
        kept = min((one.heads for one in several if one.meets), key=len, default=kept - going[0])
    return kept


def _forward(trials: Trials, pool: list[int], most: int) -> list[int]:
    """Heads of a pool in the order in which they were added, until they meet the aim or are as many as allowed."""
    chosen: list[int] = []
    while len(chosen) < most:
        tried = trials.tried(Set([*chosen, head]) for head in pool if head not in chosen)
        if not tried:
            break
        chosen += tried[0].heads.difference(chosen)
        if tried[0].meets:
            break
    return chosen


def _exchange(trials: Trials, kept: Set, ranking: list[int]) -> Set | None:
    """A smaller set that meets the aim, with two heads out and one of the ranking's next ones in, or none."""
    inside, outside = ([head for head in ranking if (head in kept) == there] for there in (True, False))
    losing = trials.tried(kept - {head} for head in reversed(inside))
    least = [head for one in losing[:EXCHANGED] for head in kept - one.heads]
    left = [kept - {*pair} for pair in combinations(least, 2)]
    tried = trials.tried([*left, *(heads | {head} for head in outside[:EXCHANGED] for heads in left)])
    return tried[0].heads if tried and tried[0].meets else None


def _exhaust(trials: Trials, kept: Set) -> tuple[Set, bool]:
    """The smallest set of all, if those smaller than what was found are few enough to be tried; and whether it is."""
    if sum(comb(trials.total, size) for size in range(len(kept))) > trials.left:
        return kept, False
    for size in range(len(kept)):
        tried = trials.tried(Set(heads) for heads in combinations(range(trials.total), size))
        if tried[0].meets:
            return tried[0].heads, True
    return kept, True
