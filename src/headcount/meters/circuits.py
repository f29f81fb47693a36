"""Evaluate circuits: any set of edges kept, all others carrying the fill.

The run is on the clean prompts. With u_f what writer f writes in it, and v_f what fills an edge (what f writes in the
counterfactual run, its mean, or nothing), a reader b sees

    x_b = x_b,fill + sum over its kept writers f of (u_f - v_f)

then its own norm and its own rows of the projection; Hugging Face does the rest (rotary positions, QK norms, clipping,
windows, the attention itself, the MLP). What flows along the model's own stream does not matter.

A reader without a kept edge sees x_b,fill. Its value is that of the *base run*, in which every reader does: for
counterfactual fill the counterfactual run itself. A head or an MLP outside the circuit costs nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ..core.words import Readers
from ..edit.edge_fills import BaseRun, EdgeFiller
from ..edit.soft_stream import soft_edges
from ..edit.stream import only_kept_edges
from ..models import Model
from ..models.changes import leaves_no_trace
from ..models.wiring import find_graph, find_wiring
from ..tasks.batches import batches
from ..tasks.examples import Pair
from .memory import Sizes, plan_circuits
from .meter import Advance, Values, silent
from .metrics import OF_PAIRS, SAID, Reference, measure_all


@dataclass(eq=False)
class Room:
    """The same memory for all runs, of one meter or of several: fresh pages cost a CPU a tenth of a forward pass."""

    numbers: Tensor = field(default_factory=lambda: torch.empty(0))

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
    def measure(self, keeps: Tensor) -> Values:
        """Metric -> [circuit, pair]; `keeps` is [circuit, writer, reader], True for edges in the circuit."""
        values = {name: np.empty((len(keeps), len(self.pairs))) for name in self._metrics}
        graph = self.wiring.graph
        if self.graph.whole:  # each part of a whole edge is kept with it
            keeps = keeps[:, :, self.graph.whole_readers]
        alone = all(layer.heads_norm is None for layer in self.wiring.layers)  # no head changes what another writes
        if self.prune or (self.filler.is_counterfactual and alone):
            keeps = torch.from_numpy(np.stack([graph.pruned(keep) for keep in keeps.cpu().numpy()]))
        keeps = keeps & torch.from_numpy(graph.real)
        # Circuits of about one size run together.
        by_size = keeps.flatten(1).sum(1).argsort(stable=True)
        with self.wiring.readied():
            if self.plan.keeps_bases and not self._kept:
                self._kept = list(self._base_runs())
            for indices, base, uncut in self._kept or self._base_runs():
                fitting = self.sizes.circuits_at_once(base.ids.numel(), len(indices), self.plan.budget)
                at_once = min(fitting, len(keeps))
                self.room.make((1 + len(graph.writers)) * at_once, base.input_change)
                for some in by_size.split(at_once):
                    for name, value in self._run(base, keeps[some], uncut).items():
                        values[name][np.ix_(some.numpy(), indices)] = value.cpu().double().numpy()
                    self.advance(len(some) * len(indices))
        return values

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
                with soft_edges(self.model, self.wiring, base, masks):
                    logits = self.model.last_logits(base.ids.repeat(copies, 1), base.last.repeat(copies), past)
                parts.append(measure_all(logits, base.batch, (metric,), uncut if metric == "kl" else None)[metric])
                places += indices
        return torch.cat(parts, dim=1)[:, torch.tensor(places, device=masks.device).argsort()]

    def _base_runs(self) -> Iterator[tuple[list[int], BaseRun, Reference]]:
        for indices, batch in batches(self.pairs, self.model.device, self.plan.tokens):
            base = self.filler.base_run(self.model, self.wiring, batch)
            yield indices, replace(base, uncut=base.uncut[:0]), Reference.of(base.uncut)
