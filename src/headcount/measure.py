"""The behaviour that is left under many cuts: pairs in, one value a cut, a metric and a pair out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .cuts import Fill, Filler, Positions, cut_heads
from .metrics import MEASURED, measure_all
from .models import Model
from .tasks.pairs import Batch, Pair, batches

MAX_TOKENS = 2048
"""Tokens in one forward pass. Fixed, not read off the machine, so that runs can be repeated bit for bit."""

Values = dict[str, NDArray[np.float64]]
"""Metric -> [cut, pair]."""

Advance = Callable[[int], None]
"""Told how many prompts have been run, for a progress bar."""


def silent(prompts: int) -> None:
    """No progress."""


@torch.no_grad()
def measure_cuts(
    model: Model,
    pairs: Sequence[Pair],
    keeps: Tensor,
    filler: Filler,
    *,
    positions: Positions = "all",
    max_tokens: int = MAX_TOKENS,
    advance: Advance = silent,
) -> Values:
    """Run the pairs under every cut.

    **Arguments:**

    - `keeps`: [cut, layer, head], True for heads that are left alone.
    - `filler`: what the removed heads carry, and which side of the pairs runs.

    Many cuts share a forward pass: the batch is repeated once for each. Positions that no cut can reach are run once.
    """
    values = {name: np.empty((len(keeps), len(pairs))) for name in MEASURED}
    keeps = keeps.to(model.device)
    for indices, _, batch in batches(pairs, model.device, max_tokens):
        where = None if positions == "all" else answer_positions(batch)
        start = first_reached(batch, filler.fill, where)
        filling = filler.filling(model, indices, batch).from_position(start)
        where = None if where is None else where[:, start:]
        run = _Run.of(model, batch.clean if filler.side == "clean" else batch.corrupt, batch.last, start)
        uncut = run.logits(1)
        at_once = max(max_tokens // run.ids.numel(), 1)
        for first in range(0, len(keeps), at_once):
            keep = keeps[first : first + at_once]
            copies = len(keep)
            with cut_heads(model, keep, filling, "all" if where is None else where):
                logits = run.logits(copies)
            measured = measure_all(logits, batch.repeated(copies), uncut.repeat(copies, 1))
            for name, value in measured.items():
                values[name][first : first + copies, indices] = value.view(copies, -1).cpu().double().numpy()
            advance(copies * len(batch))
    return values


@dataclass(frozen=True)
class _Run:
    """Prompts whose first positions have been read already, ready to run any number of times side by side."""

    model: Model
    ids: Tensor
    last: Tensor
    prefix: Any

    @classmethod
    def of(cls, model: Model, ids: Tensor, last: Tensor, start: int) -> "_Run":
        return cls(model, ids[:, start:], last - start, model.read_prefix(ids[:, :start]) if start else None)

    def logits(self, copies: int) -> Tensor:
        past = None if self.prefix is None else self.model.repeated_prefix(self.prefix, copies)
        return self.model.last_logits(self.ids.repeat(copies, 1), self.last.repeat(copies), past)


def answer_positions(batch: Batch) -> Tensor:
    """[pair, position], True at the last prompt token, which is where `last` and `generated` apply."""
    return torch.arange(batch.length, device=batch.last.device) == batch.last[:, None]


def first_reached(batch: Batch, fill: Fill, where: Tensor | None) -> int:
    """The first position at which any cut of these pairs can change anything.

    Before the first token in which the two prompts of a pair differ, every head carries the same in both runs, so a
    counterfactual fill changes nothing there, and what comes before never depends on what comes after.
    """
    reached = torch.ones_like(batch.clean, dtype=torch.bool) if where is None else where
    if fill.kind == "counterfactual":
        reached = reached & (batch.clean != batch.corrupt).int().cummax(1).values.bool()
    return int(reached.int().argmax(1).min())
