"""Attribution patching: exact patching to first order, for all heads at once.

`attribution` (Nanda 2023; Syed et al. 2023, arXiv 2310.10348): with z the head's value and f what fills the hole,

    score(h) = sum over positions of (z - f) · dm/dz            at the clean prompt

`attribution-ig`: the gradient averaged over S inputs between the two prompts (the path of EAP-IG, Hanna et al. 2024,
arXiv 2403.17806). Only the token embeddings e are interpolated; the grid holds the corrupt end, not the clean one:

    e_k = e_corrupt + k/S · (e_clean - e_corrupt),  k = 0 … S-1
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..edit import Filling, mix_inputs
from ..models import Model
from ..tasks.batches import Batch
from ..tasks.examples import Example, Pair
from .gradients import by_batch, head_gradients, sum_where
from .method import Request


def attribution(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    def score(indices: list[int], batch: Batch) -> Tensor:
        filling = request.filler.filling(model, indices, batch)
        values, gradients = head_gradients(model, batch.clean, batch, request.metric)
        return _first_order(values, filling, gradients, batch, request)

    return by_batch(model, examples, request, 3, score)


def attribution_ig(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    if request.filler.fill.kind != "counterfactual":
        raise HeadcountError(
            f"attribution-ig walks from the counterfactual prompt to the clean one, so its fill is 'counterfactual';"
            f" this is {str(request.filler.fill)!r}. Use 'attribution' for other fills."
        )

    def score(indices: list[int], batch: Batch) -> Tensor:
        filling = request.filler.filling(model, indices, batch)
        sums: list[Tensor] = []
        for step in range(request.steps):
            with mix_inputs(model, batch.corrupt, batch.clean, [step / request.steps]):
                _, gradients = head_gradients(model, batch.clean, batch, request.metric)
            sums = [a + b for a, b in zip(sums, gradients, strict=True)] if sums else list(gradients)
        clean = request.filler.opposite().filling(model, indices, batch).values
        assert clean is not None
        return _first_order(clean, filling, [g / request.steps for g in sums], batch, request)

    return by_batch(model, pairs, request, 2 + 2 * request.steps, score)


def _first_order(
    values: Sequence[Tensor], filling: Filling, gradients: Sequence[Tensor], batch: Batch, request: Request
) -> Tensor:
    products = [
        torch.einsum("bphd,bphd->bph", z - filling.of(layer, z), gradient)
        for layer, (z, gradient) in enumerate(zip(values, gradients, strict=True))
    ]
    return sum_where(products, batch, request)
