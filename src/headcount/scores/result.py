"""Scores of all heads or of all edges, and where they come from."""

from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..circuits import Circuit
from ..cuts import head_name
from ..errors import HeadcountError
from ..graph import Edge, Graph
from ..results import frame, load_result, save_result

Order = Literal["signed", "absolute"]


@dataclass(frozen=True, eq=False)
class HeadScores:
    """One number a head: positive says that keeping the head raises the metric."""

    model: str
    task: str
    method: str
    metric: str
    by_pair: NDArray[np.float64] = field(repr=False)
    """[sample, layer, head]."""
    samples: str = "examples"
    """What the samples are: `examples` (pairs or completions), or the `seeds` of a method that is fitted."""
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Mean over samples, [layer, head]."""
        mean: NDArray[np.float64] = self.by_pair.mean(0)
        return mean

    def order(self, by: Order = "absolute") -> list[tuple[int, int]]:
        """Heads (layer, head) from the first to be kept to the last.

        `signed`: the most helpful first, the most harmful last. `absolute`: the largest effect first, of either sign.
        Ties go by layer and head.
        """
        flat = self.values.ravel()
        ranked = np.argsort(-(flat if by == "signed" else np.abs(flat)), kind="stable")
        heads = self.values.shape[1]
        return [(int(index) // heads, int(index) % heads) for index in ranked]

    def top(self, k: int, by: Order = "absolute") -> tuple[str, ...]:
        """Names of the first k heads of an order."""
        return tuple(head_name(head) for head in self.order(by)[:k])

    def rows(self) -> list[dict[str, Any]]:
        error = self.by_pair.std(0, ddof=1) / np.sqrt(len(self.by_pair)) if len(self.by_pair) > 1 else self.values * 0
        facts = {"model": self.model, "task": self.task, "method": self.method, "metric": self.metric}
        return [
            {**facts, "layer": layer, "head": head, "score": float(value), "standard_error": float(error[layer, head])}
            for (layer, head), value in np.ndenumerate(self.values)
        ]

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row a head."""
        return frame(self.rows())

    def save(self, folder: str | Path) -> Path:
        """Write `scores.safetensors` and `scores.json` into a folder."""
        facts = {"model": self.model, "task": self.task, "method": self.method, "metric": self.metric}
        facts |= {"samples": self.samples}
        return save_result(folder, "scores", {"by_pair": self.by_pair}, {**facts, "provenance": self.provenance})

    @classmethod
    def load(cls, folder: str | Path) -> "HeadScores":
        arrays, facts = load_result(folder, "scores")
        return cls(by_pair=arrays["by_pair"], **facts)


@dataclass(frozen=True, eq=False)
class EdgeScores:
    """One number an edge: positive says that keeping the edge raises the metric."""

    model: str
    task: str
    method: str
    metric: str
    graph: Graph
    width: int
    """Of the residual stream."""
    values: NDArray[np.float64] = field(repr=False)
    """[writer, reader], mean over pairs; 0 where there is no edge."""
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)

    def order(self, by: Order = "absolute") -> list[Edge]:
        """Edges (writer, reader) from the first to be kept to the last, as `HeadScores.order`."""
        edges = np.argwhere(self.graph.real)
        found = self.values[self.graph.real]
        ranked = np.argsort(-(found if by == "signed" else np.abs(found)), kind="stable")
        return [(int(writer), int(reader)) for writer, reader in edges[ranked]]

    def top(self, k: int, by: Order = "absolute") -> tuple[str, ...]:
        """Names of the first k edges of an order."""
        return tuple(self.graph.edge_name(edge) for edge in self.order(by)[:k])

    def circuit(self, k: int, by: Order = "absolute") -> Circuit:
        """The first k edges, to be saved or drawn."""
        if not 0 <= k <= self.graph.n_edges:
            raise HeadcountError(f"k must lie between 0 and the model's {self.graph.n_edges} edges; {k} does not.")
        keep = np.zeros(self.values.shape, dtype=bool)
        for edge in self.order(by)[:k]:
            keep[edge] = True
        return Circuit(self.model, self.task, self.graph, self.width, keep, self.values)

    def rows(self) -> list[dict[str, Any]]:
        facts = {"model": self.model, "task": self.task, "method": self.method, "metric": self.metric}
        names = self.graph.writers, self.graph.readers
        return [
            {**facts, "writer": names[0][f], "reader": names[1][b], "score": float(self.values[f, b])}
            for f, b in np.argwhere(self.graph.real)
        ]

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row an edge."""
        return frame(self.rows())

    def save(self, folder: str | Path) -> Path:
        """Write `edge-scores.safetensors` and `edge-scores.json`, the latter with the names of writers and readers."""
        facts = {key: value for key, value in vars(self).items() if key not in ("graph", "values")}
        shape = {field.name: getattr(self.graph, field.name) for field in fields(Graph)}
        names = {"writers": list(self.graph.writers), "readers": list(self.graph.readers)}
        return save_result(folder, "edge-scores", {"values": self.values}, {**facts, "graph": shape, **names})

    @classmethod
    def load(cls, folder: str | Path) -> "EdgeScores":
        arrays, facts = load_result(folder, "edge-scores")
        kept = {key: value for key, value in facts.items() if key not in ("graph", "writers", "readers")}
        return cls(graph=Graph(**facts["graph"]), values=arrays["values"], **kept)
