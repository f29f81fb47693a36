"""Keep or mask heads in an order, more and more of them, and measure what is left: order + grid + cut -> `Curve`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .curves import Curve, Mode
from .cuts import POSITIONS, Filler, Head, Positions, head_name
from .errors import HeadcountError, did_you_mean, require_seed
from .measure import MAX_TOKENS, Advance, Meter, Values
from .metrics import metric_named
from .models import Model
from .progress import progress_bar
from .provenance import provenance
from .scores.result import HeadScores
from .tasks.pairs import Task

ORDERS = ("absolute", "signed", "chance", "chance-matched")
GRIDS = ("log", "linear", "quadratic", "all")
REFINE_AT_ONCE = 6


def sweep(
    model: Model,
    task: Task,
    scores: HeadScores | None = None,
    *,
    keep: str | None = None,
    mask: str | None = None,
    ks: str | Sequence[int] = "quadratic",
    points: int = 24,
    threshold: float = 0.9,
    precision: float = 0.0,
    fill: str = "counterfactual",
    metric: str | None = None,
    positions: Positions = "all",
    draws: int = 20,
    seed: int = 0,
    max_tokens: int = MAX_TOKENS,
    advance: Advance | None = None,
) -> Curve:
    """Measure the test split of a task with k heads kept (or masked), for growing k.

    **Arguments:**

    - `scores`: what the order comes from; not needed for chance.
    - `keep` or `mask`: the order. `"absolute"` (or `"top"`): largest effect first. `"signed"`: most helpful first.
      `"chance"`: random orders. `"chance-matched"`: random orders that take as many heads of each layer as the scores'.
    - `ks`: numbers of heads, or a grid of some `points`: `"log"`, `"linear"`, `"quadratic"`, or `"all"`. None and all
      of the heads are always measured.
    - `threshold`: of explained effect; points are added around its crossing until it is known to one head, or to the
      share of all heads that `precision` allows. Chance orders get one round of points. 0 leaves the grid as it is.
    - `fill`, `positions`: what a removed head carries, and where (see `cuts.py`). `mean` is that of the train split.
    - `draws`: how many random orders.
    - `advance`: told how many prompts have been run. Without it a bar is shown in a terminal.
    """
    mode, order = _mode_and_order(keep, mask)
    if order != "chance" and scores is None:
        raise HeadcountError(f"The order {order!r} comes from scores, and none were given. See headcount.score.")
    if scores is not None and not isinstance(scores, HeadScores):
        raise HeadcountError(
            f"A sweep takes scores of heads; this is {type(scores).__name__}. Sets of edges are measured by"
            " headcount.circuits.CircuitMeter."
        )
    if positions not in POSITIONS:
        raise HeadcountError(f"There are no positions {positions!r}. Known: {', '.join(POSITIONS)}.")
    if draws < 1:
        raise HeadcountError(f"A chance order needs at least 1 draw; draws is {draws}.")
    if not 0 <= precision < 1:
        raise HeadcountError(f"Precision is a share of all heads, from 0 to below 1; this is {precision}.")
    require_seed(seed)
    metric_named(metric or task.metric)
    ranked = None if scores is None else scores.order("signed" if order == "signed" else "absolute")
    _check_heads(model, ranked)
    orders = _orders(model, ranked, order, draws, seed)
    grid = head_grid(model.head_count, ks, points)
    filler = Filler.prepare(
        model, fill, pairs=task.split("test"), reference=task.train, seed=seed, max_tokens=max_tokens
    )
    arguments = {
        "keep": keep, "mask": mask, "ks": ks if isinstance(ks, str) else list(ks), "points": points,
        "threshold": threshold, "precision": precision, "fill": fill, "positions": positions,
        "draws": len(orders), "seed": seed,
    }  # fmt: skip
    facts: dict[str, Any] = {
        "model": model.name, "task": task.name, "title": task.title, "units": "heads",
        "method": "chance" if scores is None else scores.method, "order": order, "mode": mode, "fill": fill,
        "metric": metric or task.metric, "total": model.head_count,
        "ranking": () if order.startswith("chance") else tuple(head_name(head) for head in orders[0]),
        "provenance": provenance(model, task, arguments),
    }  # fmt: skip
    cost = points_to_measure(model.head_count, ks, points, order, draws) * len(task.test)
    with progress_bar(cost, quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · {order}")
        meter = Meter(
            model, task.test, filler, positions=positions, max_tokens=max_tokens, advance=advance or bar.advance
        )
        curve = Curve(**facts, ks=tuple(grid), values=_measured(model, meter, orders, grid, mode))
        chance = order.startswith("chance")
        rounds, at_once = (1, REFINE_AT_ONCE // 2) if chance else (model.head_count, REFINE_AT_ONCE)
        while threshold and rounds and (missing := around_crossing(curve, threshold, precision, at_once)):
            curve = _with_points(curve, missing, _measured(model, meter, orders, missing, mode))
            rounds -= 1
    return curve


def points_to_measure(total: int, ks: str | Sequence[int], points: int, order: str, draws: int) -> int:
    """How many cuts a sweep will run, as far as can be told before it."""
    grid = len(head_grid(total, ks, points))
    if order.startswith("chance"):
        return (grid - 2 + REFINE_AT_ONCE // 2) * draws + 2
    return grid + REFINE_AT_ONCE


def _measured(model: Model, meter: Meter, orders: list[list[Head]], ks: Sequence[int], mode: Mode) -> Values:
    """Metric -> [order, k, pair]. Orders begin and end with the same cuts, so each different one is run once."""
    keeps = torch.stack([_kept(model, heads, k, mode) for heads in orders for k in ks])
    different, place = keeps.unique(dim=0, return_inverse=True)
    found = meter.measure(different)
    return {name: value[place.numpy()].reshape(len(orders), len(ks), -1) for name, value in found.items()}


def head_grid(total: int, ks: str | Sequence[int], points: int) -> list[int]:
    """The numbers of heads to measure, from 0 to all of them."""
    if not isinstance(ks, str):
        if wrong := [k for k in ks if not 0 <= k <= total]:
            raise HeadcountError(f"k must lie between 0 and the model's {total} heads; {wrong[0]} does not.")
        return sorted({0, total, *ks})
    if points < 2:
        raise HeadcountError(f"A grid needs at least 2 points; points is {points}.")
    match ks:
        case "all":
            return list(range(total + 1))
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
    return sorted({0, total, *(int(k) for k in steps.round())})


def around_crossing(curve: Curve, threshold: float, precision: float = 0.0, at_once: int = REFINE_AT_ONCE) -> list[int]:
    """A few k between the last point before the threshold is reached and the first at which it is; none when the two
    are as close as the precision, a share of all units, asks for."""
    needed = curve.units_needed(threshold).value
    if needed is None or needed == curve.ks[0]:
        return []
    before = max(k for k in curve.ks if k < needed)
    if needed - before <= max(precision * curve.total, 1):
        return []
    steps = np.linspace(before, needed, at_once + 2).round()[1:-1]
    return sorted({int(k) for k in steps} - {before, needed})


def _with_points(curve: Curve, ks: Sequence[int], values: Values) -> Curve:
    """The curve with more points, in order of k."""
    together = np.array([*curve.ks, *ks])
    place = together.argsort()
    merged = {name: np.concatenate([curve.values[name], values[name]], axis=1)[:, place] for name in curve.values}
    return Curve(**{**vars(curve), "ks": tuple(int(k) for k in together[place]), "values": merged})


def _mode_and_order(keep: str | None, mask: str | None) -> tuple[Mode, str]:
    if keep is not None and mask is not None:
        raise HeadcountError("A sweep either keeps or masks heads; give keep=... or mask=..., not both.")
    mode: Mode = "keep" if mask is None else "mask"
    order = keep or mask or "absolute"
    order = "absolute" if order == "top" else order
    if order not in ORDERS:
        raise HeadcountError(f"There is no order {order!r}.{did_you_mean(order, ('top', *ORDERS))}")
    return mode, order


def _orders(model: Model, ranked: list[Head] | None, order: str, draws: int, seed: int) -> list[list[Head]]:
    """The orders to follow: the scores' own, or random ones."""
    if order in ("absolute", "signed"):
        assert ranked is not None
        return [ranked]
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(draws):
        if order == "chance":
            shuffled = rng.permutation(model.head_count)
            drawn.append([(int(i) // model.n_heads, int(i) % model.n_heads) for i in shuffled])
        else:  # The same layers in the same order, with the heads of each layer at random.
            assert ranked is not None
            waiting = [list(rng.permutation(model.n_heads)) for _ in range(model.n_layers)]
            drawn.append([(layer, int(waiting[layer].pop())) for layer, _ in ranked])
    return drawn


def _kept(model: Model, order: Sequence[Head], k: int, mode: Mode) -> Tensor:
    """[layer, head]: the first k of an order kept, or all but them."""
    keep = torch.full((model.n_layers, model.n_heads), mode == "mask")
    for layer, head in order[:k]:
        keep[layer, head] = mode == "keep"
    return keep


def _check_heads(model: Model, ranked: Sequence[Head] | None) -> None:
    if ranked is not None and len(ranked) != model.head_count:
        raise HeadcountError(
            f"The scores are of {len(ranked)} heads, but {model.name} has {model.head_count}. Score this model first."
        )
