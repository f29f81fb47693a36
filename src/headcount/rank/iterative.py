"""Attribution again and again: heads that look idle beside others may not be once those are gone, and the other way
round.

`attribution-iterative`: score, drop the least share of the heads by |score|, and score again with them removed, that is
at the circuit that is left:

    score(h) = sum over positions of (z - f) · dm/dz        at the clean prompt, dropped heads carrying the fill f

The order is that of dropping, heads of the last round first, and within a round by |score|; the sign is that of a
head's last score.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.words import Positions
from ..edit import cut_heads
from ..meters.heads import answer_positions
from ..models import Model
from ..tasks.batches import Batch
from ..tasks.examples import Example
from .gradients import by_batch, first_order, head_gradients
from .method import Request

ROUNDS = 10
DROPPED = 0.3
"""Share of the heads that are left, dropped in a round."""


def attribution_at(model: Model, examples: Sequence[Example], request: Request, keep: Tensor) -> Tensor:
    """Attribution with all heads but `keep` [layer, head] removed, [example, layer, head]; 0 for those removed."""

    def score(indices: list[int], batch: Batch) -> Tensor:
        filling = request.filler.filling(model, indices, batch)
        all_of_it = request.positions == "all"
        where: Tensor | Positions = "all" if all_of_it else answer_positions(batch, request.positions)
        with cut_heads(model, keep[None], filling, where):
            values, gradients = head_gradients(model, batch.clean, batch, request.metric)
        lost = (z - filling.of(layer, z) for layer, z in enumerate(values))
        return first_order(lost, gradients, batch, request)

    return by_batch(model, examples, request, 3, score) * keep


def attribution_iterative(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """[1, layer, head]: place in the order of dropping over the number of heads, with the sign of the last score."""
    keep = torch.ones(model.n_layers, model.n_heads, dtype=torch.bool)
    places, signs = torch.zeros(keep.numel(), dtype=torch.float64), torch.ones(keep.numel(), dtype=torch.float64)
    dropped = 0
    for number in range(ROUNDS):
        score = attribution_at(model, examples, request, keep).mean(0).flatten()
        left = keep.flatten().nonzero().flatten()
        least = left[score[left].abs().argsort(stable=True, descending=True)].flip(0)  # ties: the first stays longest
        if number < ROUNDS - 1:
            least = least[: max(int(DROPPED * len(left)), 1)]
        places[least] = torch.arange(dropped + 1, dropped + 1 + len(least), dtype=torch.float64)
        signs[left] = torch.where(score[left] < 0, -1.0, 1.0).double()
        dropped += len(least)
        keep.view(-1)[least] = False
        if not keep.any():
            break
    return (signs * places / keep.numel()).view(1, *keep.shape)
