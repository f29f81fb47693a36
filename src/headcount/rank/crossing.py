"""Where a curve first comes near to what it aims at, found with few points."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ..core.saving import Floats


def first_near(
    measure: Callable[[Sequence[int]], Floats],
    grid: Sequence[int],
    within: float,
    *,
    at_once: int,
    precision: float = 0.0,
    enough: float = np.inf,
) -> tuple[int | None, dict[int, float]]:
    """The smallest k at which a curve is no farther than `within` from its aim, None if there is none; and how far it
    is at every k that was measured.

    `measure` says how far, with a sign. The grid is made finer, `at_once` points at a time, where the curve first comes
    near, and where it jumps from one side of the aim to the other: it may have been near between. That ends at
    `precision`, a share of k (0 for one unit), and where k would be above `enough`."""
    far = dict(zip(grid, measure(grid).tolist(), strict=True))
    while True:
        missing: list[int] = []
        for before, k in pairwise(sorted(far)):
            near, jumps = abs(far[k]) <= within + 1e-9, far[before] * far[k] < 0
            fine = k - before <= max(precision * k, 1) or before >= enough
            if near and fine:
                return k, far
            if (near or jumps) and not fine:
                steps = np.linspace(before, k, at_once + 2).round().astype(int)
                missing = sorted({*steps.tolist()} - {before, k})
                break
        if not missing:
            return None, far
        far |= zip(missing, measure(missing).tolist(), strict=True)
