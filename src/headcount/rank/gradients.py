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
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from transformers import DynamicCache

from ..core.errors import HeadcountError
from ..core.words import BackwardRule, Positions
from ..edit import Fill, Share, first_reached, head_values, mix_inputs, visit_heads
from ..meters.heads import answer_positions
from ..meters.metrics import metric_named
from ..models import Model
from ..models.backward_rules import following
from ..tasks.batches import Batch, batches
from ..tasks.examples import Example, Pair
from .method import Request

BatchScore = Callable[[list[int], Batch], Tensor]


@dataclass(frozen=True)
class Tail:
    """A batch from the first position on that cuts can reach. Before it nothing is lost, so no gradient is needed, and
    what comes before never depends on what comes after: it is read once."""

    batch: Batch
    start: int
    where: Tensor  # at which of its positions cuts apply, [row, position]
    prefix: DynamicCache | None

    @classmethod
    def of(cls, model: Model, batch: Batch, fill: Fill, positions: Positions) -> "Tail":
        where = None if positions == "all" else answer_positions(batch, positions)
        start = first_reached(batch, fill, where)
        return cls(
            batch,
            start,
            applying(batch, positions)[:, start:],
            model.read_prefix(batch.clean[:, :start]) if start else None,
        )

    @property
    def clean(self) -> Tensor:
        return self.batch.clean[:, self.start :]

    @property
    def corrupt(self) -> Tensor:
        return self.batch.corrupt[:, self.start :]

    def past(self, model: Model, copies: int = 1) -> DynamicCache | None:
        return None if self.prefix is None else model.repeated_prefix(self.prefix, copies)

    def values(self, model: Model, ids: Tensor) -> tuple[Tensor, ...]:
        """What every head carries on one of the two sides."""
        return head_values(model, ids, self.past(model))


def head_gradients(model: Model, tail: Tail, metric: str, copies: int = 1) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """z and dm/dz of every layer, each [row, position, head, head size]; m is each row's own metric. The rows are the
    clean prompts, so many times."""
    values: list[Tensor] = []

    def visit(layer: int, z: Tensor) -> Tensor:
        # Weights are frozen, so the graph begins at the first layer's heads.
        values.append(z if z.requires_grad else z.detach().requires_grad_())
        return values[-1]

    ids, again, past = tail.clean.repeat(copies, 1), tail.batch.repeated(copies), tail.past(model, copies)
    with model.frozen(), torch.enable_grad(), visit_heads(model, visit):
        logits = model.last_logits(ids, again.spots - tail.start, past, rows=again.rows)
        gradients = torch.autograd.grad(metric_named(metric)(logits, again).sum(), values)
    return [value.detach() for value in values], gradients


def by_batch(model: Model, examples: Sequence[Example], request: Request, forwards: int, score: BatchScore) -> Tensor:
    """Apply a score to batch after batch, and put the examples back into their order, [example, layer, head]."""
    scores = torch.zeros(len(examples), model.n_layers, model.n_heads, dtype=torch.float64)
    # A backward pass keeps every activation alive, so it gets half the tokens.
    for indices, batch in batches(examples, model.device, max(request.max_tokens // 2, 1)):
        scores[indices] = score(indices, batch).cpu().double()
        request.advance(forwards * len(batch))
    return scores


def applying(batch: Batch, positions: Positions) -> Tensor:
    """The real positions at which cuts apply, [row, position]."""
    return batch.real() if positions == "all" else answer_positions(batch, positions)


def sum_where(products: Iterable[Tensor], batch: Batch, request: Request, start: int = 0) -> Tensor:
    """Sum [pair, position, head] of each layer over the real positions at which cuts apply -> [pair, layer, head]. The
    products may begin at a later position."""
    where = applying(batch, request.positions)[:, start:].cpu()[..., None]
    return torch.stack([(product.cpu() * where).sum(1) for product in products], dim=1)


def first_order(lost: Iterable[Tensor], gradients: Iterable[Tensor], tail: Tail, request: Request) -> Tensor:
    """What the metric loses to first order with so much of each head, [pair, position, head, head size] a layer."""
    products = (torch.einsum("bphd,bphd->bph", z, gradient) for z, gradient in zip(lost, gradients, strict=True))
    return sum_where(products, tail.batch, request, tail.start)


def attribution(
    model: Model, examples: Sequence[Example], request: Request, rule: BackwardRule | None = None
) -> Tensor:
    def score(indices: list[int], batch: Batch) -> Tensor:
        tail = Tail.of(model, batch, request.filler.fill, request.positions)
        filling = request.filler.filling(model, indices, batch, tail.start, tail.prefix)
        values, gradients = head_gradients(model, tail, request.metric)
        lost = (z - filling.of(layer, z) for layer, z in enumerate(values))
        return first_order(lost, gradients, tail, request)

    with following(model, rule):
        return by_batch(model, examples, request, 3, score)


attribution_attnlrp = partial(attribution, rule="attnlrp")
attribution_relp = partial(attribution, rule="relp")
attribution_gim = partial(attribution, rule="gim")

Points = Callable[[Request, Sequence[Pair]], list[Share]]
"""Where gradients are taken, between corrupt (0) and clean (1); how many there are does not depend on the pairs."""


def evenly(request: Request, pairs: Sequence[Pair]) -> list[Share]:
    """S points, the corrupt end first."""
    return [step / request.steps for step in range(request.steps)]


def drawn(request: Request, pairs: Sequence[Pair]) -> list[Share]:
    """One point, each pair's own."""
    return [torch.tensor([drawn_share(pair, request.seed) for pair in pairs], dtype=torch.float64)]


def drawn_share(pair: Pair, seed: int) -> float:
    """From U(0, 1), by seed and tokens."""
    return random.Random(f"{seed} {pair.clean} {pair.corrupt}").random()


def _along_path(model: Model, pairs: Sequence[Pair], request: Request, points: Points) -> Tensor:
    fill, count, from_corrupt = request.filler.fill, len(points(request, ())), points is evenly
    if fill.kind != "counterfactual":
        raise HeadcountError(
            "This method walks from the counterfactual prompt to the clean one, so its fill is 'counterfactual';"
            f" this is {str(fill)!r}. Use 'attribution' for other fills."
        )

    def score(indices: list[int], batch: Batch) -> Tensor:
        tail = Tail.of(model, batch, fill, request.positions)
        clean, corrupt = tail.values(model, tail.clean), None
        shares = points(request, [pairs[index] for index in indices])
        at_once = max(request.max_tokens // 2 // tail.clean.numel(), 1)
        sums = [torch.zeros_like(z) for z in clean]
        for first in range(0, count, at_once):
            some = shares[first : first + at_once]
            with mix_inputs(model, tail.corrupt, tail.clean, some):
                values, gradients = head_gradients(model, tail, request.metric, len(some))
            sums = [a + b.unflatten(0, (len(some), -1)).sum(0) for a, b in zip(sums, gradients, strict=True)]
            if first == 0 and from_corrupt:
                corrupt = tuple(z[: len(batch)] for z in values)
        corrupt = tail.values(model, tail.corrupt) if corrupt is None else corrupt
        lost = (z - other for z, other in zip(clean, corrupt, strict=True))
        return first_order(lost, [gradient / count for gradient in sums], tail, request)

    return by_batch(model, pairs, request, 2 * count + (1 if from_corrupt else 2), score)


attribution_ig = partial(_along_path, points=evenly)
attribution_eg = partial(_along_path, points=drawn)


def gate_gradient_signed(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    def score(indices: list[int], batch: Batch) -> Tensor:
        tail = Tail.of(model, batch, Fill("zero"), request.positions)
        return first_order(*head_gradients(model, tail, request.metric), tail, request)

    return by_batch(model, examples, request, 2, score)


def gate_gradient(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    return gate_gradient_signed(model, examples, request).abs()
