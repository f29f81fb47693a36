"""What an attention edge carries in the place of its own term a_ij v_j, where it is not kept.

    counterfactual   a'_ij v'_j, the term of the counterfactual run
    zero             nothing
    mean             the mean of a_ij v_j over the reference prompts that reach position i (counted from the start)
    mean-global      z̄ / (i + 1): an equal part, for each of the i + 1 edges, of what the head carries on average over
                     all positions of these prompts

So with none kept every head carries what it does with no head kept, whatever the fill. As with heads, a position that
no reference prompt reaches gets the mean over all positions.

Means take heads · T² · head size numbers a layer, T being the longest prompt.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..models import Model
from ..tasks.batches import Batch, batches
from ..tasks.examples import Example
from .attention import Terms
from .edge_fills import check_cut
from .fills import Fill


class FilledTerms(Protocol):
    """The terms of a batch: those of a run (`Terms`), none, or means."""

    def summed(self, layer: int, share: Tensor) -> Tensor:
        """Σ_j share_ij term_ij, [row, query, head, size]; `share` is [row, head, query, key]."""

    def along(self, layer: int, direction: Tensor) -> Tensor:
        """term_ij · direction_i, [row, head, query, key]; `direction` is [row, query, head, size]."""


class NoTerms:
    """Nothing, which broadcasts to any shape."""

    def summed(self, layer: int, share: Tensor) -> Tensor:
        return torch.zeros((), device=share.device)

    def along(self, layer: int, direction: Tensor) -> Tensor:
        return direction.new_zeros(())


@dataclass(frozen=True)
class MeanTerms:
    """The same for every row."""

    means: tuple[Tensor, ...]  # one a layer, [head, query, key, size]

    def summed(self, layer: int, share: Tensor) -> Tensor:
        return torch.einsum("rhqk,hqks->rqhs", share.to(self.means[layer]), self.means[layer])

    def along(self, layer: int, direction: Tensor) -> Tensor:
        return torch.einsum("rqhs,hqks->rhqk", direction, self.means[layer])


@dataclass(frozen=True)
class AttentionFiller:
    """Makes the terms of each batch."""

    fill: Fill
    means: tuple[Tensor, ...] = field(default=(), repr=False)

    @classmethod
    def prepare(
        cls, model: Model, fill: Fill | str, examples: Sequence[Example], reference: Sequence[Example], max_tokens: int
    ) -> "AttentionFiller":
        """`reference`: the prompts that means are taken over."""
        check_cut(fill, "all", "Attention edges")
        fill = Fill.parse(fill)
        if not fill.needs_reference:
            return cls(fill)
        if not reference:
            raise HeadcountError(f"The fill {str(fill)!r} is a mean over prompts, and no reference prompts were given.")
        longest = max(len(example.ids) for example in (*examples, *reference))
        return cls(fill, mean_terms(model, reference, longest, fill.kind == "mean", max_tokens))

    def terms(self, model: Model, batch: Batch) -> FilledTerms:
        if self.fill.kind == "counterfactual":
            return Terms.of(model, batch.corrupt)
        if not self.means:
            return NoTerms()
        return MeanTerms(tuple(mean[:, : batch.length, : batch.length] for mean in self.means))


def mean_bytes(model: Model, length: int) -> int:
    """What means of prompts of this length take while they are made: as sums in float64 beside the model's own type."""
    numbers = model.head_count * length**2 * model.anatomy.head_size
    return numbers * (torch.float64.itemsize + model.hf.dtype.itemsize)


def mean_terms(
    model: Model, examples: Sequence[Example], length: int, by_position: bool, max_tokens: int
) -> tuple[Tensor, ...]:
    """Mean of a_ij v_j over prompts, one tensor a layer, [head, query, key, size], as the head of this file has it."""
    sums: list[Tensor] = []
    count = torch.zeros(length, dtype=torch.float64)
    for _, batch in batches(examples, model.device, max_tokens):
        found, real, here = Terms.of(model, batch.clean), batch.real(), slice(batch.length)
        count[here] += real.sum(0).cpu()
        for layer, (weights, values) in enumerate(zip(found.weights, found.values, strict=True)):
            wide = torch.promote_types(values.dtype, torch.float32)
            own = values.repeat_interleave(model.n_heads // values.shape[1], dim=1).to(wide)
            total = torch.einsum("rhqk,rhks->hqks", (weights * real[:, None, :, None]).to(wide), own)
            if layer == len(sums):
                sums.append(torch.zeros(len(total), length, length, total.shape[-1], dtype=torch.float64))
            sums[layer][:, here, here] += total.cpu().double()
    edges = torch.ones(length, length, dtype=torch.float64).tril()
    shares = (edges / edges.sum(1, keepdim=True))[None, :, :, None]  # of each edge of a query, all alike
    reached = (count > 0)[:, None, None] & by_position

    def mean(total: Tensor) -> Tensor:
        over_all = total.sum((1, 2))[:, None, None] / count.sum()  # z̄
        return torch.where(reached, total / count.clamp(min=1)[:, None, None], over_all * shares)

    return tuple(mean(total).to(device=model.device, dtype=model.hf.dtype) for total in sums)
