"""Where a curve first comes near to what it aims at, found with few points."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ..core.saving import Floats


def first_near(
    measure: Callable[[Sequence[int]], Floats], grid: Sequence[int], within: float, *, at_once: int
) -> int | None:
    """The smallest k at which a curve is no farther than `within` from its aim; None if there is none.

    `measure` says how far, with a sign. The grid is made finer, `at_once` points at a time and down to one unit, where
    the curve first comes near, and where it jumps from one side of the aim to the other: it may have been near between.
    """
    far = dict(zip(grid, measure(grid).tolist(), strict=True))
    while True:
        missing: list[int] = []
        for before, k in pairwise(sorted(far)):
            near, jumps, fine = abs(far[k]) <= within + 1e-9, far[before] * far[k] < 0, k - before == 1
            if near and fine:
                return k
            if (near or jumps) and not fine:
                steps = np.linspace(before, k, at_once + 2).round().astype(int)
                missing = sorted({*steps.tolist()} - {before, k})
                break
        if not missing:
            return None
        far |= zip(missing, measure(missing).tolist(), strict=True)
