"""Which k are measured: grids from none to all of the units, and points added around the crossing of a threshold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.errors import HeadcountError
from ..core.saving import Floats
from ..core.words import GRIDS, in_words
from .curve import MIB_SHARES, Curve

Ks = str | Sequence[int] | None
"""A grid by its name, or numbers."""


@dataclass(frozen=True)
class Refinement:
    """Points that are added around the crossing of a threshold of explained effect."""

    threshold: float
    precision: float  # the share of the units needed to which the crossing is to be known; 0 for one unit
    at_once: int
    rounds: int

    def points(self, curve: Curve) -> list[int]:
        """A few k between the last point before the threshold is reached and the first at which it is; none when the
        two are as close as the precision asks for."""
        needed = curve.units_needed(self.threshold).value if self.threshold else None
        if needed is None or needed == curve.ks[0]:
            return []
        before = max(k for k in curve.ks if k < needed)
        if needed - before <= max(self.precision * needed, 1):
            return []
        steps = np.linspace(before, needed, self.at_once + 2).round()[1:-1]
        return sorted({int(k) for k in steps} - {before, needed})


def unit_grid(units: str, total: int, ks: Ks, points: int, shares: bool = True) -> list[int]:
    """The numbers of units to measure, from 0 to all of them; of edges with MIB's shares."""
    if not ks:
        ks = "quadratic" if units == "heads" else "log"
    if not isinstance(ks, str):
        if wrong := [k for k in ks if not 0 <= k <= total]:
            raise HeadcountError(
                f"k must lie between 0 and the model's {total} {in_words(units)}; {wrong[0]} does not."
            )
        return sorted({0, total, *ks})
    found = {0, total, *(int(k) for k in _steps(total, ks, points))}
    if units == "edges" and shares:
        found |= {int(share * total) for share in MIB_SHARES}
    return sorted(found)


def _steps(total: int, ks: str, points: int) -> Floats:
    if points < 2:
        raise HeadcountError(f"A grid needs at least 2 points; points is {points}.")
    match ks:
        case "all":
            steps = np.arange(total + 1.0)
        case "linear":
            steps = np.linspace(0, total, points)
        case "quadratic":
            steps = total * np.linspace(0, 1, points) ** 2
        case "log":
            # Small k are rounded together, so more steps are tried until enough numbers are different.
            tries = points - 1
            while len(set(np.geomspace(1, total, tries).round())) < min(points - 1, total):
                tries += 1
            steps = np.geomspace(1, total, tries)
        case _:
            raise HeadcountError(f"There is no grid {ks!r}. Give numbers or one of {', '.join(GRIDS)}.")
    return np.asarray(steps.round())
