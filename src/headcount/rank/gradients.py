"""Attribution patching and gate gradients: what each head does for the metric to first order, for all heads at once.

`attribution` (Nanda 2023; Syed et al. 2023, arXiv 2310.10348): with z the head's value and f what fills the hole,

    score(h) = sum over positions of (z - f) · dm/dz            at the clean prompt

`attribution-ig`: the gradient averaged over S inputs between the two prompts (the path of EAP-IG, Hanna et al. 2024,
arXiv 2403.17806). Only the token embeddings e are interpolated; the grid holds the corrupt end, not the clean one:

    e_k = e_corrupt + k/S · (e_clean - e_corrupt),  k = 0 … S-1

`attribution-eg`: the mean over the whole path by expected gradients (Erion et al. 2021, arXiv 1906.10670), with one
point for each prompt, drawn from U(0, 1): noisy for a single prompt, unbiased for the mean. It is drawn from the seed
and the prompt's own tokens, so that a score depends on neither the batch nor the other prompts.

`attribution-attnlrp`, `attribution-relp`, `attribution-gim`: `attribution` with the gradient of a backward rule
(`models/backward_rules.py`).

`gate-gradient` (Michel et al. 2019, arXiv 1905.10650): put a gate g = 1 on every head, z -> g·z, and take the mean over
examples of |dm/dg|, the paper's importance, dm/dg = sum over positions of z · dm/dz; `gate-gradient-signed`: of dm/dg,
positive where opening the gate raises the metric.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.words import BackwardRule
from ..edit import Share, head_values, mix_inputs, visit_heads
from ..meters.heads import answer_positions
from ..meters.metrics import metric_named
from ..models import Model
from ..models.backward_rules import following
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


def attribution(
    model: Model, examples: Sequence[Example], request: Request, rule: BackwardRule | None = None
) -> Tensor:
    def score(indices: list[int], batch: Batch) -> Tensor:
        filling = request.filler.filling(model, indices, batch)
        values, gradients = head_gradients(model, batch.clean, batch, request.metric)
        lost = (z - filling.of(layer, z) for layer, z in enumerate(values))
        return first_order(lost, gradients, batch, request)

    with following(model, rule):
        return by_batch(model, examples, request, 3, score)


attribution_attnlrp = partial(attribution, rule="attnlrp")
attribution_relp = partial(attribution, rule="relp")
attribution_gim = partial(attribution, rule="gim")

Points = Callable[[Request, Sequence[Pair]], list[Share]]
"""Where gradients are taken, between corrupt (0) and clean (1); how many there are does not depend on the pairs."""


def evenly(request: Request, pairs: Sequence[Pair]) -> list[Share]:
    """S points, the corrupt end among them."""
    return [step / request.steps for step in range(request.steps)]


def drawn(request: Request, pairs: Sequence[Pair]) -> list[Share]:
    """One point, each pair's own."""
    return [torch.tensor([drawn_share(pair, request.seed) for pair in pairs], dtype=torch.float64)]


def drawn_share(pair: Pair, seed: int) -> float:
    """From U(0, 1), by seed and tokens."""
    return random.Random(f"{seed} {pair.clean} {pair.corrupt}").random()


def _along_path(model: Model, pairs: Sequence[Pair], request: Request, points: Points) -> Tensor:
    fill, count = request.filler.fill, len(points(request, ()))
    if fill.kind != "counterfactual":
        raise HeadcountError(
            "This method walks from the counterfactual prompt to the clean one, so its fill is 'counterfactual';"
            f" this is {str(fill)!r}. Use 'attribution' for other fills."
        )

    def score(indices: list[int], batch: Batch) -> Tensor:
        clean, corrupt = head_values(model, batch.clean), head_values(model, batch.corrupt)
        sums: list[Tensor] = []
        for share in points(request, [pairs[index] for index in indices]):
            with mix_inputs(model, batch.corrupt, batch.clean, [share]):
                _, gradients = head_gradients(model, batch.clean, batch, request.metric)
            sums = [a + b for a, b in zip(sums, gradients, strict=True)] if sums else list(gradients)
        lost = (z - other for z, other in zip(clean, corrupt, strict=True))
        return first_order(lost, [gradient / count for gradient in sums], batch, request)

    return by_batch(model, pairs, request, 2 + 2 * count, score)


attribution_ig = partial(_along_path, points=evenly)
attribution_eg = partial(_along_path, points=drawn)


def gate_gradient_signed(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    def score(indices: list[int], batch: Batch) -> Tensor:
        return first_order(*head_gradients(model, batch.clean, batch, request.metric), batch, request)

    return by_batch(model, examples, request, 2, score)


def gate_gradient(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    return gate_gradient_signed(model, examples, request).abs()
