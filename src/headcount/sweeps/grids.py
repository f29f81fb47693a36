"""Which k are measured: grids from none to all of the units, and points added around the crossing of a threshold."""

from collections.abc import Sequence

import numpy as np

from ..core.errors import HeadcountError
from ..core.saving import Floats
from ..core.words import GRIDS, in_words
from .curve import MIB_SHARES, Curve

Ks = str | Sequence[int] | None
"""A grid by its name, or numbers."""


def points_around(curve: Curve, threshold: float, precision: float, at_once: int) -> list[int]:
    """A few k between the last point before a threshold of explained effect is reached and the first at which it is;
    none when the two are as close as the precision, a share of the units needed, asks for: 0 for one unit."""
    needed = curve.units_needed(threshold).value if threshold else None
    if needed is None or needed == curve.ks[0]:
        return []
    before = max(k for k in curve.ks if k < needed)
    if needed - before <= max(precision * needed, 1):
        return []
    steps = np.linspace(before, needed, at_once + 2).round()[1:-1]
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
