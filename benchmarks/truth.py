"""Which heads and edges a behaviour truly needs, where that is known.

**Compiled programs**, from their weights. Directions of the residual stream have a meaning each, so it can be followed
backwards which of them the answer depends on:

- the logits ask for the directions in which the unembeddings of right and wrong answer differ, at the answer position;
- an MLP unit is asked for if it writes a direction that is asked for, and asks for the directions that it reads;
- so is a dimension of a head's value. The head's queries and keys are then asked for as well, in the dimensions in
  which neither is always 0. Keys and values are asked for at every position, queries and MLPs where what they write is.

An edge (f, b) is true for a task if what f writes differs between the two prompts of a pair, at a position and in a
direction that b is asked for: W_b Δu_f ≠ 0, with W_b the rows of b that are asked for. A head is true if one of its
edges is. What has an effect when it is patched is true by this rule. The opposite need not hold (a change can meet a
ReLU that is shut, or a key that no one looks for), so the tests hold the rule to exact patching.

**The planted model**, by exact patching of every head and edge in double precision, on all its pairs: true is what has
at least a hundredth of the effect of the whole model, in size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import headcount as hc
from headcount.edit.trace import traced
from headcount.meters import CircuitMeter
from headcount.models.anatomy import out_first
from headcount.models.graph import Graph
from headcount.models.wiring import Projection, find_wiring
from headcount.tasks.batches import collate

Truth = NDArray[np.bool_]
NOTHING = 1e-6  # of what a reader reads; rounding in double precision is far below, what programs write far above
PLANTED_SHARE = 0.01


@dataclass(frozen=True)
class Known:
    """What is true."""

    heads: Truth  # [layer, head]
    edges: Truth  # [writer, reader]


def by_patching(model: hc.Model, task: hc.Task, share: float = PLANTED_SHARE) -> Known:
    """What has at least some share of the effect of the whole model, on all pairs of the task."""
    pairs = (*task.train, *task.test)
    everything = replace(task, train=pairs)
    every = torch.from_numpy(find_wiring(model).graph.real)
    whole, none = CircuitMeter(model, pairs).measure(torch.stack([every, every & False]))[task.metric].mean(1)
    heads, edges = (hc.score(model, everything, method).values for method in ("patching", "edge-patching"))
    return Known(*(np.abs(values) >= share * abs(whole - none) for values in (heads, edges)))


def of_program(model: hc.Model, task: hc.Task) -> Known:
    """By the rule above; the model is a compiled program in double precision."""
    edges = _Backwards(model, (*task.train, *task.test)).edges
    return Known(writing_heads(find_wiring(model).graph, edges), edges)


def writing_heads(graph: Graph, edges: Truth) -> Truth:
    """Heads that write one of the edges, [layer, head]."""
    return np.asarray(edges.any(1)[1:].reshape(graph.n_layers, -1)[:, : graph.n_heads])


class _Backwards:
    """Marks the true edges, reader by reader, from the logits to the first layer. `last` and `every` are the directions
    that are asked for at the answer position and at every position, by what comes later."""

    @torch.no_grad()
    def __init__(self, model: hc.Model, pairs: Sequence[hc.Pair]) -> None:
        self.model, self.wiring = model, find_wiring(model)
        self.graph = self.wiring.graph
        self.edges = np.zeros(self.graph.real.shape, dtype=bool)
        batch = collate(pairs, model.device)
        written = []
        for ids in (batch.clean, batch.corrupt):
            with traced(model, self.wiring) as trace:
                model.run(ids)
            full = trace.written(self.wiring).expanded(model, self.wiring).view(-1, *ids.shape, self.wiring.width)
            written.append(full * batch.real()[..., None])
        self.change, self.most = written[0] - written[1], torch.maximum(*(part.abs() for part in written))
        self.answer = torch.arange(len(pairs)), batch.last
        unembedding = out_first(model.unembedding)
        right, wrong = (unembedding[tokens[:, 0]] for tokens in (batch.answers, batch.wrongs))
        self._read("logits", right - wrong, everywhere=False)
        self.last = (right - wrong).any(0)
        self.every = torch.zeros_like(self.last)
        for layer in reversed(range(self.graph.n_layers)):
            self._mlp(layer)
            self._attention(layer)

    def _mlp(self, layer: int) -> None:
        wires = self.wiring.layers[layer]
        reads, writes = out_first(wires.mlp_in), out_first(wires.mlp_out)  # [unit, d], [d, unit]
        last, every = (reads[writes[asked].any(0)] for asked in (self.last, self.every))
        self._read(f"m{layer}", last, everywhere=False)
        self._read(f"m{layer}", every, everywhere=True)
        self.last, self.every = self.last | last.any(0), self.every | every.any(0)

    def _attention(self, layer: int) -> None:
        projections = self.wiring.layers[layer].projections
        last, every = self.last, self.every
        for head, writes in enumerate(self.model.anatomy.out_weight(layer)):  # [dimension, d]
            at_last, at_every = (writes[:, asked].any(1) for asked in (last, every))
            if not (at_last | at_every).any():
                continue
            live = _live(projections["q"], head) & _live(projections["k"], head)
            queries, keys = (projections[role].weight()[head][live] for role in ("q", "k"))
            values = projections["v"].weight()[head][at_last | at_every]
            name, everywhere = f"a{layer}.h{head}", bool(at_every.any())
            self._read(f"{name}<q>", queries, everywhere)
            self._read(f"{name}<k>", keys, everywhere=True)
            self._read(f"{name}<v>", values, everywhere=True)
            self.last = self.last | queries.any(0)
            self.every = self.every | keys.any(0) | values.any(0) | (queries.any(0) & everywhere)

    def _read(self, reader: str, rows: Tensor, everywhere: bool) -> None:
        """Mark the writers of whose change one of the rows sees something. Logits have a row a pair."""
        if not len(rows):
            return
        change, most = self.change, self.most
        if not everywhere:
            change, most = change[:, *self.answer], most[:, *self.answer]
        if reader == "logits":
            seen, usual = (change * rows).sum(-1), (most * rows.abs()).sum(-1)
        else:
            seen, usual = change @ rows.T, most @ rows.abs().T
        place = self.graph.readers.index(reader)
        found = (seen.abs() > NOTHING * usual.max()).flatten(1).any(1).numpy()
        self.edges[:, place] |= found & self.graph.real[:, place]


def _live(projection: Projection, head: int) -> Tensor:
    """Dimensions of a query or key that are not always 0."""
    bias = projection.bias()
    weight = projection.weight()[head].any(1)
    return weight if bias is None else weight | (bias[head] != 0)
