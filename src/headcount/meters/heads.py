"""The behaviour that is left under many cuts: examples in, one value per cut, a metric and an example out."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..core.words import Positions
from ..edit import Branches, Filler, Filling, cut_heads, first_reached
from ..models import Model
from ..models.changes import leaves_no_trace
from ..tasks.batches import Batch, batches
from ..tasks.examples import Completion, Example
from .meter import KEPT_BYTES, TOKENS_A_PASS, WHOLE, Advance, Part, Values, own_passes, silent
from .metrics import SAID, Reference, measure_all, measured


@dataclass(frozen=True)
class _Ready:
    """A batch whose fill has been run, and whose first positions, up to where cuts can reach, have been read."""

    indices: list[int]
    batch: Batch
    ids: Tensor  # behind the prefix
    spots: Tensor  # where answers are predicted, counted from there
    prefix: Any
    filling: Filling
    where: Tensor | Literal["all"]
    whole: Tensor | None  # the whole model's logits, where KL is measured
    uncut: Reference | None  # its prediction, against which


@dataclass(eq=False, repr=False)
class HeadMeter:
    """Examples made ready to be measured under any number of cuts.

    Many cuts share a forward pass: the batch is repeated once for each. Positions that no cut can reach are run once.
    Choices of several tokens are read one by one, and the most probable is the model's answer.

    **Arguments:**

    - `filler`: what the removed heads carry, and which side of the pairs runs.
    - `positions`: where the cuts apply.
    - `says`: also read the most probable next token, as `said` and `said_chance`.
    """

    model: Model
    examples: Sequence[Example]
    filler: Filler
    _: KW_ONLY
    positions: Positions = "all"
    max_tokens: int = TOKENS_A_PASS
    says: bool = False
    advance: Advance = silent

    def __post_init__(self) -> None:
        self._metrics = (*measured(self.examples), *(SAID if self.says else ()))
        # The other choices, as completions of their own, of those examples that need them read.
        self._choices = {
            index: [Completion(example.prompt, other) for other in example.others]
            for index, example in enumerate(self.examples)
            if isinstance(example, Completion) and example.has_long_choices
        }
        self._read = [*self.examples, *itertools.chain(*self._choices.values())]
        self._kept: list[_Ready] = []
        value_bytes = self.model.head_count * self.model.anatomy.head_size * self.model.hf.dtype.itemsize
        self._may_keep = sum(len(example.ids) for example in self._read) * value_bytes <= KEPT_BYTES

    def __len__(self) -> int:
        return len(self.examples)

    @leaves_no_trace
    @torch.no_grad()
    def measure(self, keeps: Tensor, part: Part = WHOLE) -> Values:
        """Run the examples under every cut; `keeps` is [cut, layer, head], True for heads that are left alone, or gates
        from 0 to 1."""
        values = {name: np.full((len(keeps), len(self._read)), np.nan) for name in self._metrics}
        keeps = keeps.to(self.model.device)
        own = None if part == WHOLE else self._own_passes(len(keeps), part)
        if self._may_keep and not self._kept and own is None:
            self._kept = list(self._batches())
        turns = itertools.repeat(None) if own is None else (some for some in own if some)
        for ready, some in zip(self._kept if own is None and self._kept else self._batches(own), turns, strict=False):
            at_once = max(self.max_tokens // ready.ids.numel(), 1)
            for turn in range(-(-len(keeps) // at_once)) if some is None else some:
                first = turn * at_once
                keep = keeps[first : first + at_once]
                for name, value in self._run(ready, keep, self._metrics).items():
                    values[name][first : first + len(keep), ready.indices] = value.cpu().double().numpy()
                self.advance(len(keep) * len(ready.batch))
        return self._compare_choices(values)

    def _own_passes(self, cuts: int, part: Part) -> list[range]:
        """Choices of one example may be in several batches; they are compared where all are."""
        passes = []
        for _, batch in batches(self._read, self.model.device, self.max_tokens):
            tokens = batch.clean[:, self._start(batch)[1] :].numel()
            passes.append(-(-cuts // max(self.max_tokens // tokens, 1)))
        if self._choices:
            return [range(count if part[0] == 0 else 0) for count in passes]
        return own_passes(passes, part)

    @leaves_no_trace
    def graded(self, gates: Tensor, metric: str) -> Tensor:
        """One metric under gates [cut, layer, head] from 0 to 1, with gradients back to them, [cut, example]."""
        if not self._kept:
            with torch.no_grad():
                self._kept = list(self._batches())
        parts = [self._run(ready, gates, (metric,))[metric] for ready in self._kept]
        places = torch.tensor([index for ready in self._kept for index in ready.indices], device=gates.device)
        return torch.cat(parts, dim=1)[:, places.argsort()]

    def _run(self, ready: _Ready, keep: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        """Metric -> [cut, example]. Of cuts that remove nothing, what is known already is taken."""
        nothing = (keep == 1).flatten(1).all(1)
        if ready.whole is None or torch.is_grad_enabled() or not nothing.any():
            logits = self._logits(ready, keep)
        else:
            logits = ready.whole.repeat(len(keep), 1, 1)
            if not nothing.all():
                logits[~nothing] = self._logits(ready, keep[~nothing]).unflatten(0, (-1, len(ready.whole)))
            logits = logits.flatten(0, 1)
        return measure_all(logits, ready.batch, names, ready.uncut if "kl" in names else None)

    def _logits(self, ready: _Ready, keep: Tensor) -> Tensor:
        """At the spots of the batch, cut by cut."""
        copies = len(keep)
        past = None if ready.prefix is None else self.model.repeated_prefix(ready.prefix, copies)
        rows, ids, spots = ready.batch.repeated(copies).rows, ready.ids.repeat(copies, 1), ready.spots.repeat(copies)
        branches = None if torch.is_grad_enabled() else Branches(keep)
        with cut_heads(self.model, keep, ready.filling, ready.where, branches):
            return self.model.last_logits(ids, spots, past, rows=rows)

    def _compare_choices(self, values: Values) -> Values:
        """Accuracy where choices were read one by one, whose own values are then of no more use."""
        first = len(self.examples)
        for index, choices in self._choices.items():
            rivals = values["log_prob"][:, first : first + len(choices)].max(1)
            own = values["log_prob"][:, index]
            values["accuracy"][:, index] = np.where(np.isnan(own), np.nan, own > rivals)  # not a number in other parts
            first += len(choices)
        return {name: value[:, : len(self.examples)] for name, value in values.items()}

    def _start(self, batch: Batch) -> tuple[Tensor | None, int]:
        """Where cuts apply, None for everywhere, and the first position that they reach."""
        where = None if self.positions == "all" else answer_positions(batch, self.positions)
        return where, first_reached(batch, self.filler.fill, where)

    def _batches(self, own: Sequence[range] | None = None) -> Iterator[_Ready]:
        """All of them, or those that a part has passes of."""
        model, filler = self.model, self.filler
        for number, (indices, batch) in enumerate(batches(self._read, model.device, self.max_tokens)):
            if own is not None and not own[number]:
                continue
            ids = batch.clean if filler.side == "clean" else batch.corrupt
            where, start = self._start(batch)
            prefix = model.read_prefix(ids[:, :start]) if start else None
            ids, spots, whole = ids[:, start:], batch.spots - start, None
            if "kl" in self._metrics:
                past = None if prefix is None else model.repeated_prefix(prefix, 1)
                whole = model.last_logits(ids, spots, past)
            filling = filler.filling(model, indices, batch, start, prefix)
            reached: Tensor | Literal["all"] = "all" if where is None else where[:, start:]
            uncut = None if whole is None else Reference.of(whole)
            yield _Ready(indices, batch, ids, spots, prefix, filling, reached, whole, uncut)


def answer_positions(batch: Batch, positions: Positions) -> Tensor:
    """[row, position], True where `last` or `generated` applies: at the last prompt token, or from it on."""
    at = torch.arange(batch.length, device=batch.last.device)
    return at == batch.last[:, None] if positions == "last" else (at >= batch.last[:, None]) & batch.real()
