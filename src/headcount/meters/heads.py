"""The behaviour that is left under many cuts: examples in, one value a cut, a metric and an example out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..core.words import Positions
from ..edit import Filler, Filling, cut_heads, first_reached
from ..models import Model
from ..tasks.batches import Batch, batches
from ..tasks.examples import Completion, Example
from .meter import KEPT_BYTES, TOKENS_A_PASS, Advance, Values, silent
from .metrics import Reference, measure_all, measured


class HeadMeter:
    """Examples made ready to be measured under any number of cuts.

    Many cuts share a forward pass: the batch is repeated once for each. Positions that no cut can reach are run once.
    Choices of several tokens are read one by one, and the most probable is the model's answer.

    **Arguments:**

    - `filler`: what the removed heads carry, and which side of the pairs runs.
    - `positions`: where the cuts apply.
    """

    def __init__(
        self, model: Model, examples: Sequence[Example], filler: Filler, *, positions: Positions = "all",
        max_tokens: int = TOKENS_A_PASS, advance: Advance = silent,
    ) -> None:  # fmt: skip
        self.model, self.examples, self.filler, self.positions = model, examples, filler, positions
        self.max_tokens, self.advance = max_tokens, advance
        self._choices = _long_choices(examples)
        self._read = [*examples, *(choice for choices in self._choices.values() for choice in choices)]
        self._ready: list[_ReadyBatch] | None = None
        value_bytes = model.head_count * model.anatomy.head_size * model.hf.dtype.itemsize
        self._may_keep = sum(len(example.ids) for example in self._read) * value_bytes <= KEPT_BYTES

    def __len__(self) -> int:
        return len(self.examples)

    @torch.no_grad()
    def measure(self, keeps: Tensor) -> Values:
        """Run the examples under every cut; `keeps` is [cut, layer, head], True for heads that are left alone, or gates
        from 0 to 1."""
        values = {name: np.empty((len(keeps), len(self._read))) for name in measured(self.examples)}
        keeps = keeps.to(self.model.device)
        for ready in self._batches():
            at_once = max(self.max_tokens // ready.ids.numel(), 1)
            for first in range(0, len(keeps), at_once):
                keep = keeps[first : first + at_once]
                for name, value in ready.measure(self.model, keep).items():
                    values[name][first : first + len(keep), ready.indices] = value.cpu().double().numpy()
                self.advance(len(keep) * len(ready.batch))
        return self._compare_choices(values)

    def _compare_choices(self, values: Values) -> Values:
        """Accuracy where choices were read one by one, whose own values are then of no more use."""
        first = len(self.examples)
        for index, choices in self._choices.items():
            rivals = values["log_prob"][:, first : first + len(choices)].max(1)
            values["accuracy"][:, index] = values["log_prob"][:, index] > rivals
            first += len(choices)
        return {name: value[:, : len(self.examples)] for name, value in values.items()}

    def _batches(self) -> Iterable["_ReadyBatch"]:
        if self._ready is not None:
            return self._ready
        made = (
            _ReadyBatch.of(self.model, indices, batch, self.filler, self.positions, measured(self.examples))
            for indices, batch in batches(self._read, self.model.device, self.max_tokens)
        )
        if self._may_keep:
            self._ready = list(made)
            return self._ready
        return made


@dataclass(frozen=True)
class _ReadyBatch:
    """A batch whose fill has been run, and whose first positions, up to where cuts can reach, have been read."""

    indices: list[int]
    batch: Batch
    ids: Tensor
    """Token ids behind the prefix."""
    spots: Tensor
    """Where answers are predicted, counted from there."""
    prefix: Any
    filling: Filling
    where: Tensor | Literal["all"]
    metrics: tuple[str, ...]
    uncut: Reference | None
    """The whole model's prediction, for KL."""

    @classmethod
    def of(
        cls, model: Model, indices: list[int], batch: Batch, filler: Filler, positions: Positions,
        metrics: tuple[str, ...],
    ) -> "_ReadyBatch":  # fmt: skip
        ids = batch.clean if filler.side == "clean" else batch.corrupt
        where = None if positions == "all" else answer_positions(batch, positions)
        start = first_reached(batch, filler.fill, where)
        prefix = model.read_prefix(ids[:, :start]) if start else None
        past = None if prefix is None else model.repeated_prefix(prefix, 1)
        uncut = None
        if "kl" in metrics:
            uncut = Reference.of(model.last_logits(ids[:, start:], batch.spots - start, past))
        return cls(
            indices, batch, ids[:, start:], batch.spots - start, prefix,
            filling=filler.filling(model, indices, batch).from_position(start),
            where="all" if where is None else where[:, start:], metrics=metrics, uncut=uncut,
        )  # fmt: skip

    def measure(self, model: Model, keep: Tensor) -> dict[str, Tensor]:
        """Metric -> [cut, example]."""
        copies = len(keep)
        past = None if self.prefix is None else model.repeated_prefix(self.prefix, copies)
        with cut_heads(model, keep, self.filling, self.where):
            rows = self.batch.repeated(copies).rows
            logits = model.last_logits(self.ids.repeat(copies, 1), self.spots.repeat(copies), past, rows=rows)
        return measure_all(logits, self.batch, self.metrics, self.uncut)


def answer_positions(batch: Batch, positions: Positions) -> Tensor:
    """[row, position], True where `last` or `generated` applies: at the last prompt token, or from it on."""
    at = torch.arange(batch.length, device=batch.last.device)
    return at == batch.last[:, None] if positions == "last" else (at >= batch.last[:, None]) & batch.real()


def _long_choices(examples: Sequence[Example]) -> dict[int, list[Completion]]:
    """The other choices, as completions of their own, of those examples that need them read."""
    return {
        index: [Completion(example.prompt, other) for other in example.others]
        for index, example in enumerate(examples)
        if isinstance(example, Completion) and example.has_long_choices
    }
