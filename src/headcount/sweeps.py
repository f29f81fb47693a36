"""Keep or mask units in an order, more and more of them, and measure what is left: order + grid + cut -> `Curve`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .curves import MIB_SHARES, Curve, Mode
from .cuts import POSITIONS, Fill, Positions
from .errors import HeadcountError, did_you_mean, require_seed
from .graph import Readers
from .measure import Advance, Values
from .metrics import require_metric
from .models import Model
from .progress import progress_bar
from .provenance import provenance
from .scores.result import EdgeScores, HeadScores
from .tasks.examples import Task
from .units import Cut, Edges, Heads, Measures, Places, chance_orders, masks, ranked_places, units_of

ORDERS = ("absolute", "signed", "chance", "chance-matched")
GRIDS = ("log", "linear", "quadratic", "all")
REFINE_AT_ONCE = 6
NAMED_UNITS = 10_000
"""A curve knows the names of so many of the first units of its order."""
MASK_BYTES = 2**27
"""Masks of so many points are made at once."""


def sweep(
    model: Model,
    task: Task,
    scores: HeadScores | EdgeScores | None = None,
    *,
    units: str | None = None,
    keep: str | None = None,
    mask: str | None = None,
    ks: str | Sequence[int] | None = None,
    points: int = 24,
    threshold: float = 0.9,
    precision: float = 0.0,
    fill: str | None = None,
    metric: str | None = None,
    positions: Positions = "all",
    readers: Readers = "kv-heads",
    prune: bool = False,
    draws: int = 20,
    seed: int = 0,
    memory: int | None = None,
    advance: Advance | None = None,
) -> Curve:
    """Measure the test split of a task with k heads or edges kept (or masked), for growing k.

    **Arguments:**

    - `scores`: what the order comes from, of heads or of edges; not needed for chance, which then asks for `units`
      (`"heads"` by default) and, for edges, `readers`.
    - `keep` or `mask`: the order. `"absolute"` (or `"top"`): largest effect first. `"signed"`: most helpful first.
      `"chance"`: random orders. `"chance-matched"`: random orders that take as many units of each layer as the scores'.
    - `ks`: numbers of units, or a grid of some `points`: `"log"` (for edges by default), `"linear"`, `"quadratic"` (for
      heads), or `"all"`. None and all of the units are always measured; of edges also MIB's shares, but by chance.
    - `threshold`: of explained effect; points are added around its crossing until it is known to one unit, or to the
      share of the units needed that `precision` allows. Chance orders get one round of points. 0 leaves the grid as it
      is.
    - `fill`, `positions`: what a removed unit carries, and where (see `cuts/`); by default the counterfactual where a
      task has pairs, else zero. `mean` is that of the train split.
    - `prune`: for edges, measure circuits without their dangling edges; with counterfactual fill it is the same.
    - `draws`: how many random orders.
    - `memory`: bytes that may be used beyond the model, for edges.
    - `advance`: told how many prompts have been run. Without it a bar is shown in a terminal.
    """
    mode, order = _mode_and_order(keep, mask)
    if order != "chance" and scores is None:
        raise HeadcountError(f"The order {order!r} comes from scores, and none were given. See headcount.score.")
    if positions not in POSITIONS:
        raise HeadcountError(f"There are no positions {positions!r}. Known: {', '.join(POSITIONS)}.")
    if draws < 1:
        raise HeadcountError(f"A chance order needs at least 1 draw; draws is {draws}.")
    if not 0 <= precision < 1:
        raise HeadcountError(f"Precision is a share of the units needed, from 0 to below 1; this is {precision}.")
    require_seed(seed)
    fill = fill or ("counterfactual" if task.has_pairs else "zero")
    Fill.parse(fill)
    require_metric(metric or task.metric, task.test)
    cut_up = units_of(model, scores, units, readers)
    orders = _orders(cut_up, scores, order, draws, seed)
    total = len(cut_up.places)
    chance = order.startswith("chance")
    grid = unit_grid(cut_up.name, total, ks, points, shares=mode == "keep" and not chance)
    arguments = {
        "keep": keep, "mask": mask, "ks": ks if ks is None or isinstance(ks, str) else list(ks), "points": points,
        "threshold": threshold, "precision": precision, "fill": fill, "positions": positions,
        "draws": len(orders), "seed": seed,
    }  # fmt: skip
    if isinstance(cut_up, Edges):
        arguments |= {"readers": cut_up.readers, "prune": prune}
    facts: dict[str, Any] = {
        "model": model.name, "task": task.name, "title": task.title, "units": cut_up.name,
        "method": "chance" if scores is None else scores.method, "order": order, "mode": mode, "fill": fill,
        "metric": metric or task.metric, "total": total,
        "ranking": () if chance else cut_up.names(orders[0][:NAMED_UNITS]),
        "provenance": provenance(model, task, arguments),
    }  # fmt: skip
    cost = points_to_measure(cut_up.name, total, ks, points, order, draws, mode) * len(task.test)
    with progress_bar(cost, quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · {order}")
        meter = cut_up.meter(task, Cut(fill, positions, seed, prune, memory), advance or bar.advance)
        curve = Curve(**facts, ks=tuple(grid), values=_measured(cut_up, meter, orders, grid, mode))
        rounds, at_once = (1, REFINE_AT_ONCE // 2) if chance else (total, REFINE_AT_ONCE)
        while threshold and rounds and (missing := around_crossing(curve, threshold, precision, at_once)):
            curve = with_points(curve, missing, _measured(cut_up, meter, orders, missing, mode))
            rounds -= 1
    return curve


def points_to_measure(
    units: str, total: int, ks: str | Sequence[int] | None, points: int, order: str, draws: int, mode: Mode
) -> int:
    """How many cuts a sweep will run, as far as can be told before it."""
    chance = order.startswith("chance")
    grid = len(unit_grid(units, total, ks, points, shares=mode == "keep" and not chance))
    if chance:
        return (grid - 2 + REFINE_AT_ONCE // 2) * draws + 2
    return grid + REFINE_AT_ONCE * (1 if units == "heads" else 3)


def _measured(units: Heads | Edges, meter: Measures, orders: list[Places], ks: Sequence[int], mode: Mode) -> Values:
    """Metric -> [order, k, pair]. Orders begin and end with the same cuts, so each different one is run once."""
    ends = (0, len(units.places))
    wanted = [(0 if k in ends else order, k) for order in range(len(orders)) for k in ks]
    different = list(dict.fromkeys(wanted))
    at_once = max(MASK_BYTES // (units.shape[0] * units.shape[1]), 1)
    parts = []
    for first in range(0, len(different), at_once):
        some = masks(units, orders, different[first : first + at_once], mode == "keep")
        parts.append(meter.measure(torch.from_numpy(some)))
    place = [different.index(point) for point in wanted]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {name: value[place].reshape(len(orders), len(ks), -1) for name, value in found.items()}


def unit_grid(units: str, total: int, ks: str | Sequence[int] | None, points: int, shares: bool = True) -> list[int]:
    """The numbers of units to measure, from 0 to all of them; of edges with MIB's shares."""
    if ks is None:
        ks = "quadratic" if units == "heads" else "log"
    if not isinstance(ks, str):
        if wrong := [k for k in ks if not 0 <= k <= total]:
            raise HeadcountError(f"k must lie between 0 and the model's {total} {units}; {wrong[0]} does not.")
        return sorted({0, total, *ks})
    found = {0, total, *(int(k) for k in _steps(total, ks, points))}
    if units == "edges" and shares:
        found |= {int(share * total) for share in MIB_SHARES}
    return sorted(found)


def _steps(total: int, ks: str, points: int) -> Any:
    if points < 2:
        raise HeadcountError(f"A grid needs at least 2 points; points is {points}.")
    match ks:
        case "all":
            return range(total + 1)
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
    return steps.round()


def around_crossing(curve: Curve, threshold: float, precision: float = 0.0, at_once: int = REFINE_AT_ONCE) -> list[int]:
    """A few k between the last point before the threshold is reached and the first at which it is; none when the two
    are as close as the precision, a share of the units needed, asks for."""
    needed = curve.units_needed(threshold).value
    if needed is None or needed == curve.ks[0]:
        return []
    before = max(k for k in curve.ks if k < needed)
    if needed - before <= max(precision * needed, 1):
        return []
    steps = np.linspace(before, needed, at_once + 2).round()[1:-1]
    return sorted({int(k) for k in steps} - {before, needed})


def with_points(curve: Curve, ks: Sequence[int], values: Values) -> Curve:
    """The curve with more points, in order of k."""
    together = np.array([*curve.ks, *ks])
    place = together.argsort()
    merged = {name: np.concatenate([curve.values[name], values[name]], axis=1)[:, place] for name in curve.values}
    return Curve(**{**vars(curve), "ks": tuple(int(k) for k in together[place]), "values": merged})


def _mode_and_order(keep: str | None, mask: str | None) -> tuple[Mode, str]:
    if keep is not None and mask is not None:
        raise HeadcountError("A sweep either keeps or masks units; give keep=... or mask=..., not both.")
    mode: Mode = "keep" if mask is None else "mask"
    order = keep or mask or "absolute"
    order = "absolute" if order == "top" else order
    if order not in ORDERS:
        raise HeadcountError(f"There is no order {order!r}.{did_you_mean(order, ('top', *ORDERS))}")
    return mode, order


def _orders(
    units: Heads | Edges, scores: HeadScores | EdgeScores | None, order: str, draws: int, seed: int
) -> list[Places]:
    """The orders to follow: the scores' own, or random ones."""
    ranked = None if scores is None else ranked_places(units, scores, signed=order == "signed")
    if order in ("absolute", "signed"):
        assert ranked is not None
        return [ranked]
    return chance_orders(units, draws, seed, like=ranked if order == "chance-matched" else None)
