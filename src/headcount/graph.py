"""The graph of the residual stream: who writes into it, who reads from it, and which writer comes before which reader.

Writers are the token embedding (`input`), every head (`a3.h5`) and every MLP (`m3`). Readers are the query, key and
value inputs of attention (`a3.h5<q>`), every MLP, and the final norm (`logits`). An edge (writer, reader) is real where
the writer comes first; in parallel blocks (GPT-NeoX, GPT-J) the heads of a layer do not feed its MLP.

Keys and values are read once for each KV head, which is what a model with grouped-query attention has.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Role = Literal["q", "k", "v"]
ROLES: tuple[Role, ...] = ("q", "k", "v")
Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """Writers are rows, readers columns, both in the order in which the model computes them."""

    n_layers: int
    n_heads: int
    n_kv_heads: int
    """Heads that read keys and values; fewer than `n_heads` with grouped-query attention."""
    parallel: bool = False

    def heads_of(self, role: Role) -> int:
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
        """For each layer all queries, all keys, all values, then the MLP; last the logits."""
        names = []
        for layer in range(self.n_layers):
            names += [f"a{layer}.h{head}<{role}>" for role in ROLES for head in range(self.heads_of(role))]
            names.append(f"m{layer}")
        return (*names, "logits")

    def writers_before(self, layer: int, mlp: bool = False) -> int:
        """How many writers come before the attention, or the MLP, of a layer."""
        before = 1 + layer * (self.n_heads + 1)
        return before + self.n_heads if mlp and not self.parallel else before

    @property
    def readers_a_layer(self) -> int:
        return self.n_heads + 2 * self.n_kv_heads + 1

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

    def edge_name(self, edge: Edge) -> str:
        return f"{self.writers[edge[0]]} -> {self.readers[edge[1]]}"
