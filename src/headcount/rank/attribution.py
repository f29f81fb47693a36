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

from collections.abc import Sequence

from torch import Tensor

from ..core.errors import HeadcountError
from ..edit import head_values, mix_inputs
from ..models import Model
from ..tasks.batches import Batch
from ..tasks.examples import Example, Pair
from .gradients import by_batch, first_order, head_gradients
from .method import Request


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
