"""Attribution patching and gate gradients: what each head does for the metric to first order, for all heads at once.

`attribution` (Nanda 2023; Syed et al. 2023, arXiv 2310.10348): with z the head's value and f what fills the hole,

    score(h) = sum over positions of (z - f) · dm/dz            at the clean prompt

`attribution-ig`: the gradient averaged over S inputs between the two prompts (the path of EAP-IG, Hanna et al. 2024,
arXiv 2403.17806). Only the token embeddings e are interpolated; the grid holds the corrupt end, not the clean one:

    e_k = e_corrupt + k/S · (e_clean - e_corrupt),  k = 0 … S-1

`gate-gradient` (Michel et al. 2019, arXiv 1905.10650): put a gate g = 1 on every head, z -> g·z, and take the mean over
examples of |dm/dg|, the paper's importance, dm/dg = sum over positions of z · dm/dz; `gate-gradient-signed`: of dm/dg,
positive where opening the gate raises the metric.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..edit import head_values, mix_inputs, visit_heads
from ..meters.heads import answer_positions
from ..meters.metrics import metric_named
from ..models import Model
from ..tasks.batches import Batch, batches
from ..tasks.examples import Example, Pair
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


def attribution(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    def score(indices: list[int], batch: Batch) -> Tensor:
        filling = request.filler.filling(model, indices, batch)
        values, gradients = head_gradients(model, batch.clean, batch, request.metric)
        lost = (z - filling.of(layer, z) for layer, z in enumerate(values))
        return first_order(lost, gradients, batch, request)

    return by_batch(model, examples, request, 3, score)


def attribution_ig(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    fill, steps = request.filler.fill, request.steps
    if fill.kind != "counterfactual":
        raise HeadcountError(
            f"attribution-ig walks from the counterfactual prompt to the clean one, so its fill is 'counterfactual';"
            f" this is {str(fill)!r}. Use 'attribution' for other fills."
        )

    def score(indices: list[int], batch: Batch) -> Tensor:
        clean, corrupt = head_values(model, batch.clean), head_values(model, batch.corrupt)
        sums: list[Tensor] = []
        for step in range(steps):
            with mix_inputs(model, batch.corrupt, batch.clean, [step / steps]):
                _, gradients = head_gradients(model, batch.clean, batch, request.metric)
            sums = [a + b for a, b in zip(sums, gradients, strict=True)] if sums else list(gradients)
        lost = (z - other for z, other in zip(clean, corrupt, strict=True))
        return first_order(lost, [gradient / steps for gradient in sums], batch, request)

    return by_batch(model, pairs, request, 2 + 2 * steps, score)


def gate_gradient_signed(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    def score(indices: list[int], batch: Batch) -> Tensor:
        return first_order(*head_gradients(model, batch.clean, batch, request.metric), batch, request)

    return by_batch(model, examples, request, 2, score)


def gate_gradient(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    return gate_gradient_signed(model, examples, request).abs()
