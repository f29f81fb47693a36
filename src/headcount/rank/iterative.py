"""Attribution again and again: units that look idle beside others may not be once those are gone, and the other way
round.

`attribution-iterative` (heads) and `eap-iterative` (edges): score, drop the least share of the units by |score|, and
score again with them removed, that is at the circuit that is left. Removed units carry the fill f:

    score(head) = sum over positions of (z - f) · dm/dz                 at the clean prompt
    score(edge) = dm/da        a: how much of (u - f), what the writer writes less the fill, the reader gets; 1 here

The order is that of dropping, units of the last round first, and within a round by |score|; the sign is that of a
unit's last score.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..edit import cut_heads
from ..models import Model
from ..tasks.batches import Batch
from ..tasks.examples import Example, Pair
from .fit import Trained
from .gradients import Tail, by_batch, first_order, head_gradients
from .learned import edge_examples
from .method import Request
from .training import Examples

ROUNDS = 10
HEADS_DROPPED, EDGES_DROPPED = 0.3, 0.5
"""Share of the units that are left, dropped in a round. A circuit of edges is a smaller part of all of them."""


def attribution_iterative(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """[1, layer, head]"""
    heads = torch.ones(model.n_layers, model.n_heads, dtype=torch.bool)
    return by_rounds(heads, HEADS_DROPPED, lambda keep: attribution_at(model, examples, request, keep).mean(0))[None]


def eap_iterative(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    """[writer, reader]"""
    ready = edge_examples(model, pairs, request, Trained())

    def score(keep: Tensor) -> Tensor:
        found = eap_at(model, ready, keep)
        request.advance(2 * len(pairs))
        return found

    return by_rounds(ready.real, EDGES_DROPPED, score)


def attribution_at(model: Model, examples: Sequence[Example], request: Request, keep: Tensor) -> Tensor:
    """Attribution with all heads but `keep` [layer, head] removed, [example, layer, head]; 0 for those removed."""

    def score(indices: list[int], batch: Batch) -> Tensor:
        tail = Tail.of(model, batch, request.filler.fill, request.positions)
        filling = request.filler.filling(model, indices, batch, tail.start, tail.prefix)
        with cut_heads(model, keep[None], filling, tail.where):
            values, gradients = head_gradients(model, tail, request.metric)
        lost = (z - filling.of(layer, z) for layer, z in enumerate(values))
        return first_order(lost, gradients, tail, request)

    return by_batch(model, examples, request, 3, score) * keep


def eap_at(model: Model, examples: Examples, keep: Tensor) -> Tensor:
    """The mean gradient of the metric at edges kept in part, in the circuit `keep`, [writer, reader]; 0 for those
    outside of it."""
    total, count = torch.zeros(keep.shape, dtype=torch.float64), sum(map(len, examples.batches))
    for meter in examples.meters:
        mask = keep.to(model.device, model.hf.dtype)[None].requires_grad_()
        with torch.enable_grad(), model.frozen():
            meter.graded(mask, examples.metric).sum().backward()
        assert mask.grad is not None
        total += mask.grad[0].cpu().double()
    return total * keep / count


def by_rounds(units: Tensor, share: float, score: Callable[[Tensor], Tensor]) -> Tensor:
    """Place in the order of dropping over the number of units, with the sign of the last score; of the units that there
    are, 0 elsewhere. `score` is that of every unit, with only some of them kept."""
    keep = units.clone()
    places, signs = torch.zeros(keep.numel(), dtype=torch.float64), torch.ones(keep.numel(), dtype=torch.float64)
    dropped = 0
    for number in range(ROUNDS):
        found = score(keep).flatten()
        left = keep.flatten().nonzero().flatten()
        least = left[found[left].abs().argsort(stable=True, descending=True)].flip(0)  # ties: the first stays longest
        if number < ROUNDS - 1:
            least = least[: max(int(share * len(left)), 1)]
        places[least] = torch.arange(dropped + 1, dropped + 1 + len(least), dtype=torch.float64)
        signs[left] = torch.where(found[left] < 0, -1.0, 1.0).double()
        dropped += len(least)
        keep.view(-1)[least] = False
        if not keep.any():
            break
    return (signs * places / units.sum()).view(units.shape)
