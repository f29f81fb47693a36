"""How stable the first heads of a ranking are: in how many of its repeats each of them is among the first k."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from ..core.errors import HeadcountError
from ..core.saving import Row, Tabled


@dataclass(frozen=True)
class Stability(Tabled):
    """Of the first k units of several rankings of the same units."""

    k: int
    total: int
    rankings: int
    shares: dict[str, float]
    """Unit -> the share of the rankings that have it among their first k; the steadiest first."""
    jaccard: float
    """Units in the first k of both over units in that of either, on average over pairs of rankings."""

    @property
    def always(self) -> tuple[str, ...]:
        """Units that all rankings have."""
        return tuple(unit for unit, share in self.shares.items() if share == 1)

    @property
    def by_chance(self) -> float:
        """What the Jaccard overlap of two random sets of k units would be, about: k² / N are in both."""
        both = self.k * self.k / self.total
        return both / (2 * self.k - both)

    def rows(self) -> list[Row]:
        """One row per unit."""
        return [{"unit": unit, "k": self.k, "share": share} for unit, share in self.shares.items()]

    def __str__(self) -> str:
        return (
            f"of the first {self.k}, {len(self.always)} are the same in all {self.rankings} repeats; overlap"
            f" {self.jaccard:.2f} on average, {self.by_chance:.2f} by chance"
        )


def stability_of(rankings: Sequence[Sequence[str]], k: int, total: int) -> Stability:
    """`rankings`: names of units, the first to be kept first."""
    if len(rankings) < 2:
        raise HeadcountError(f"Stability is between rankings; it needs two or more, and {len(rankings)} came.")
    if not 1 <= k <= min(map(len, rankings)):
        raise HeadcountError(f"k must lie between 1 and the {min(map(len, rankings))} units ranked; {k} does not.")
    first = [set(ranking[:k]) for ranking in rankings]
    found = dict.fromkeys(unit for ranking in rankings for unit in ranking[:k])
    shares = {unit: sum(unit in own for own in first) / len(first) for unit in found}
    steady = dict(sorted(shares.items(), key=lambda entry: -entry[1]))
    overlap = fmean(len(one & other) / len(one | other) for one, other in combinations(first, 2))
    return Stability(k, total, len(rankings), steady, overlap)
