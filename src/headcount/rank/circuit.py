"""A circuit: a set of edges with their scores."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.errors import HeadcountError
from ..core.exports import EXPORTS, NAMES
from ..core.shown import Shown
from ..models.graph import Graph


class Edge(NamedTuple):
    """An edge by the names of its ends; a head's readers are told apart by their role."""

    writer: str
    node: str
    role: str  # q, k or v; empty for MLPs, the logits, and heads that read whole edges
    score: float


@dataclass(frozen=True, eq=False)
class Circuit(Shown):
    """A set of edges with their scores, both [writer, reader]; the scores are of all edges."""

    model: str
    task: str
    graph: Graph
    width: int  # of the residual stream
    keep: NDArray[np.bool_] = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)

    def __len__(self) -> int:
        return int(self.keep.sum())

    @property
    def nodes(self) -> tuple[str, ...]:
        """The input, heads, MLPs and logits that an edge of the circuit touches, in the model's order; heads by their
        readers, so that with grouped-query attention those of keys and values are KV heads."""
        touched = {name for edge in self.edges() for name in (edge.writer, edge.node)}
        return tuple(name for name in (*self.graph.writers, "logits") if name in touched)

    def edges(self) -> Iterator[Edge]:
        for writer, reader in np.argwhere(self.keep):
            node, _, role = self.graph.readers[reader].partition("<")
            yield Edge(self.graph.writers[writer], node, role.rstrip(">"), float(self.scores[writer, reader]))

    def pruned(self) -> "Circuit":
        """Without dangling edges."""
        return replace(self, keep=self.graph.pruned(self.keep))

    def by_query_head(self) -> "Circuit":
        """Keys and values read once for each query head, as MIB counts: each of the heads that share a KV head gets its
        edges, and an equal part of their scores."""
        graph = self.graph
        if graph.n_kv_heads == graph.n_heads:
            return self
        group = graph.n_heads // graph.n_kv_heads
        copies = np.array(([1] * graph.n_heads + [group] * 2 * graph.n_kv_heads + [1]) * graph.n_layers + [1])
        keep, scores = np.repeat(self.keep, copies, axis=1), np.repeat(self.scores * (1 / copies), copies, axis=1)
        return replace(self, graph=replace(graph, n_kv_heads=graph.n_heads), keep=keep, scores=scores)

    def split(self) -> "Circuit":
        """Readers as MIB counts them: of grouped keys and values `by_query_head`; each part of a whole edge is kept
        with it, and gets an equal part of its score."""
        graph = self.graph
        if not graph.whole:
            return self.by_query_head()
        owners = graph.whole_readers
        scores = (self.scores / np.bincount(owners))[:, owners]
        return replace(self, graph=graph.split, keep=self.keep[:, owners], scores=scores)

    def save_mib(self, path: str | Path) -> Path:
        """MIB's and EAP-IG's graph JSON: every edge of the model with its score and whether it is in the circuit."""
        return self.export("mib", path)

    def save_graphml(self, path: str | Path) -> Path:
        """For networkx and Gephi."""
        return self.export("graphml", path)

    def save_svg(self, path: str | Path, most: int = 80) -> Path:
        """A drawing of the `most` edges with the largest scores and what connects them."""
        return self.export("svg", path, most=most)

    def export(self, kind: str, path: str | Path, **options: object) -> Path:
        """Write what one of the `EXPORTS` of circuits makes of it."""
        chosen = EXPORTS.named(kind)
        if chosen.takes != "circuit":
            raise HeadcountError(f"The export {kind} takes {NAMES[chosen.takes]}; got a circuit.")
        return chosen.write(self, path, options)

    def strongest(self, most: int) -> "Circuit":
        """At most so many edges, none of them dangling: fewer than asked for where the strongest do not connect."""
        pruned = self.pruned()
        ranked = np.argwhere(pruned.keep)[np.argsort(-np.abs(self.scores[pruned.keep]), kind="stable")]

        def connected(count: int) -> "Circuit":
            """What is connected among the first edges."""
            keep = np.zeros_like(self.keep)
            keep[tuple(ranked[:count].T)] = True
            return replace(self, keep=keep).pruned()

        # The most edges taken in order whose connected part is small enough; more edges never connect less.
        fitting = bisect_right(range(len(ranked) + 1), most, key=lambda count: len(connected(count)))
        return connected(max(fitting - 1, 0))

    def layer_of(self, name: str) -> int:
        """-1 for the input, the number of layers for the logits."""
        ends = {"input": -1, "logits": self.graph.n_layers}
        return ends[name] if name in ends else int(name[1:].split(".")[0])
