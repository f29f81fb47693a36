"""Evaluate circuits: any set of edges kept, all others carrying the fill.

The run is on the clean prompts. With u_f what writer f writes in it, and v_f what fills an edge (what f writes in the
counterfactual run, its mean, or nothing), a reader b sees

    x_b = x_b,fill + sum over its kept writers f of (u_f - v_f)

then its own norm and its own rows of the projection; Hugging Face does the rest (rotary positions, QK norms, clipping,
windows, the attention itself, the MLP). What flows along the model's own stream does not matter.

A reader without a kept edge sees x_b,fill. Its value is that of the *base run*, in which every reader does: for
counterfactual fill the counterfactual run itself. A head or an MLP outside the circuit costs nothing.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ..core.words import Readers
from ..edit import first_reached
from ..edit.buffers import Buffers
from ..edit.edge_fills import BaseRun, EdgeFiller
from ..edit.soft_stream import soft_edges
from ..edit.stream import only_kept_edges
from ..models import Model
from ..models.changes import leaves_no_trace
from ..models.wiring import find_graph, find_wiring
from ..tasks.batches import batches
from ..tasks.examples import Pair
from .memory import Sizes, plan_circuits
from .meter import WHOLE, Advance, Part, Values, own_passes, silent
from .metrics import OF_PAIRS, SAID, Reference, batch_for, measure_all


@dataclass(eq=False)
class Room:
    """The same memory for all runs, of one meter or of several: fresh pages cost a CPU a tenth of a forward pass."""

    numbers: Tensor = field(default_factory=lambda: torch.empty(0))
    buffers: Buffers = field(default_factory=Buffers)
    """For runs with gradients."""

    def make(self, count: int, like: Tensor) -> None:
        """For so many tensors, at least."""
        if self.numbers.numel() < count * like.numel():
            self.numbers = like.new_empty(count * like.numel())


@dataclass(eq=False, repr=False)
class CircuitMeter:
    """Pairs made ready to be measured in any number of circuits.

    **Arguments:**

    - `fill`: what removed edges carry: `counterfactual`, `zero`, `mean` (at each position) or `mean-global`.
    - `reference`: the prompts that means are taken over.
    - `readers`: who reads keys and values, `kv-heads` or `query-heads`; or `components`, where a head is one reader.
    - `prune`: take dangling edges out of circuits first, those of nodes that the input does not reach or that do not
      reach the logits. With counterfactual fill that changes nothing, unless heads are normed together (OLMo 2).
    - `memory`: bytes that may be used beyond the model; `plan` says how much then runs at once.
    - `room`: memory to run in, where several meters share it.
    - `says`: also read the most probable next token, as `said` and `said_chance`.
    """

    model: Model
    pairs: Sequence[Pair]
    _: KW_ONLY
    fill: str = "counterfactual"
    reference: Sequence[Pair] = ()
    readers: Readers = "kv-heads"
    prune: bool = False
    memory: int | None = None
    advance: Advance = silent
    room: Room = field(default_factory=Room)
    says: bool = False

    def __post_init__(self) -> None:
        model, pairs = self.model, self.pairs
        self.graph = find_graph(model, self.readers)
        self.wiring = find_wiring(model, self.readers)
        self.sizes = Sizes.of_model(model, self.readers)
        self.plan = plan_circuits(self.sizes, pairs, self.memory, model.device)
        self.filler = EdgeFiller.prepare(model, self.wiring, self.fill, pairs, self.reference, self.plan.tokens)
        self._metrics = (*OF_PAIRS, *(SAID if self.says else ()))
        self._kept: list[tuple[list[int], BaseRun, Reference]] = []

    def __len__(self) -> int:
        return len(self.pairs)

    @leaves_no_trace
    @torch.no_grad()
    def measure(self, keeps: Tensor, part: Part = WHOLE) -> Values:
        """Metric -> [circuit, pair]; `keeps` is [circuit, writer, reader], True for edges in the circuit."""
        values = {name: np.full((len(keeps), len(self.pairs)), np.nan) for name in self._metrics}
        keeps, by_size = self._prepared(keeps)
        own = None if part == WHOLE else self._own_passes(len(keeps), part)
        turns = itertools.repeat(None) if own is None else (some for some in own if some)
        with self.wiring.readied():
            if self.plan.keeps_bases and not self._kept and own is None:
                self._kept = list(self._base_runs())
            runs = self._kept if own is None and self._kept else self._base_runs(own)
            for (indices, base, uncut), chosen in zip(runs, turns, strict=False):
                at_once = min(self._at_once(base.ids.numel(), len(indices)), len(keeps))
                self.room.make((1 + len(self.wiring.graph.writers)) * at_once, base.input_change)
                for turn, some in enumerate(by_size.split(at_once)):
                    if chosen is not None and turn not in chosen:
                        continue
                    for name, value in self._run(base, keeps[some], uncut).items():
                        values[name][np.ix_(some.numpy(), indices)] = value.cpu().double().numpy()
                    self.advance(len(some) * len(indices))
        return values

    def _at_once(self, tokens: int, prompts: int) -> int:
        return self.sizes.circuits_at_once(tokens, prompts, self.plan.budget)

    def _own_passes(self, circuits: int, part: Part) -> list[range]:
        passes = []
        for indices, batch in batches(self.pairs, self.model.device, self.plan.tokens):
            tokens = batch.clean[:, first_reached(batch, self.filler.fill, None) :].numel()
            passes.append(-(-circuits // min(self._at_once(tokens, len(indices)), circuits)))
        return own_passes(passes, part)

    def _prepared(self, keeps: Tensor) -> tuple[Tensor, Tensor]:
        """What is really kept, and in which order circuits are run."""
        graph = self.wiring.graph
        if self.graph.whole:  # each part of a whole edge is kept with it
            keeps = keeps[:, :, self.graph.whole_readers]
        alone = all(layer.heads_norm is None for layer in self.wiring.layers)  # no head changes what another writes
        if self.prune or (self.filler.is_counterfactual and alone):
            keeps = torch.from_numpy(np.stack([graph.pruned(keep) for keep in keeps.cpu().numpy()]))
        keeps = keeps & torch.from_numpy(graph.real)
        # Circuits of about one size run together.
        return keeps, keeps.flatten(1).sum(1).argsort(stable=True)

    def _run(self, base: BaseRun, keep: Tensor, uncut: Reference) -> dict[str, Tensor]:
        """Metric -> [circuit, pair]."""
        copies = len(keep)
        past = None if base.prefix is None else self.model.repeated_prefix(base.prefix, copies)
        with only_kept_edges(self.model, self.wiring, base, keep, self.room.numbers):
            logits = self.model.last_logits(base.ids.repeat(copies, 1), base.last.repeat(copies), past)
        return measure_all(logits, base.batch, self._metrics, uncut)

    @leaves_no_trace
    def graded(self, masks: Tensor, metric: str) -> Tensor:
        """One metric with edges kept in part, by `masks` [circuit, writer, reader] from 0 to 1, with gradients back to
        them, [circuit, pair]."""
        copies, parts, places = len(masks), list[Tensor](), list[int]()
        if self.graph.whole:
            masks = masks[:, :, self.graph.whole_readers]
        with self.wiring.readied():
            if not self._kept:
                with torch.no_grad():
                    self._kept = list(self._base_runs())
            for indices, base, uncut in self._kept:
                past = None if base.prefix is None else self.model.repeated_prefix(base.prefix, copies)
                ids, last, (tokens, aimed) = (
                    base.ids.repeat(copies, 1),
                    base.last.repeat(copies),
                    batch_for(metric, base.batch),
                )
                with soft_edges(self.model, self.wiring, base, masks, self.room.buffers):
                    logits = self.model.last_logits(ids, last, past, tokens)
                parts.append(measure_all(logits, aimed, (metric,), uncut if metric == "kl" else None)[metric])
                places += indices
        return torch.cat(parts, dim=1)[:, torch.tensor(places, device=masks.device).argsort()]

    def _base_runs(self, own: Sequence[range] | None = None) -> Iterator[tuple[list[int], BaseRun, Reference]]:
        """All of them, or those that a part has passes of."""
        for number, (indices, batch) in enumerate(batches(self.pairs, self.model.device, self.plan.tokens)):
            if own is not None and not own[number]:
                continue
            base = self.filler.base_run(self.model, self.wiring, batch)
            yield indices, replace(base, uncut=base.uncut[:0]), Reference.of(base.uncut)
