"""The third unit: attention edges (layer, head, query position, key position) of one prompt.

A head writes at position i the sum over j ≤ i of a_ij v_j. An attention edge is one term of that sum. Removed, it
carries the term of the counterfactual run, so that none kept is the same as no head kept, and all kept the clean run.

Positions belong to a prompt, so an order of attention edges does too: every prompt has its own, and a mask is
(draw, k), the first k edges of each prompt in one of its orders.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..edit.attention import Terms, visit_attention
from ..models import Model
from ..models.gates import mixed
from ..tasks.batches import Batch, batches
from ..tasks.examples import Pair
from .meter import TOKENS_A_PASS, Advance, Values, silent
from .metrics import Reference, measure_all, measured

ScoreEdges = Callable[[list[int], Batch, Terms], Tensor]
"""(places of the pairs, the pairs, their counterfactual run) -> [draw, pair, layer, head, query, key]."""


class AttentionEdgeMeter:
    """Pairs made ready to be measured with the first k attention edges of each kept.

    **Arguments:**

    - `score`: what the orders of each prompt come from, largest first; one order a draw.
    """

    def __init__(self, model: Model, pairs: Sequence[Pair], score: ScoreEdges, *, advance: Advance = silent) -> None:
        self.model, self.pairs, self.advance, self._metrics = model, pairs, advance, measured(pairs)
        self._ready = [
            _Ready.of(model, indices, batch, score)
            for indices, batch in batches(pairs, model.device, TOKENS_A_PASS // 2)
        ]

    def __len__(self) -> int:
        return len(self.pairs)

    def measure(self, masks: Sequence[tuple[int, int]]) -> Values:
        """Metric -> [mask, pair]; a mask is (draw, k)."""
        found = {name: np.empty((len(masks), len(self.pairs))) for name in self._metrics}
        for part in self._ready:
            for row, (draw, k) in enumerate(masks):
                for name, value in part.measure(self.model, draw, k, self._metrics).items():
                    found[name][row, part.indices] = value[0].cpu().double().numpy()
                self.advance(len(part.indices))
        return found


@dataclass(frozen=True)
class _Ready:
    """A batch with its counterfactual run and the rank of every attention edge, once for each draw."""

    indices: list[int]
    batch: Batch
    counterfactual: Terms
    ranks: Tensor
    """[draw, pair, layer, head, query, key]."""
    uncut: Reference

    @classmethod
    def of(cls, model: Model, indices: list[int], batch: Batch, score: ScoreEdges) -> "_Ready":
        counterfactual = Terms.of(model, batch.corrupt)
        scores = score(indices, batch, counterfactual)
        at = torch.arange(batch.length, device=model.device)
        real = (at[None, :, None] >= at) & (at[:, None] <= batch.last[:, None, None])  # [pair, query, key]
        flat = scores.masked_fill(~real[None, :, None, None], -torch.inf).flatten(2)
        places = flat.argsort(dim=-1, descending=True, stable=True)
        ranks = torch.empty_like(places, dtype=torch.int32)
        counted = torch.arange(places.shape[-1], dtype=torch.int32, device=places.device).expand_as(places)
        ranks.scatter_(-1, places, counted)
        with torch.no_grad():
            uncut = Reference.of(model.last_logits(batch.clean, batch.spots))
        return cls(indices, batch, counterfactual, ranks.view(scores.shape), uncut)

    @torch.no_grad()
    def measure(self, model: Model, draw: int, k: int, metrics: tuple[str, ...]) -> dict[str, Tensor]:
        """Metric -> [1, pair], with the first k of each prompt kept."""
        keep = self.ranks[draw] < k

        def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
            other_weights, other_value = self.counterfactual.weights[layer], self.counterfactual.values[layer]
            kept = keep[:, layer]
            return mixed(weights * kept, value) + mixed(other_weights * ~kept, other_value)

        with visit_attention(model, visit):
            logits = model.last_logits(self.batch.clean, self.batch.spots, rows=self.batch.rows)
        return measure_all(logits, self.batch, metrics, self.uncut)


def edge_count(model: Model, length: int) -> int:
    """Attention edges of a prompt."""
    return model.head_count * length * (length + 1) // 2
