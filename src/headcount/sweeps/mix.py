"""The order `best`: how much of the signed order is mixed into the absolute one, chosen on the train split.

Of the first k units floor(mix · k) are the most helpful, the others have the largest effect among those left (the
positive-negative ratio, PNR, of Technion's entry to MIB's shared task, 2025). Neither end is best everywhere: an order
by size holds units that work against the behaviour, a signed one leaves out what others rely on.

All mixes climb one ladder, each rung with three times the units of the one before, on a few train prompts. The climb
ends at the first rung where explained effect of one of them has come within 1 - threshold of 1 (of 0, where units are
masked), or has jumped past it. The mix that took the fewest units for that wins, as a straight line between the two
rungs tells; among equals, or where the ladder ends before, the one that was nearest to 1 on the way. Sets of units that
several mixes share, and at few units most do, are run once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core.progress import progress_bar
from ..core.provenance import Facts
from ..core.saving import Floats, Saved
from ..meters import Advance, Meter
from ..tasks.examples import Task
from .orders import Order
from .units import Asked, Edges, Heads

MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
PROMPTS = 10
"""Train prompts that are run, at most: half of them, if that is fewer. It is the choice that has to be right, not the
numbers."""
FEWEST_PROMPTS = 4
STEP = 3
"""How many times more units each rung has."""
DIFFERENT = 3
"""Sets of units on a rung, about: the mixes up to a half are most often the absolute order."""


@dataclass(frozen=True)
class Mix(Saved):
    """The share that was chosen, and the units that each share needs on train, about; none where another share needs
    fewer by far, or where only all of them do."""

    FILE: ClassVar[str] = "mix"

    share: float
    needed: dict[float, int | None]

    def facts(self) -> Facts:
        """For provenance."""
        return {"mix": self.share, "mixes": [{"mix": mix, "needed": units} for mix, units in self.needed.items()]}


def choose_mix(units: Heads | Edges, task: Task, asked: Asked, threshold: float, advance: Advance | None) -> Mix:
    """On some of the train split. Scores without a sign have one order, and nothing to choose."""
    orders = {mix: units.order(replace(asked, mix=mix)) for mix in MIXES}
    if units.scores is None or not units.scores.signed:
        return Mix(0.0, {})
    some = replace(task, test=task.split("train")[: prompts_run(task)])
    with progress_bar(mix_runs(task, units.total), quiet=advance is not None) as bar:
        bar.describe(f"{units.model.name} · {task.name} · mixes of two orders")
        meter = units.meter(some, asked, advance or bar.advance)
        found = _climb(orders, meter, asked, rungs(units.total), units.total, 1 - (threshold or 0.9))
    chosen = min(MIXES, key=lambda mix: (*found[mix], mix))
    return Mix(chosen, {mix: int(needed) if np.isfinite(needed) else None for mix, (needed, _) in found.items()})


def rungs(total: int) -> list[int]:
    """Numbers of units, from few to half of all."""
    found = [total // 2]
    while found[0] >= 2 * STEP:
        found.insert(0, round(found[0] / STEP))
    return [k for k in found if k]


def prompts_run(task: Task) -> int:
    train = len(task.split("train"))
    return min(PROMPTS, max(train // 2, FEWEST_PROMPTS), train)


def mix_runs(task: Task, total: int) -> int:
    """How many prompts are run for the choice, at most as a rule."""
    return (2 + DIFFERENT * len(rungs(total))) * prompts_run(task)


def _climb(
    orders: Mapping[float, Order[Tensor]],
    meter: Meter[Tensor],
    asked: Asked,
    ladder: Sequence[int],
    total: int,
    within: float,
) -> dict[float, tuple[float, float]]:
    """Mix -> (the units that are needed; how far off it was on the way, on average)."""
    none, whole = _means(orders[0.0], meter, asked.metric, [(0, 0), (0, total)])
    if asked.mode == "mask":
        none, whole = whole, none
    far: dict[float, list[float]] = {mix: [1.0] for mix in orders}
    found: dict[float, float] = dict.fromkeys(orders, np.inf)
    for before, k in zip([0, *ladder], ladder, strict=False):
        with np.errstate(divide="ignore", invalid="ignore"):
            done = (_together(orders, meter, asked.metric, k) - none) / (whole - none)
        off = np.nan_to_num(1 - done if asked.mode == "keep" else done, nan=np.inf, posinf=np.inf, neginf=-np.inf)
        for mix, now in zip(orders, off.tolist(), strict=True):
            found[mix] = _crossing(before, k, far[mix][-1], now, within)
            far[mix].append(now)
        if np.isfinite(list(found.values())).any():
            break
    return {mix: (found[mix], float(np.abs(far[mix][1:]).mean())) for mix in orders}


def _crossing(before: int, k: int, was: float, now: float, within: float) -> float:
    """The first number of units at which a straight line between two rungs is near enough; infinite where it is not, or
    where it jumps past with no number between."""
    if abs(now) > within + 1e-9 and (was * now > 0 or k - before == 1 or not np.isfinite(now)):
        return np.inf
    if not np.isfinite(was) or abs(was) <= within:
        return k
    share = (was - np.sign(was) * within) / (was - now)
    return float(min(before + max(ceil(share * (k - before) - 1e-9), 1), k))


def _together(orders: Mapping[float, Order[Tensor]], meter: Meter[Tensor], metric: str, k: int) -> Floats:
    """The mean of every mix at one k; sets that are the same are run once."""
    masks = torch.cat([order.masks([(0, k)]) for order in orders.values()])
    different, place = torch.unique(masks.flatten(1), dim=0, return_inverse=True)
    found = meter.measure(different.view(-1, *masks.shape[1:]))[metric].mean(1)
    return np.asarray(found[place.numpy()])


def _means(order: Order[Tensor], meter: Meter[Tensor], metric: str, points: Sequence[tuple[int, int]]) -> Floats:
    return np.asarray(meter.measure(order.masks(points))[metric].mean(1))
