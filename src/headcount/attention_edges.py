"""The third unit: attention edges (layer, head, query position, key position) of one prompt.

A head writes at position i the sum over j ≤ i of a_ij v_j. An attention edge is one term of that sum. Removed, it
carries the term of the counterfactual run, so that none kept is the same as no head kept, and all kept the clean run.

    attribution:   score_ij = (a_ij v_j - a'_ij v'_j) · dm/dz_i      at the clean run, ' for the counterfactual

Positions belong to a prompt, so an order of attention edges does too: every test prompt is scored, and then kept in
part, on its own. That is what a token-level circuit means; unlike with heads and edges, no other prompts are scored.
In a sparse model a shut gate makes both terms zero: such edges can carry nothing, and come last.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from .curves import Curve
from .errors import HeadcountError, did_you_mean, require_seed
from .measure import MAX_TOKENS, Advance, Values
from .metrics import Reference, measure_all, measured, metric_named, require_metric
from .models import Model
from .models.sparse_attention import gated_weights, mixed, no_interface
from .progress import progress_bar
from .provenance import provenance
from .sweeps import REFINE_AT_ONCE, around_crossing, unit_grid, with_points
from .tasks.batches import Batch, batches
from .tasks.examples import Task, pairs_only

NAME = "headcount_attention_edges"
UNITS = "attention edges"
ORDERS = ("absolute", "signed", "chance")
Visit = Callable[[int, Tensor, Tensor], Tensor]
"""Layer, weights [row, head, query, key] and values [row, kv head, key, size] -> z [row, query, head, size]."""


@contextmanager
def visit_attention(model: Model, visit: Visit) -> Iterator[None]:
    """Let `visit` mix the values by the weights in every layer, while the block lasts."""
    layer_of = {id(module): layer for layer, module in enumerate(model.anatomy.attentions)}
    visited: set[int] = set()

    def attention(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, Tensor]:
        weights = gated_weights(module, query, key, attention_mask, **options)
        visited.add(layer_of[id(module)])
        return visit(layer_of[id(module)], weights, value), weights

    before = model.hf.config._attn_implementation
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    try:
        model.hf.set_attn_implementation(NAME)
        yield
    except ValueError as error:
        raise HeadcountError(no_interface(model, str(error))) from error
    finally:
        model.hf.set_attn_implementation(before)
    if len(visited) < model.n_layers:
        raise HeadcountError(no_interface(model, f"{len(visited)} of its layers asked for the function"))


@dataclass(frozen=True)
class _Terms:
    """Of one run: weights and values of every layer."""

    weights: list[Tensor]
    values: list[Tensor]

    @classmethod
    @torch.no_grad()
    def of(cls, model: Model, ids: Tensor) -> "_Terms":
        found = cls([], [])

        def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
            found.weights.append(weights)
            found.values.append(value)
            return mixed(weights, value)

        with visit_attention(model, visit):
            model.run(ids)
        return found


def attribution(model: Model, batch: Batch, metric: str, counterfactual: _Terms | None = None) -> Tensor:
    """The score of every attention edge of a batch of pairs, [pair, layer, head, query, key]; 0 where there is none."""
    other = counterfactual or _Terms.of(model, batch.corrupt)
    clean, z = _Terms([], []), []

    def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
        clean.weights.append(weights.detach())
        clean.values.append(value.detach())
        z.append(mixed(weights, value))
        if not z[-1].requires_grad:  # Weights are frozen, so the graph begins at the first layer's heads.
            z[-1].requires_grad_()
        return z[-1]

    with model.frozen(), torch.enable_grad(), visit_attention(model, visit):
        total = metric_named(metric)(model.last_logits(batch.clean, batch.spots, rows=batch.rows), batch).sum()
        gradients = torch.autograd.grad(total, z)
    scores = []
    for layer, gradient in enumerate(gradients):
        per_term = [
            terms.weights[layer] * _dots(gradient.transpose(1, 2), terms.values[layer]) for terms in (clean, other)
        ]
        scores.append(per_term[0] - per_term[1])
    return torch.stack(scores, dim=1)


def _dots(gradient: Tensor, value: Tensor) -> Tensor:
    """dm/dz_i · v_j, [row, head, query, key], for values of KV heads that a group of heads shares."""
    rows, heads, queries, size = gradient.shape
    stacked = gradient.reshape(rows, value.shape[1], -1, size) @ value.transpose(-1, -2)
    return stacked.view(rows, heads, queries, -1)


def edge_count(model: Model, length: int) -> int:
    """Attention edges of a prompt."""
    return model.head_count * length * (length + 1) // 2


@dataclass(frozen=True)
class _Ready:
    """A batch with its counterfactual run and the rank of every attention edge, once for each order."""

    indices: list[int]
    batch: Batch
    counterfactual: _Terms
    ranks: Tensor
    """[order, pair, layer, head, query, key]."""
    uncut: Reference | None

    @classmethod
    def of(
        cls, model: Model, indices: list[int], batch: Batch, metric: str, order: str, draws: int, seed: int
    ) -> "_Ready":
        counterfactual = _Terms.of(model, batch.corrupt)
        shape = (len(batch), model.n_layers, model.n_heads, batch.length, batch.length)
        if order == "chance":
            rngs = [np.random.default_rng((seed, draw, index)) for draw in range(draws) for index in indices]
            random = np.stack([rng.random(shape[1:], dtype=np.float32) for rng in rngs])
            scores = torch.from_numpy(random).view(draws, *shape).to(model.device)
        else:
            found = attribution(model, batch, metric, counterfactual)[None]
            scores = found if order == "signed" else found.abs()
        at = torch.arange(batch.length, device=model.device)
        real = (at[None, :, None] >= at) & (at[:, None] <= batch.last[:, None, None])  # [pair, query, key]
        scores = scores.masked_fill(~real[None, :, None, None], -torch.inf).flatten(2)
        places = scores.argsort(dim=-1, descending=True, stable=True)
        ranks = torch.empty_like(places, dtype=torch.int32)
        counted = torch.arange(places.shape[-1], dtype=torch.int32, device=places.device).expand_as(places)
        ranks.scatter_(-1, places, counted)
        with torch.no_grad():
            uncut = Reference.of(model.last_logits(batch.clean, batch.spots))
        return cls(indices, batch, counterfactual, ranks.view(len(ranks), *shape), uncut)

    @torch.no_grad()
    def measure(self, model: Model, order: int, k: int, metrics: tuple[str, ...]) -> dict[str, Tensor]:
        """Metric -> [1, pair], with the first k of each prompt kept."""
        keep = self.ranks[order] < k

        def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
            other_weights, other_value = self.counterfactual.weights[layer], self.counterfactual.values[layer]
            kept = keep[:, layer]
            return mixed(weights * kept, value) + mixed(other_weights * ~kept, other_value)

        with visit_attention(model, visit):
            logits = model.last_logits(self.batch.clean, self.batch.spots, rows=self.batch.rows)
        return measure_all(logits, self.batch, metrics, self.uncut)


def sweep_attention_edges(
    model: Model,
    task: Task,
    *,
    keep: str = "absolute",
    ks: str | Sequence[int] | None = None,
    points: int = 24,
    threshold: float = 0.9,
    precision: float = 0.01,
    metric: str | None = None,
    draws: int = 3,
    seed: int = 0,
    advance: Advance | None = None,
) -> Curve:
    """Measure the test split of a task with k attention edges of every prompt kept, for growing k.

    **Arguments:**

    - `keep`: the order. `"absolute"` (or `"top"`): largest attribution first. `"signed"`: most helpful first.
      `"chance"`: random orders, of which there are `draws`.
    - `ks`, `points`, `threshold`, `precision`: as in `headcount.sweep`. k counts the edges of one prompt; a prompt that
      has fewer is whole.
    """
    order = "absolute" if keep == "top" else keep
    if order not in ORDERS:
        raise HeadcountError(f"There is no order {keep!r} of attention edges.{did_you_mean(keep, ('top', *ORDERS))}")
    require_seed(seed)
    wanted = metric or task.metric
    require_metric(wanted, task.test)
    pairs = pairs_only(task.test, "A sweep over attention edges")
    total = edge_count(model, max(len(pair.clean) for pair in pairs))
    grid = unit_grid(UNITS, total, ks, points, shares=False)
    orders = draws if order == "chance" else 1
    metrics = measured(pairs)
    arguments = {"keep": keep, "ks": ks, "points": points, "threshold": threshold, "precision": precision, "seed": seed}
    facts: dict[str, Any] = {
        "model": model.name, "task": task.name, "title": task.title, "units": UNITS,
        "method": "chance" if order == "chance" else "attribution", "order": order, "mode": "keep",
        "fill": "counterfactual", "metric": wanted, "total": total, "ranking": (),
        "provenance": provenance(model, task, arguments),
    }  # fmt: skip
    with progress_bar(len(grid) * orders * len(pairs), quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · {UNITS}, {order}")
        ready = [
            _Ready.of(model, indices, batch, wanted, order, draws, seed)
            for indices, batch in batches(pairs, model.device, MAX_TOKENS // 2)
        ]

        def values(some: Sequence[int]) -> Values:
            found = {name: np.empty((orders, len(some), len(pairs))) for name in metrics}
            for part in ready:
                for row in range(orders):
                    for column, k in enumerate(some):
                        for name, value in part.measure(model, row, k, metrics).items():
                            _put(found[name], row, column, part.indices, value)
                        (advance or bar.advance)(len(part.indices))
            return found

        curve = Curve(**facts, ks=tuple(grid), values=values(grid))
        rounds = 1 if order == "chance" else total
        while threshold and rounds and (missing := around_crossing(curve, threshold, precision, REFINE_AT_ONCE // 2)):
            curve = with_points(curve, missing, values(missing))
            rounds -= 1
    return curve


def _put(found: NDArray[np.float64], row: int, column: int, indices: list[int], value: Tensor) -> None:
    found[row, column, indices] = value[0].cpu().double().numpy()
