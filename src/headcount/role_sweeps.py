"""Ablate heads in the order of their roles, and measure how the log-probability of the target changes.

    Δ(k) = log P(y | x; G with the first k heads at 0) - log P(y | x; G with the first k heads at 1)

G is a base of gates: G+ of the same fit, in which all heads are open but those that hurt (the paper, Nam et al. 2025,
figure 2), or all ones. Heads that help make Δ fall, heads that hurt make it rise, the others leave it near zero. Every
seed has its own gates and orders; a curve has a draw for each.
"""

from collections.abc import Sequence
from typing import Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from .curves import Curve
from .cuts import Filler, head_name
from .errors import HeadcountError, did_you_mean, require_seed
from .measure import MAX_TOKENS, Advance, Meter, Values
from .models import Model
from .progress import progress_bar
from .provenance import provenance
from .scores.roles import ROLES, HeadRoles, Role
from .tasks.examples import Task

Base = Literal["plus", "ones"]
ORDERS: tuple[str, ...] = (*ROLES, "chance")
LARGEST_K = 50
Masks = NDArray[np.float64]


def sweep_roles(
    model: Model,
    task: Task,
    roles: HeadRoles,
    *,
    orders: Sequence[str] = ORDERS,
    ks: Sequence[int] | None = None,
    base: Base = "plus",
    draws: int = 1,
    seed: int = 0,
    advance: Advance | None = None,
) -> list[Curve]:
    """A curve for each role, and one by chance, on the test split of a task.

    **Arguments:**

    - `orders`: some of the roles and `chance`.
    - `ks`: numbers of heads, 0 to 50 by default; for a model with fewer heads, all of them take the place of more.
    - `base`: the gates in which heads are ablated.
    - `draws`: random orders for each seed of the roles.

    Metrics of a curve: those of the task with the first k heads ablated, and their change Δ, named `log_prob_change`
    (summed over the target), `log_prob_per_token_change`, and so on.
    """
    if base not in get_args(Base):
        raise HeadcountError(f"There is no base {base!r}.{did_you_mean(str(base), get_args(Base))}")
    for order in orders:
        if order not in ORDERS:
            raise HeadcountError(f"There is no order {order!r}.{did_you_mean(order, ORDERS)}")
    if draws < 1:
        raise HeadcountError(f"A chance order needs at least 1 draw; draws is {draws}.")
    if roles.plus.shape[1:] != (model.n_layers, model.n_heads):
        raise HeadcountError(f"The roles are of {roles.plus[0].size} heads, but {model.name} has {model.head_count}.")
    require_seed(seed)
    grid = role_grid(model.head_count, ks)
    examples = task.split("test")
    filler = Filler.prepare(model, roles.fill, examples=examples, reference=task.split("train"), seed=seed)
    arguments = {"ks": grid, "base": base, "draws": draws, "seed": seed, "fill": roles.fill}
    origin = provenance(model, task, arguments)
    curves = []
    cost = points_of_roles(len(grid), roles.seeds, draws, orders) * len(examples)
    with progress_bar(cost, quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · roles")
        meter = Meter(model, examples, filler, max_tokens=MAX_TOKENS, advance=advance or bar.advance)
        whole = {name: float(value.mean()) for name, value in meter.measure(_whole(model)).items()}
        for order in orders:
            ranked = _ranked(roles, order, draws, seed)
            alone = roles.seeds == 1 and order != "chance"
            names = [head_name(divmod(int(place), model.n_heads)) for place in ranked[0][1]] if alone else []
            values = _measured(meter, roles, base, ranked, grid)
            curves.append(
                Curve(
                    model=model.name, task=task.name, title=task.title, units="heads", method="gating", order=order,
                    mode="mask", fill=roles.fill, metric="log_prob_change", ks=tuple(grid), total=model.head_count,
                    ranking=tuple(names), values=values, base=base, whole=whole, provenance=origin,
                )
            )  # fmt: skip
    return curves


def role_grid(heads: int, ks: Sequence[int] | None) -> list[int]:
    if not ks:
        return list(range(min(LARGEST_K, heads) + 1))
    if wrong := [k for k in ks if not isinstance(k, int) or k < 0]:
        raise HeadcountError(f"k must be a whole number from 0 on; {wrong[0]!r} is not.")
    return sorted({0, *(min(k, heads) for k in ks)})


def points_of_roles(ks: int, seeds: int, draws: int, orders: Sequence[str]) -> int:
    """Masks that are measured, for progress bars."""
    return 2 * ks * seeds * sum(draws if order == "chance" else 1 for order in orders)


def _whole(model: Model) -> torch.Tensor:
    return torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)


def _ranked(roles: HeadRoles, order: str, draws: int, seed: int) -> list[tuple[int, NDArray[np.intp]]]:
    """(seed, heads by place) for every draw."""
    if order == "chance":
        rng = np.random.default_rng(seed)
        return [(s, rng.permutation(roles.plus[0].size)) for s in range(roles.seeds) for _ in range(draws)]
    return [(s, roles.order(cast(Role, order), s)) for s in range(roles.seeds)]


def _measured(
    meter: Meter, roles: HeadRoles, base: Base, ranked: Sequence[tuple[int, NDArray[np.intp]]], ks: Sequence[int]
) -> Values:
    """Metrics with the first k ablated, and their change against the first k open, [draw, k, example]."""
    masks = np.stack(
        [_ablated(roles, base, seed, order[:k], to) for to in (0.0, 1.0) for seed, order in ranked for k in ks]
    )
    # With all heads open as the base, or with k = 0, many masks are the same; each is run once.
    different, place = np.unique(masks.reshape(len(masks), -1), axis=0, return_inverse=True)
    found = meter.measure(torch.from_numpy(different.reshape(-1, *masks.shape[1:])))
    meter.advance((len(masks) - len(different)) * len(meter.examples))
    values: Values = {}
    for name, value in found.items():
        closed, opened = value[place.ravel()].reshape(2, len(ranked), len(ks), -1)
        values[name], values[f"{name}_change"] = closed, closed - opened
    return values


def _ablated(roles: HeadRoles, base: Base, seed: int, places: NDArray[np.intp], to: float) -> Masks:
    """The base gates of a seed with some heads set to 0 or 1, [layer, head]."""
    gates: Masks = roles.plus[seed].copy() if base == "plus" else np.ones_like(roles.plus[seed])
    gates.flat[places] = to
    return gates
