"""Ablate heads in the order of their roles, and measure how the log-probability of the target changes.

    Δ(k) = log P(y | x; G with the first k heads at 0) - log P(y | x; G with the first k heads at 1)

G is a base of gates: G+ of the same fit, in which all heads are open but those that hurt (the paper, Nam et al. 2025,
figure 2), or all ones. Heads that help make Δ fall, heads that hurt make it rise, the others leave it near zero. Every
seed has its own gates and orders; a curve has a draw for each.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError, require_draws, require_known, require_seed
from ..core.progress import progress_bar
from ..core.provenance import Facts, provenance
from ..core.words import ROLES, GateBase, Role
from ..edit import Filler, head_name
from ..meters import Advance, HeadMeter, Readings, Values
from ..meters.meter import WHOLE, Part, T
from ..meters.metrics import CHANGE, SAID
from ..models import Model
from ..models.changes import leaves_no_trace
from ..rank.roles import HeadRoles
from ..tasks.examples import Task
from .curve import Curve
from .orders import Order, Point
from .sweep import trace, with_words

ROLE_ORDERS: tuple[str, ...] = (*ROLES, "chance")
LARGEST_K, LARGEST_SHARE, FEWEST_K = 50, 5, 4
"""At most one head in five is ablated, and at most 50, as published for models with many hundreds: more would be no
small cut. A model with very few heads still has some points."""


OPEN = "_open"
"""How names of metrics end that were read with heads open."""


class RoleOrder(Order[Tensor]):
    """The first k heads of every seed's order at 0, and at 1, in the base gates of that seed."""

    def __init__(self, roles: HeadRoles, order: str, base: GateBase, draws: int, seed: int) -> None:
        self.roles, self.base = roles, base
        if order == "chance":
            rng, size = np.random.default_rng(seed), roles.plus[0].size
            self.ranked = [(s, rng.permutation(size)) for s in range(roles.seeds) for _ in range(draws)]
        else:
            self.ranked = [(s, roles.order(cast(Role, order), s)) for s in range(roles.seeds)]
        self.draws = len(self.ranked)

    def points(self, ks: Sequence[int]) -> list[Point]:
        """All draws with heads at 0, then all of them again with heads at 1."""
        return [(turn, k) for turn in range(2 * self.draws) for k in ks]

    def different(self, points: Sequence[Point]) -> tuple[list[Point], list[int]]:
        """With all heads open as the base, or with k = 0, many masks are the same."""
        masks = self.masks(points).flatten(1).numpy()
        _, first, place = np.unique(masks, axis=0, return_index=True, return_inverse=True)
        return [points[index] for index in first], place.ravel().tolist()

    def masks(self, points: Sequence[Point]) -> Tensor:
        """The base gates of a seed with the first k heads set to 0 or 1, [point, layer, head]."""
        to, draws = zip(*(divmod(turn, self.draws) for turn, _ in points), strict=True)
        plus = np.stack([self.roles.plus[self.ranked[draw][0]] for draw in draws])
        gates = plus if self.base == "plus" else np.ones_like(plus)
        for row, gate, draw, (_, k) in zip(gates, to, draws, points, strict=True):
            row.flat[self.ranked[draw][1][:k]] = gate
        return torch.from_numpy(gates)

    def fold(self, found: Readings[T], ks: Sequence[int]) -> Readings[T]:
        """Metrics with the first k ablated, and with the first k open, [draw, k, example]."""
        folded: Readings[T] = {}
        for name, value in found.items():
            closed, opened = value.reshape(2, self.draws, len(ks), -1)
            folded[name] = closed
            if name not in SAID:
                folded[f"{name}{OPEN}"] = opened
        return folded


def _with_changes(curve: Curve) -> Curve:
    """With the change of every metric in the place of its value with heads open. Not before all parts are together:
    the two sides of a change may be in different ones."""
    values: Values = {}
    for name, value in curve.values.items():
        ablated = name.removesuffix(OPEN)
        if ablated == name:
            values[name] = value
        else:
            values[f"{ablated}{CHANGE}"] = curve.values[ablated] - value
    return replace(curve, values=values, metric=f"log_prob{CHANGE}")


@leaves_no_trace
def sweep_roles(
    model: Model,
    task: Task,
    roles: HeadRoles,
    *,
    orders: Sequence[str] = ROLE_ORDERS,
    ks: Literal["halves"] | Sequence[int] | None = None,
    base: GateBase = "plus",
    draws: int = 1,
    seed: int = 0,
    part: Part = WHOLE,
    parts: Sequence[Curve] = (),
    advance: Advance | None = None,
) -> list[Curve]:
    """A curve for each role, and one by chance, on the test split of a task.

    **Arguments:**

    - `orders`: some of the roles and `chance`.
    - `ks`: numbers of heads; for a model with fewer heads, all of them take the place of more. By default every number
      from 0 to a fifth of the heads or 50, whichever is less; `"halves"` measures that number, its half, and so on.
    - `base`: the gates in which heads are ablated.
    - `draws`: random orders for each seed of the roles.
    - `part`, `parts`: of one order, as in `headcount.sweep`.

    Metrics of a curve: those of the task with the first k heads ablated, and their change Δ, named `log_prob_change`
    (summed over the target), `log_prob_per_token_change`, and so on. What the model says with heads of a role ablated
    (`Curve.said`) is that of the first fit.
    """
    require_known(base, get_args(GateBase), "base")
    for order in orders:
        require_known(order, ROLE_ORDERS, "order")
    require_draws(draws)
    if roles.plus.shape[1:] != (model.n_layers, model.n_heads):
        raise HeadcountError(f"The roles are of {roles.plus[0].size} heads, but {model.name} has {model.head_count}.")
    require_seed(seed)
    grid = role_grid(model.head_count, ks)
    examples = task.split("test")
    filler = Filler.prepare(model, roles.fill, examples=examples, reference=task.split("train"), seed=seed)
    arguments: Facts = {"ks": grid, "base": base, "draws": draws, "seed": seed, "fill": roles.fill}
    cost = points_of_roles(len(grid), roles.seeds, draws, orders) * len(examples)
    curves = []
    with progress_bar(cost, quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · roles")
        says = model.tokenizer is not None and any(order in ROLES for order in orders)
        meter = HeadMeter(model, examples, filler, says=says, advance=advance or bar.advance)
        everything = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
        whole = meter.measure(everything)
        blank = Curve(
            model=model.name,
            task=task.name,
            title=task.title,
            units="heads",
            method="gating",
            order="",
            mode="mask",
            fill=roles.fill,
            metric="log_prob",
            ks=(),
            total=model.head_count,
            ranking=(),
            values={},
            kind="change",
            base=base,
            whole={name: float(value.mean()) for name, value in whole.items() if name not in SAID},
            provenance=provenance(model, task, arguments),
        )
        for order in orders:
            masks = RoleOrder(roles, order, base, draws, seed)
            alone = roles.seeds == 1 and order != "chance"
            first = masks.ranked[0][1].tolist() if alone else []
            ranking = tuple(head_name(divmod(place, model.n_heads)) for place in first)
            own = replace(blank, order=order, ranking=ranking)
            curve = trace(own, masks, meter, grid, part=part, parts=parts)
            if part == WHOLE:
                curve = _with_changes(with_words(model, curve) if order in ROLES else replace(curve, said={}))
            curves.append(curve)
    return curves


def role_grid(heads: int, ks: Literal["halves"] | Sequence[int] | None) -> list[int]:
    """The numbers of heads to ablate, from 0 on; by default they grow with the model."""
    largest = min(LARGEST_K, max(heads // LARGEST_SHARE, FEWEST_K), heads)
    if not ks:
        return list(range(largest + 1))
    if isinstance(ks, str):
        require_known(ks, ("halves",), "grid of k")
        return sorted({largest >> halved for halved in range(largest.bit_length() + 1)})
    if wrong := [k for k in ks if not isinstance(k, int) or k < 0]:
        raise HeadcountError(f"k must be a whole number from 0 on; {wrong[0]!r} is not.")
    return sorted({0, *(min(k, heads) for k in ks)})


def points_of_roles(ks: int, seeds: int, draws: int, orders: Sequence[str]) -> int:
    """Masks that are measured, for progress bars."""
    return 2 * ks * seeds * sum(draws if order == "chance" else 1 for order in orders)
