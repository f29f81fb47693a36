"""Keep or mask units in an order, more and more of them, and measure what is left: order x meter -> `Curve`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from ..core.errors import HeadcountError, require_draws, require_known, require_seed
from ..core.plain import quoted
from ..core.progress import progress_bar
from ..core.provenance import Facts, provenance
from ..core.words import GRIDS, ORDERS, POSITIONS, Aim, AttentionMethod, Mode, Positions, Readers, in_words
from ..edit import Fill
from ..meters import Advance, Meter
from ..meters.meter import WHOLE, Part
from ..meters.metrics import SAID, require_measured, require_metric
from ..models import Model, require_model
from ..models.changes import leaves_no_trace
from ..rank.fit import Learning
from ..rank.scores import warn_of_another
from ..tasks.examples import Task, require_task
from .curve import MIB_SHARES, Curve
from .mix import Mix, choose_mix
from .orders import M, Order, Scores, measured, merged
from .units import AnyUnits, Asked, AttentionEdges, Edges, units_of

Ks = str | Sequence[int] | None  # a grid by its name, or numbers of units
MOST_POINTS = 10_000
Refine = Callable[[Curve], list[int]]


def trace(
    blank: Curve,
    order: Order[M],
    meter: Meter[M],
    ks: Sequence[int],
    refine: Refine | None = None,
    rounds: int = 2**31,
    part: Part = WHOLE,
    parts: Sequence[Curve] = (),
) -> Curve:
    """A blank curve with what a meter reads at every k of an order, and at the k that `refine` adds, round by round.
    A `part` of it has some of the first k, and the whole can begin with all `parts`."""
    values = merged([each.values for each in parts]) if parts else measured(order, meter, ks, part)
    curve = replace(blank, ks=tuple(ks), values=values)
    refine = None if part != WHOLE else refine
    while refine and rounds and (missing := refine(curve)):
        curve = curve.joined(replace(curve, ks=tuple(missing), values=measured(order, meter, missing)))
        rounds -= 1
    if part != WHOLE:
        return curve
    said = {name: curve.values[name][0] for name in SAID if name in curve.values}
    return replace(curve, said=said, values={name: curve.values[name] for name in curve.values if name not in said})


def with_words(model: Model, curve: Curve) -> Curve:
    """With the texts of the tokens that are said."""
    tokens = sorted({int(token) for token in np.unique(curve.said.get(SAID[0], np.empty(0)))})
    return replace(curve, words={str(token): model.decode([token]) for token in tokens})


@leaves_no_trace
def sweep(
    model: Model,
    task: Task,
    scores: Scores | None = None,
    *,
    units: str | None = None,
    keep: str | None = None,
    mask: str | None = None,
    ks: Ks = None,
    points: int = 24,
    threshold: float = 0.9,
    precision: float = 0.0,
    fill: str | None = None,
    metric: str | None = None,
    positions: Positions = "all",
    readers: Readers = "kv-heads",
    method: AttentionMethod = "attribution",
    fit: Learning | None = None,
    prune: bool = False,
    draws: int = 20,
    seed: int = 0,
    memory: int | None = None,
    mix: Mix | None = None,
    part: Part = WHOLE,
    parts: Sequence[Curve] = (),
    advance: Advance | None = None,
) -> Curve:
    """Measure the test split of a task with k units kept (or masked), for growing k.

    **Arguments:**

    - `scores`: what the order comes from, of heads or of edges; not needed for chance, nor for attention edges, which
      are scored prompt by prompt. Then `units` (`"heads"` by default) and, for edges, `readers` say what is meant.
    - `keep` or `mask`: the order. `"absolute"` (or `"top"`): largest effect first. `"signed"`: most helpful first.
      `"best"`: the mix of the two that needs the fewest units on the train split (`Curve.mix` says which).
      `"chance"`: random orders. `"chance-matched"`: random orders that take as many units of each layer as the scores'.
    - `ks`: numbers of units, or a grid of some `points`: `"log"` (for edges by default), `"linear"`, `"quadratic"` (for
      heads), or `"all"`. None and all of the units are always measured; of edges also MIB's shares, but by chance.
    - `threshold`: of explained effect; points are added until the k at which it is reached, and that at which the curve
      is faithful, are known to one unit, or to the share of the units needed that `precision` allows; by chance, one
      round of points. 0 leaves the grid as it is.
    - `fill`, `positions`: what a removed unit carries, and where (see `edit/`); by default the counterfactual where a
      task has pairs, else zero. `mean` is that of the train split.
    - `method`, `fit`: how attention edges are scored, which happens here: by `attribution`, or `learned` on each
      prompt, as a `headcount.Learning` says.
    - `prune`: for edges, measure circuits without their dangling edges; with counterfactual fill it is the same.
    - `draws`: how many random orders.
    - `memory`: bytes that may be used beyond the model, for edges.
    - `mix`: of the order `best`, where it was chosen before; else it is chosen here.
    - `part`, `parts`: long sweeps are done in parts, which differ in nothing: (0, 3) is the first of three, a curve
      with some of its points; all three given as `parts`, the whole is made from them and goes on from there.
    - `advance`: told how many prompts have been run. Without it a bar is shown in a terminal.
    """
    require_model(model)
    require_task(task, model.vocabulary)
    if keep is not None and mask is not None:
        raise HeadcountError("A sweep either keeps or masks units; give keep=... or mask=..., not both.")
    mode: Mode = "keep" if mask is None else "mask"
    order = keep or mask or "absolute"
    require_known(order, ("top", *ORDERS), "order")
    order = "absolute" if order == "top" else order
    require_known(positions, POSITIONS, "positions")
    require_draws(draws)
    if not 0 <= precision < 1:
        raise HeadcountError(f"Precision is a share of the units needed, from 0 to below 1; got {precision}.")
    require_seed(seed)
    fill = fill or ("counterfactual" if task.has_pairs else "zero")
    Fill.parse(fill)
    metric = metric or task.metric
    require_measured(metric, task.test)
    swept = units_of(model, task, scores, units, readers)
    if scores is not None:
        warn_of_another(scores, model)
    if isinstance(swept, AttentionEdges) and order != "chance":
        require_metric(metric, task.test, f"Scoring attention edges by {method}")
    asked = Asked(order, mode, fill, positions, metric, draws, seed, prune, memory, method, fit)
    chosen = Facts()
    if order == "best" and not isinstance(swept, AttentionEdges):
        mix = mix or choose_mix(swept, task, asked, threshold, advance)
        asked, chosen = replace(asked, mix=mix.share), mix.facts()
    masks: Order[Any] = swept.order(asked)
    grid = unit_grid(swept.name, swept.total, ks, points, shares=mode == "keep" and not asked.by_chance)
    named_ks = ks if ks is None or isinstance(ks, str) else list(ks)
    arguments: Facts = {"keep": keep, "mask": mask, "ks": named_ks, "points": points, "threshold": threshold}
    arguments |= {"precision": precision, "fill": fill, "positions": positions, "draws": masks.draws, "seed": seed}
    if isinstance(swept, AttentionEdges) and method != "attribution":
        arguments |= {"method": method, "fit": (fit or Learning()).facts()}
    if isinstance(swept, Edges):
        arguments |= {"readers": swept.readers, "prune": prune}
    blank = Curve(
        model=model.name,
        task=task.name,
        title=task.title,
        units=swept.name,
        method=swept.method(asked),
        order=order,
        mode=mode,
        fill=fill,
        metric=metric,
        ks=(),
        total=swept.total,
        ranking=swept.ranking(asked),
        values={},
        provenance=provenance(model, task, arguments) | chosen,
    )
    # Chance orders get one round of points. The fewer a round has, the fewer are run in the end; but circuits of edges
    # cost less when several run at once.
    at_once = 6 if swept.name == "edges" and not asked.by_chance else 3
    refine = partial(points_around, threshold=threshold, precision=precision, at_once=at_once)
    cost = points_to_measure(swept, ks, points, order, draws, mode) * len(task.test)
    with progress_bar(cost, quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · {order}")
        meter: Meter[Any] = swept.meter(task, asked, advance or bar.advance)
        rounds = 1 if asked.by_chance else 2**31
        curve = trace(blank, masks, meter, grid, refine, rounds, part, parts)
        return with_words(model, replace(curve, own=swept.own(asked, cast(Any, meter))))


def sweep_attention_edges(
    model: Model, task: Task, *, keep: str = "absolute", precision: float = 0.01, draws: int = 3, **settings: object
) -> Curve:
    """`headcount.sweep` over attention edges: k of every prompt, each scored and kept on its own. k counts the edges of
    one prompt; a prompt that has fewer is whole. `settings` are those of `headcount.sweep`."""
    asked = {"units": "attention-edges", "keep": keep, "precision": precision, "draws": draws, **settings}
    return sweep(model, task, **asked)  # type: ignore[arg-type]


def points_to_measure(units: AnyUnits, ks: Ks, points: int, order: str, draws: int, mode: Mode) -> int:
    """How many masks a sweep will run, as far as can be told before it."""
    chance = order.startswith("chance")
    grid = len(unit_grid(units.name, units.total, ks, points, shares=mode == "keep" and not chance))
    return (grid + 3) * draws if chance else grid + 6 * (1 if units.name == "heads" else 3)


def points_around(curve: Curve, threshold: float, precision: float, at_once: int) -> list[int]:
    """A few k between the last point before a threshold of explained effect is reached and the first at which it is;
    once these two are close enough, the same where the curve becomes faithful. Close enough is what the precision, a
    share of the units needed, asks for: 0 for one unit. A curve that jumps past the wanted range is followed to one
    unit, as the k in between may lie within it."""
    aims: tuple[Aim, ...] = ("reached", "faithful")
    for aim in aims if threshold else ():
        needed = curve.first_k(threshold, aim)
        if needed is None or needed == curve.ks[0]:
            continue
        before, jumps = max(k for k in curve.ks if k < needed), curve.first_k(threshold) != needed
        if needed - before > max(0 if jumps else precision * needed, 1):
            return sorted({int(k) for k in np.linspace(before, needed, at_once + 2).round()[1:-1]} - set(curve.ks))
    return []


def unit_grid(units: str, total: int, ks: Ks, points: int, shares: bool = True) -> list[int]:
    """The numbers of units to measure, from 0 to all of them; of edges with MIB's shares. Without any k, the ends."""
    if ks is None:
        ks = "quadratic" if units == "heads" else "log"
    if not isinstance(ks, str):
        numbers = list(ks) if isinstance(ks, Iterable) else [None]
        if not all(isinstance(k, int | np.integer) for k in numbers):
            raise HeadcountError(f"ks are whole numbers, a list of them, or a grid by its name; got {quoted(ks)}.")
        if wrong := [k for k in ks if not 0 <= k <= total]:
            raise HeadcountError(
                f"k must lie between 0 and the model's {total} {in_words(units)}; {wrong[0]} does not."
            )
        return sorted({0, total, *ks})
    if not 2 <= points <= MOST_POINTS:
        raise HeadcountError(f"A grid needs from 2 to {MOST_POINTS:,} points; points is {quoted(points)}.")
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
                tries += max(tries // 1000, 1)
            steps = np.geomspace(1, total, tries)
        case _:
            raise HeadcountError(f"There is no grid {ks!r}. Give numbers or one of {', '.join(GRIDS)}.")
    of_mib = [int(share * total) for share in MIB_SHARES] if units == "edges" and shares else []
    return sorted({0, total, *steps.round().astype(int).tolist(), *of_mib})
