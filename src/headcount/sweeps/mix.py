"""The order `best`: how much of the signed order is mixed into the absolute one, chosen on the train split.

Of the first k units floor(mix · k) are the most helpful, the others have the largest effect among those left (the
positive-negative ratio, PNR, of Technion's entry to MIB's shared task, 2025). Neither end is best everywhere: an order
by size holds units that work against the behaviour, a signed one leaves out what others rely on.

Each mix is swept over some train prompts, on a coarse grid that is made finer where explained effect first comes within
1 - threshold of 1 (of 0, where units are masked), or jumps past it. The mix that takes the fewest units for that wins;
among equals, or where only all units together are that faithful, the one that lies nearest to 1 over the grid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from ..core.progress import progress_bar
from ..core.provenance import Facts
from ..core.saving import Floats
from ..meters import Advance, Meter
from ..rank.crossing import first_near
from ..tasks.examples import Task
from .orders import Order, measured
from .units import Asked, Edges, Heads

MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
PROMPTS = 30
"""Train prompts that are run, at most."""
MIX_POINTS = 12
"""Of the coarse grid."""
PRECISION = 0.05
"""Share of the units needed to which they are known."""
AT_ONCE = 4
"""Points that are added at a time."""


@dataclass(frozen=True)
class Mix:
    """The share that was chosen, and the units that each share needs on train: to 5 %, where another share needs fewer
    only as far as the coarse grid tells; none where only all of them do."""

    share: float
    needed: dict[float, int | None]

    def facts(self) -> Facts:
        """For provenance."""
        return {"mix": self.share, "mixes": [{"mix": mix, "needed": units} for mix, units in self.needed.items()]}


def choose_mix(
    units: Heads | Edges, task: Task, asked: Asked, grid: Sequence[int], threshold: float, advance: Advance | None
) -> Mix:
    """On some of the train split. Scores without a sign have one order, and nothing to choose."""
    orders = {mix: units.order(replace(asked, mix=mix)) for mix in MIXES}
    if units.scores is None or not units.scores.signed:
        return Mix(0.0, {})
    found, some = dict[float, tuple[float, float]](), replace(task, test=task.split("train")[:PROMPTS])
    with progress_bar(mix_runs(task), quiet=advance is not None) as bar:
        bar.describe(f"{units.model.name} · {task.name} · mixes of two orders")
        meter = units.meter(some, asked, advance or bar.advance)
        ends = _means(orders[0.0], meter, asked.metric, [0, units.total])
        for mix, order in orders.items():
            fewest = min((needed for needed, _ in found.values()), default=np.inf)
            found[mix] = _trial(order, meter, asked, ends, grid[:-1], 1 - (threshold or 0.9), fewest)
    chosen = min(MIXES, key=lambda mix: (*found[mix], mix))
    return Mix(chosen, {mix: int(needed) if np.isfinite(needed) else None for mix, (needed, _) in found.items()})


def mix_runs(task: Task) -> int:
    """About how many prompts are run for the choice."""
    return len(MIXES) * (MIX_POINTS + AT_ONCE) * min(PROMPTS, len(task.train))


def _trial(
    order: Order[Tensor],
    meter: Meter[Tensor],
    asked: Asked,
    ends: Floats,
    grid: Sequence[int],
    within: float,
    most: float,
) -> tuple[float, float]:
    """(The units that are needed, all of them aside; how far off the grid is on average). What lies above `most` is not
    made finer."""
    none, whole = ends if asked.mode == "keep" else ends[::-1]

    def measure(ks: Sequence[int]) -> Floats:
        """What is missing of the effect where units are kept, what is left of it where they are masked."""
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = (_means(order, meter, asked.metric, ks) - none) / (whole - none)
        far = 1 - explained if asked.mode == "keep" else explained
        return np.asarray(np.nan_to_num(far, nan=np.inf, posinf=np.inf, neginf=-np.inf))

    needed, far = first_near(measure, grid, within, at_once=AT_ONCE, precision=PRECISION, enough=most)
    return np.inf if needed is None else needed, float(np.mean([abs(far[k]) for k in grid]))


def _means(order: Order[Tensor], meter: Meter[Tensor], metric: str, ks: Sequence[int]) -> Floats:
    return np.asarray(measured(order, meter, ks)[metric][0].mean(1))
