"""The graph of the residual stream: who writes into it, who reads from it, and which writer comes before which reader.

Writers are the token embedding (`input`), every head (`a3.h5`) and every MLP (`m3`). Readers are the query, key and
value inputs of attention (`a3.h5<q>`), every MLP, and the final norm (`logits`). An edge (writer, reader) is real where
the writer comes first; in parallel blocks (GPT-NeoX, GPT-J) the heads of a layer do not feed its MLP.

Keys and values are read once for each KV head, which is what a model with grouped-query attention has; or once for
each query head, as if every one had keys and values of its own, which is how MIB and EAP-IG count.

Or an edge is counted whole, from component to component: a head is one reader (`a3.h5`), whose query, key and value see
the same sum. Grouped keys and values are then computed once for each query head, as each may see another sum. Whole
edges are run as the edges of `split`, in which a head's three inputs are readers again.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Input = Literal["q", "k", "v"]  # what a head reads
INPUTS: tuple[Input, ...] = ("q", "k", "v")
Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """Writers are rows, readers columns, both in the order in which the model computes them."""

    n_layers: int
    n_heads: int
    n_kv_heads: int
    """Heads that read keys and values; fewer than `n_heads` with grouped-query attention, unless query heads read."""
    parallel: bool = False
    whole: bool = False
    """Whether a head is one reader, and not one for each of its inputs; then `n_kv_heads` is `n_heads`."""

    def heads_of(self, role: Input) -> int:
        return self.n_heads if role == "q" else self.n_kv_heads

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """`input`, then for each layer its heads and its MLP."""
        names = ["input"]
        for layer in range(self.n_layers):
            names += [*(f"a{layer}.h{head}" for head in range(self.n_heads)), f"m{layer}"]
        return tuple(names)

    @cached_property
    def readers(self) -> tuple[str, ...]:
        """For each layer all queries, all keys, all values (or all heads), then the MLP; last the logits."""
        names = []
        for layer in range(self.n_layers):
            split = [f"a{layer}.h{head}<{role}>" for role in INPUTS for head in range(self.heads_of(role))]
            names += [f"a{layer}.h{head}" for head in range(self.n_heads)] if self.whole else split
            names.append(f"m{layer}")
        return (*names, "logits")

    def writers_before(self, layer: int, mlp: bool = False) -> int:
        """How many writers come before the attention, or the MLP, of a layer."""
        before = 1 + layer * (self.n_heads + 1)
        return before + self.n_heads if mlp and not self.parallel else before

    @property
    def readers_a_layer(self) -> int:
        return self.n_heads + (0 if self.whole else 2 * self.n_kv_heads) + 1

    @cached_property
    def real(self) -> NDArray[np.bool_]:
        """[writer, reader], True for edges that exist."""
        mask = np.zeros((len(self.writers), len(self.readers)), dtype=bool)
        for layer in range(self.n_layers):
            start, end = layer * self.readers_a_layer, (layer + 1) * self.readers_a_layer
            mask[: self.writers_before(layer), start : end - 1] = True
            mask[: self.writers_before(layer, mlp=True), end - 1] = True
        mask[:, -1] = True
        return mask

    @property
    def n_edges(self) -> int:
        return int(self.real.sum())

    def reader_of(self, layer: int, role: Input | None) -> int:
        """The first reader of a role in a layer; the MLP where there is no role; the logits behind the last layer. A
        whole head reads in the place of its query."""
        before = {"q": 0, "k": self.n_heads, "v": self.n_heads + self.n_kv_heads, None: self.readers_a_layer - 1}
        return layer * self.readers_a_layer + (before[role] if layer < self.n_layers else 0)

    def pruned(self, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A circuit without dangling edges, of nodes that the input does not reach or that do not reach the logits."""
        feeds, fed = self._nodes_of_readers
        keep = keep & self.real
        while True:
            has_input, used = np.zeros(len(self.writers), dtype=bool), np.zeros(len(self.readers), dtype=bool)
            has_input[fed[np.asarray(keep.any(0))[feeds]]] = True
            has_input[0] = True  # the embedding needs no input
            # A grouped key or value serves several heads: it has an output if one of them has.
            used[feeds[np.asarray(keep.any(1))[fed]]] = True
            used[-1] = True
            left = keep & has_input[:, None] & used
            if left.sum() == keep.sum():
                return left
            keep = left

    @cached_property
    def _nodes_of_readers(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """(reader, writer) for every reader that belongs to a writer's node: a head's q, k and v, an MLP's input."""
        found = []
        for layer in range(self.n_layers):
            first = self.writers_before(layer)
            for role in INPUTS[:1] if self.whole else INPUTS:
                group = self.n_heads // self.heads_of(role)
                found += [(self.reader_of(layer, role) + head // group, first + head) for head in range(self.n_heads)]
            found.append((self.reader_of(layer, None), first + self.n_heads))
        readers, writers = zip(*found, strict=True)
        return np.array(readers), np.array(writers)

    @cached_property
    def split(self) -> "Graph":
        """The graph that is run: this one, or of whole edges the one in which every query head reads three times."""
        return replace(self, whole=False) if self.whole else self

    @cached_property
    def whole_readers(self) -> NDArray[np.intp]:
        """For each reader of `split` the reader here that it is a part of."""
        *heads, mlp = range(self.readers_a_layer)
        own = np.array([*heads * (len(INPUTS) if self.whole else 1), mlp])
        layers = np.arange(self.n_layers)[:, None] * self.readers_a_layer
        return np.append(layers + own, len(self.readers) - 1)

    def summed_to_whole(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """First-order scores of the edges of `split`, [writer, reader], as those of the edges here: the sum over the
        parts of each."""
        if not self.whole:
            return scores
        found = np.zeros(self.real.shape)
        np.add.at(found.T, self.whole_readers, scores.T)
        return found

    def edge_name(self, edge: Edge) -> str:
        return f"{self.writers[edge[0]]} -> {self.readers[edge[1]]}"
