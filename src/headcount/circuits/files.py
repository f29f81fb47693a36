"""A circuit as files for others: MIB's graph JSON, GraphML for networkx and Gephi, and a drawing in SVG."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from ..cache import write_file
from ..graph import Graph
from .drawing import svg_of


class Edge(NamedTuple):
    """An edge by the names of its ends; a head's readers are told apart by their role."""

    writer: str
    node: str
    role: str
    """q, k or v; empty for MLPs and the logits."""
    score: float


@dataclass(frozen=True, eq=False)
class Circuit:
    """A set of edges with their scores."""

    model: str
    task: str
    graph: Graph
    width: int
    """Of the residual stream."""
    keep: NDArray[np.bool_] = field(repr=False)
    """[writer, reader]."""
    scores: NDArray[np.float64] = field(repr=False)
    """[writer, reader], of all edges."""

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
        columns, shares = [], []
        for layer in range(graph.n_layers):
            queries, keys, values = (graph.reader_of(layer, role) for role in ("q", "k", "v"))
            columns += [queries + head for head in range(graph.n_heads)]
            columns += [first + head // group for first in (keys, values) for head in range(graph.n_heads)]
            columns.append(graph.reader_of(layer, None))
            shares += [1.0] * graph.n_heads + [1 / group] * 2 * graph.n_heads + [1.0]
        columns.append(len(graph.readers) - 1)
        wide = Graph(graph.n_layers, graph.n_heads, graph.n_heads, graph.parallel)
        scores = self.scores[:, columns] * np.array([*shares, 1.0])
        return replace(self, graph=wide, keep=self.keep[:, columns], scores=scores)

    def save_mib(self, path: str | Path) -> Path:
        """MIB's and EAP-IG's graph JSON: every edge of the model with its score and whether it is in the circuit."""
        wide = self.by_query_head()
        graph = wide.graph
        inside = set(wide.nodes)
        nodes = {name: {"in_graph": name in inside or name == "logits"} for name in (*graph.writers, "logits")}
        edges = {
            f"{graph.writers[writer]}->{graph.readers[reader]}": {
                "score": float(wide.scores[writer, reader]), "in_graph": bool(wide.keep[writer, reader]),
            }
            for writer, reader in np.argwhere(graph.real)
        }  # fmt: skip
        config = {
            "n_layers": graph.n_layers, "n_heads": graph.n_heads, "parallel_attn_mlp": graph.parallel,
            "d_model": self.width,
        }  # fmt: skip
        return _written(path, json.dumps({"cfg": config, "nodes": nodes, "edges": edges}))

    def save_graphml(self, path: str | Path) -> Path:
        """For networkx and Gephi: a node a component, an edge for each role, with its score; query heads that share a
        KV head each get its edges, as in `by_query_head`."""
        wide = self.by_query_head()
        root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
        for name, kind in (("layer", "int"), ("role", "string"), ("score", "double")):
            target = "node" if name == "layer" else "edge"
            ElementTree.SubElement(root, "key", {"id": name, "for": target, "attr.name": name, "attr.type": kind})
        graph = ElementTree.SubElement(root, "graph", id=f"{self.model} {self.task}", edgedefault="directed")
        for name in wide.nodes:
            node = ElementTree.SubElement(graph, "node", id=name)
            ElementTree.SubElement(node, "data", key="layer").text = str(self.layer_of(name))
        for number, edge in enumerate(wide.edges()):
            found = ElementTree.SubElement(graph, "edge", id=f"e{number}", source=edge.writer, target=edge.node)
            ElementTree.SubElement(found, "data", key="role").text = edge.role
            ElementTree.SubElement(found, "data", key="score").text = repr(edge.score)
        ElementTree.indent(root)
        return _written(path, ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n")

    def save_svg(self, path: str | Path, most: int = 80) -> Path:
        """A drawing from the input at the bottom to the logits at the top, of the `most` edges with the largest scores
        and what connects them; it says how many edges it leaves out."""
        whole = self.by_query_head()
        shown = whole.strongest(most)
        title = f"{self.task} on {self.model}: {len(self):,} of {self.graph.n_edges:,} edges"
        if len(shown) < len(whole):
            title += f"; drawn: the {len(shown)} strongest that are connected"
        if len(whole) > len(self):
            title += ", once for each query head that shares a key or value"
        return _written(path, svg_of({name: self.layer_of(name) for name in shown.nodes}, list(shown.edges()), title))

    def strongest(self, most: int) -> "Circuit":
        """At most so many edges, none of them dangling: fewer than asked for where the strongest do not connect."""
        pruned = self.pruned()
        ranked = np.argwhere(pruned.keep)[np.argsort(-np.abs(self.scores[pruned.keep]), kind="stable")]
        low, high, found = 0, len(ranked), pruned
        if len(pruned) <= most:
            return pruned
        while low < high:  # the most edges taken in order whose connected part is small enough
            middle = (low + high + 1) // 2
            keep = np.zeros_like(self.keep)
            keep[tuple(ranked[:middle].T)] = True
            connected = replace(self, keep=self.graph.pruned(keep))
            if len(connected) <= most:
                low, found = middle, connected
            else:
                high = middle - 1
        return found

    def layer_of(self, name: str) -> int:
        """-1 for the input, the number of layers for the logits."""
        if name in ("input", "logits"):
            return -1 if name == "input" else self.graph.n_layers
        return int(name[1:].split(".")[0])


def _written(path: str | Path, text: str) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text)
    return path
