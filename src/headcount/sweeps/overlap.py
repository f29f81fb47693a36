"""`headcount.overlap`: heads that several tasks, methods or models share, and how many they would share by chance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np

from ..core.errors import HeadcountError
from ..core.saving import Floats, Row, Tabled
from ..core.words import CHANCE_ORDERS
from ..edit import Head, head_name
from ..edit.cut import parse_head
from ..rank.roles import HeadRoles
from ..rank.scores import HeadScores
from .curve import Curve

TOP_SHARE = 0.1
"""Of all heads are taken of scores, unless k says how many."""
ALIKE = 0.3
"""Mean overlap from which sets are of one cluster."""
PARTS = ("task", "model", "method", "order", "fill")
"""What may set results apart."""


class HasCurves(Protocol):
    """What a study gives."""

    @property
    def curves(self) -> Sequence[Curve]: ...


Entry = Curve | HeadScores | Sequence[Head | str]
Results = Sequence[Curve | HeadScores | HeadRoles] | Mapping[str, Entry | HeadRoles] | HasCurves


@dataclass(frozen=True, eq=False)
class Overlap(Tabled):
    """Sets of heads by name, and what each two of them share."""

    sets: dict[str, tuple[str, ...]]
    total: int
    """Heads of the model."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.sets)

    @property
    def counts(self) -> dict[str, int]:
        """Head -> in how many of the sets it is; those of most sets first."""
        return dict(Counter(head for heads in self.sets.values() for head in dict.fromkeys(heads)).most_common())

    def shared(self, least: int | None = None) -> tuple[str, ...]:
        """Heads that are in at least so many of the sets; by default in all of them."""
        wanted = len(self.sets) if least is None else least
        return tuple(head for head, count in self.counts.items() if count >= wanted)

    @property
    def jaccard(self) -> Floats:
        """Heads in both over heads in either, [set, set]."""
        sets = list(map(set, self.sets.values()))
        return np.array([[len(one & other) / max(len(one | other), 1) for other in sets] for one in sets])

    def clusters(self, least: float = ALIKE) -> list[list[str]]:
        """Names of sets that share their heads, the largest cluster first: two clusters are joined, the nearest first,
        as long as the mean overlap (Jaccard) between their sets is at least `least`. Within one, those that were joined
        first stand side by side."""
        near, found = self.jaccard, [[place] for place in range(len(self.sets))]
        while len(found) > 1:
            pairs = combinations(range(len(found)), 2)
            share, one, other = max((float(near[np.ix_(found[a], found[b])].mean()), -a, -b) for a, b in pairs)
            if share < least:
                break
            joined = found.pop(-other)
            found[-one] += joined
        return [[self.names[place] for place in group] for group in sorted(found, key=len, reverse=True)]

    def rows(self) -> list[Row]:
        """A row for each two sets: how many heads they share, how many two random sets of their sizes would, and how
        likely these would share as many or more."""
        made: list[Row] = []
        for (first, one), (second, other) in combinations(self.sets.items(), 2):
            both = [head for head in one if head in other]
            made.append(
                {
                    "first": first,
                    "second": second,
                    "heads_first": len(one),
                    "heads_second": len(other),
                    "shared": len(both),
                    "by_chance": len(one) * len(other) / self.total,
                    "p": chance_of(len(both), len(one), len(other), self.total),
                    "jaccard": len(both) / max(len({*one, *other}), 1),
                    "heads": " ".join(both),
                }
            )
        return made

    def __str__(self) -> str:
        lines = [f"{name}: {len(heads)} heads" for name, heads in self.sets.items()]
        for row in self.rows():
            lines.append(
                f"{row['first']} and {row['second']}: {row['shared']} shared, {row['by_chance']:.1f} by chance"
                f" (p {row['p']:.2g})"
            )
        return "\n".join([*lines, f"in all of them: {', '.join(self.shared()) or 'none'}"])


def overlap(results: Results, *, k: int | None = None, threshold: float = 0.9, total: int | None = None) -> Overlap:
    """The heads that several results share.

    **Arguments:**

    - `results`: curves, scores or roles of heads, several of them; what `headcount.run` or `headcount.open` gives; or a
      dict from names to any of these or to lists of heads.
    - `k`: how many of the first heads of each; by default as many as a curve needs, and of scores a tenth of all.
    - `threshold`: of explained effect, for what a curve needs.
    - `total`: heads of the model, where lists alone are compared, which do not say.
    """
    if k is not None and k < 1:
        raise HeadcountError(f"k must be at least 1, or left out; got {k}.")
    named = _named(results)
    if len(named) < 2:
        raise HeadcountError(f"An overlap is between two results or more, and {len(named)} came.")
    known = [entry for entry in named.values() if isinstance(entry, Curve | HeadScores)]
    totals = {entry.total if isinstance(entry, Curve) else entry.size for entry in known}
    if len(totals) > 1:
        raise HeadcountError(f"These are of models with {' and '.join(map(str, sorted(totals)))} heads. Compare one.")
    found = totals.pop() if totals else total
    if found is None or found < 1:
        raise HeadcountError("Lists do not say how many heads the model has, which chance depends on. Give total=...")
    sets = {name: tuple(dict.fromkeys(_heads(name, entry, k, threshold))) for name, entry in named.items()}
    shapes = [entry.values.shape for entry in known if isinstance(entry, HeadScores)]
    for name, heads in sets.items():
        for layer, head in map(parse_head, heads):
            if len(heads) > found or (shapes and not (layer < shapes[0][0] and head < shapes[0][1])):
                raise HeadcountError(f"{name} names {head_name((layer, head))}, and the model has {found} heads.")
    return Overlap(sets, found)


def chance_of(shared: int, one: int, other: int, total: int) -> float:
    """That random sets of these sizes share as many or more: the upper tail of the hypergeometric distribution."""
    ways = sum(comb(one, both) * comb(total - one, other - both) for both in range(shared, min(one, other) + 1))
    return ways / comb(total, other)


def _named(results: Results) -> dict[str, Entry]:
    if isinstance(results, Mapping):
        return {name: _plain(entry) for name, entry in results.items()}
    listed = list(results) if isinstance(results, Sequence) else list(results.curves)
    ranked = [_plain(entry) for entry in listed]
    if not all(isinstance(entry, Curve | HeadScores) for entry in ranked):
        raise HeadcountError("Lists of heads need names: give a dict, such as {'mine': ['a0.h1'], 'theirs': …}.")
    ranked = [entry for entry in ranked if not (isinstance(entry, Curve) and entry.order in CHANCE_ORDERS)]
    facts = [[vars(entry).get(part, "") for part in PARTS] for entry in ranked]
    telling = [place for place in range(len(PARTS)) if len({fact[place] for fact in facts}) > 1]
    names = [" · ".join(filter(None, (fact[place] for place in telling))) or str(n) for n, fact in enumerate(facts, 1)]
    again = {name for name in names if names.count(name) > 1}
    names = [f"{name} ({number})" if name in again else name for number, name in enumerate(names, start=1)]
    return dict(zip(names, ranked, strict=True))


def _plain(entry: Entry | HeadRoles) -> Entry:
    return entry.scores() if isinstance(entry, HeadRoles) else entry


def _heads(name: str, entry: Entry, k: int | None, threshold: float) -> tuple[str, ...]:
    if isinstance(entry, HeadScores):
        return entry.top(k or max(round(TOP_SHARE * entry.size), 1))
    if not isinstance(entry, Curve):
        return tuple(head_name(parse_head(head)) for head in entry)
    if entry.units != "heads" or not entry.ranking:
        raise HeadcountError(f"An overlap is of heads in an order, and {name} has {entry.units} in no one order.")
    needed = k if k is not None or entry.kind != "explained" else entry.first_k(threshold)
    if needed is None:
        raise HeadcountError(f"{name} never explains {threshold:g} of the effect. Say how many heads: k=...")
    return tuple(entry.ranking[:needed])
