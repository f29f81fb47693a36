"""The third unit: attention edges (layer, head, query position, key position) of one prompt.

A head writes at position i the sum over j ≤ i of a_ij v_j. An attention edge is one term of that sum. Removed, it
carries the term of the counterfactual run, its mean, or nothing (`edit/attention_fills.py`), so that none kept is the
same as no head kept, and all kept the clean run.

Positions belong to a prompt, so an order of attention edges does too: every prompt has its own, and a mask is
(draw, k), the first k edges of each prompt in one of its orders.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from torch import Tensor

from ..core.saving import Floats
from ..edit.attention import visit_attention
from ..edit.attention_fills import AttentionFiller, FilledTerms
from ..models import Model
from ..models.gates import mixed
from ..tasks.batches import Batch, batches
from ..tasks.examples import Pair
from .meter import TOKENS_A_PASS, Advance, Values, silent
from .metrics import OF_PAIRS, SAID, Reference, measure_all

FIRST = 200
"""Edges of each prompt that are known by name."""
ScoreEdges = Callable[[list[int], Batch, FilledTerms], Tensor]
"""(places of the pairs, the pairs, what removed edges carry) -> [draw, pair, layer, head, query, key]."""


@dataclass(frozen=True)
class _Ready:
    """A batch with what removed edges carry in it, and the rank of every attention edge, once for each draw."""

    indices: list[int]
    batch: Batch
    fill: FilledTerms
    ranks: Tensor  # [draw, pair, layer, head, query, key]
    first: tuple[Tensor, Tensor]  # the first edges of the first draw by their places, and their scores, [pair, edge]
    uncut: Reference


@dataclass(eq=False, repr=False)
class AttentionEdgeMeter:
    """Pairs made ready to be measured with the first k attention edges of each kept; the orders of each prompt come
    from `score`, largest first, one order a draw.

    **Arguments:**

    - `fill`: what removed edges carry: `counterfactual`, `zero`, `mean` (at each query and key) or `mean-global`.
    - `reference`: the prompts that means are taken over.
    - `says`: also read the most probable next token, as `said` and `said_chance`.
    """

    model: Model
    pairs: Sequence[Pair]
    score: ScoreEdges
    _: KW_ONLY
    fill: str = "counterfactual"
    reference: Sequence[Pair] = ()
    says: bool = False
    advance: Advance = silent

    def __post_init__(self) -> None:
        self._metrics = (*OF_PAIRS, *(SAID if self.says else ()))
        self.filler = AttentionFiller.prepare(self.model, self.fill, self.pairs, self.reference, TOKENS_A_PASS // 2)
        self._ready = [self._readied(*some) for some in batches(self.pairs, self.model.device, TOKENS_A_PASS // 2)]

    def __len__(self) -> int:
        return len(self.pairs)

    def measure(self, masks: Sequence[tuple[int, int]]) -> Values:
        """Metric -> [mask, pair]; a mask is (draw, k)."""
        found = {name: np.empty((len(masks), len(self.pairs))) for name in self._metrics}
        for part in self._ready:
            for row, (draw, k) in enumerate(masks):
                for name, value in self._run(part, part.ranks[draw] < k).items():
                    found[name][row, part.indices] = value[0].cpu().double().numpy()
                self.advance(len(part.indices))
        return found

    def _readied(self, indices: list[int], batch: Batch) -> _Ready:
        fill = self.filler.terms(self.model, batch)
        scores = self.score(indices, batch, fill)
        flat = scores.masked_fill(~real_edges(batch), -torch.inf).flatten(2)
        places = flat.argsort(dim=-1, descending=True, stable=True)
        counted = torch.arange(places.shape[-1], dtype=torch.int32, device=places.device).expand_as(places)
        ranks = torch.empty_like(places, dtype=torch.int32).scatter_(-1, places, counted).view(scores.shape)
        some = places[0, :, :FIRST]
        with torch.no_grad():
            uncut = Reference.of(self.model.last_logits(batch.clean, batch.spots))
        return _Ready(indices, batch, fill, ranks, (some, flat[0].gather(-1, some)), uncut)

    def first_edges(self) -> dict[int, Floats]:
        """Pair by its number -> the first edges of its first order, [edge, 5]: layer, head, query, key, score."""
        found = {}
        for part in self._ready:
            shape = part.ranks.shape[2:]
            for index, places, scores in zip(part.indices, *(side.cpu().numpy() for side in part.first), strict=True):
                there = np.isfinite(scores)  # padding has no edges
                columns = (*np.unravel_index(places[there], shape), scores[there])
                found[index] = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
        return found

    @torch.no_grad()
    def _run(self, part: _Ready, keep: Tensor) -> dict[str, Tensor]:
        """Metric -> [1, pair]."""

        def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
            kept = keep[:, layer]
            return mixed(weights * kept, value) + part.fill.summed(layer, ~kept)

        with visit_attention(self.model, visit):
            logits = self.model.last_logits(part.batch.clean, part.batch.spots, rows=part.batch.rows)
        return measure_all(logits, part.batch, self._metrics, part.uncut)


def real_edges(batch: Batch) -> Tensor:
    """Where there is an attention edge, [pair, 1, 1, query, key]: to no later key, from no query behind the last."""
    at = torch.arange(batch.length, device=batch.clean.device)
    return ((at[None, :, None] >= at) & (at[:, None] <= batch.last[:, None, None]))[:, None, None]


def edge_count(model: Model, length: int) -> int:
    """Attention edges of a prompt."""
    return model.head_count * length * (length + 1) // 2
