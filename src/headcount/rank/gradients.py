"""What the gradient methods share: every head's value and the metric's gradient at it, from one backward pass."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ..edit import visit_heads
from ..meters.heads import answer_positions
from ..meters.metrics import metric_named
from ..models import Model
from ..tasks.batches import Batch, batches
from ..tasks.examples import Example
from .method import Request

BatchScore = Callable[[list[int], Batch], Tensor]


def head_gradients(model: Model, ids: Tensor, batch: Batch, metric: str) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """z and dm/dz of every layer, each [pair, position, head, head size]; m is each pair's own metric."""
    values: list[Tensor] = []

    def visit(layer: int, z: Tensor) -> Tensor:
        # Weights are frozen, so the graph begins at the first layer's heads.
        values.append(z if z.requires_grad else z.detach().requires_grad_())
        return values[-1]

    with model.frozen(), torch.enable_grad(), visit_heads(model, visit):
        total = metric_named(metric)(model.last_logits(ids, batch.spots, rows=batch.rows), batch).sum()
        gradients = torch.autograd.grad(total, values)
    return [value.detach() for value in values], gradients


def by_batch(model: Model, examples: Sequence[Example], request: Request, forwards: int, score: BatchScore) -> Tensor:
    """Apply a score to batch after batch, and put the examples back into their order, [example, layer, head]."""
    scores = torch.zeros(len(examples), model.n_layers, model.n_heads, dtype=torch.float64)
    # A backward pass keeps every activation alive, so it gets half the tokens.
    for indices, batch in batches(examples, model.device, max(request.max_tokens // 2, 1)):
        scores[indices] = score(indices, batch).cpu().double()
        request.advance(forwards * len(batch))
    return scores


def sum_where(products: Iterable[Tensor], batch: Batch, request: Request) -> Tensor:
    """Sum [pair, position, head] of each layer over the real positions at which cuts apply -> [pair, layer, head]."""
    where = batch.real() if request.positions == "all" else answer_positions(batch, request.positions)
    return torch.stack([(product.cpu() * where.cpu()[..., None]).sum(1) for product in products], dim=1)


def first_order(lost: Iterable[Tensor], gradients: Iterable[Tensor], batch: Batch, request: Request) -> Tensor:
    """What the metric loses to first order with so much of each head, [pair, position, head, head size] a layer."""
    products = (torch.einsum("bphd,bphd->bph", z, gradient) for z, gradient in zip(lost, gradients, strict=True))
    return sum_where(products, batch, request)
