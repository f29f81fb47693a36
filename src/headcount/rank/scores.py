"""Scores of all heads or of all edges, and where they come from."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.errors import HeadcountError, require_known, require_seed
from ..core.plain import quoted
from ..core.progress import warn
from ..core.provenance import Facts, part_of
from ..core.saving import Floats, Row, Saved, Tabled
from ..core.shown import Shown
from ..core.words import READERS, SCORE_ORDERS, Readers, ScoreOrder, Units
from ..edit import Head, head_name
from ..models import Model
from ..models.graph import Edge, Graph
from ..models.wiring import find_graph
from ..tasks.examples import Task
from .circuit import Circuit


def ranked(values: Floats, by: ScoreOrder = "absolute", mix: float | None = None) -> NDArray[np.intp]:
    """Places from the first to be kept to the last; ties go by place.

    `best` mixes the two plain orders: of the first k, floor(mix · k) are the most helpful, and the others have the
    largest effect among those left (the positive-negative ratio of Technion's entry to MIB's shared task, 2025)."""
    require_known(by, SCORE_ORDERS, "order of scores")
    helpful, large = np.argsort(-values, kind="stable"), np.argsort(-np.abs(values), kind="stable")
    if by != "best":
        return helpful if by == "signed" else large
    if mix is None or not 0 <= mix <= 1:
        raise HeadcountError(
            "The order 'best' mixes 'signed' into 'absolute' by a share from 0 to 1, which a sweep chooses on the train"
            f" split; got {mix}. Give mix=..., a curve's own is curve.mix."
        )
    # Such sets are nested. One unit more is the next most helpful one at every k where floor(mix · k) grows; where that
    # one is there already, as elsewhere, it is the next by size.
    taken, order = np.zeros(len(values), dtype=bool), np.empty(len(values), dtype=np.intp)
    next_helpful, next_large = iter(helpful.tolist()), iter(large.tolist())
    for k in range(len(values)):
        unit = next(next_helpful) if int(mix * (k + 1)) > int(mix * k) else None
        if unit is None or taken[unit]:
            unit = next(other for other in next_large if not taken[other])
        taken[unit], order[k] = True, unit
    return order


def require_count(k: int, total: int, units: str) -> None:
    if not 0 <= k <= total:
        raise HeadcountError(f"k must lie between 0 and the model's {total} {units}; {k} does not.")


@dataclass(frozen=True, eq=False)
class HeadScores(Saved, Tabled, Shown):
    """One number per head: positive says that keeping the head raises the metric."""

    FILE: ClassVar[str] = "scores"
    AXES: ClassVar[dict[str, tuple[str, ...]]] = {"by_pair": ("sample", "layer", "head")}
    FINITE: ClassVar[tuple[str, ...]] = ("by_pair",)
    units: ClassVar[Units] = "heads"

    model: str
    task: str
    method: str
    metric: str
    by_pair: Floats = field(repr=False)  # [sample, layer, head]
    samples: str = "examples"  # or the `seeds` of a method that is fitted
    signed: bool = True  # whether the sign of a score says anything
    provenance: Facts = field(default_factory=dict, repr=False)

    @cached_property
    def values(self) -> Floats:
        """Mean over samples, [layer, head]."""
        return np.asarray(self.by_pair.mean(0))

    @property
    def size(self) -> int:
        return int(self.values.size)

    def require_shape(self, model: str, layers: int, heads: int) -> None:
        """Refuse a model that has other heads than these scores."""
        if self.values.shape != (layers, heads):
            own = " x ".join(map(str, self.values.shape))
            raise HeadcountError(
                f"The scores are of {own} heads, and {quoted(model)} has {layers} x {heads}. They were made with"
                f" {quoted(self.model)} on {quoted(self.task)}: give that model, or scores of this one."
            )

    def order(self, by: ScoreOrder = "absolute", mix: float | None = None) -> list[Head]:
        """Heads (layer, head) from the first to be kept to the last: `signed`, the most helpful first, the most harmful
        last; `absolute`, the largest effect first, of either sign; `best`, the two mixed by the share `mix`, which a
        sweep chooses. Ties go by layer and head."""
        heads = self.values.shape[1]
        return [divmod(index, heads) for index in ranked(self.values.ravel(), by, mix).tolist()]

    def top(self, k: int, by: ScoreOrder = "absolute", mix: float | None = None) -> tuple[str, ...]:
        """Names of the first k heads of an order."""
        require_count(min(k, self.size), self.size, "heads")
        return tuple(head_name(head) for head in self.order(by, mix)[:k])

    def shuffled(self, seed: int = 0) -> "HeadScores":
        """The same numbers dealt out to the heads at random: a control that knows how scores are spread, and nothing of
        the heads."""
        require_seed(seed)
        places = np.random.default_rng(seed).permutation(self.size)
        mixed = self.by_pair.reshape(-1, self.size)[:, places].reshape(self.by_pair.shape)
        return replace(self, method=f"shuffled {self.method}", by_pair=mixed)

    def rows(self) -> list[Row]:
        """One row per head."""
        error = self.by_pair.std(0, ddof=1) / np.sqrt(len(self.by_pair)) if len(self.by_pair) > 1 else self.values * 0
        facts = {"model": self.model, "task": self.task, "method": self.method, "metric": self.metric}
        return [
            {**facts, "layer": layer, "head": head, "score": float(value), "standard_error": float(error[layer, head])}
            for (layer, head), value in np.ndenumerate(self.values)
        ]


@dataclass(frozen=True, eq=False)
class EdgeScores(Saved, Tabled, Shown):
    """One number per edge: positive says that keeping the edge raises the metric."""

    FILE: ClassVar[str] = "edge-scores"
    AXES: ClassVar[dict[str, tuple[str, ...]]] = {"values": ("writer", "reader")}
    FINITE: ClassVar[tuple[str, ...]] = ("values",)
    units: ClassVar[Units] = "edges"

    model: str
    task: str
    method: str
    metric: str
    graph: Graph
    width: int  # of the residual stream
    values: Floats = field(repr=False)  # [writer, reader], mean over pairs; 0 where there is no edge
    signed: bool = True
    provenance: Facts = field(default_factory=dict, repr=False)

    def require_sound(self) -> None:
        graph = self.graph  # whose own shape would be built before it is known to be sane
        shape = 1 + graph.n_layers * (graph.n_heads + 1), graph.n_layers * graph.readers_a_layer + 1
        heads, of_keys = graph.n_heads, graph.n_kv_heads
        if self.values.shape != shape or min(heads, of_keys, graph.n_layers) < 1 or heads % of_keys:
            raise ValueError("its graph is not that of its scores")

    def beside(self) -> Facts:
        """The names of rows and columns."""
        return {"writers": list(self.graph.writers), "readers": list(self.graph.readers)}

    @property
    def size(self) -> int:
        return self.graph.n_edges

    def readers_on(self, model: Model) -> Readers:
        """How keys and values are counted here, if the scores are of this model."""
        for readers in READERS:
            if self.graph == find_graph(model, readers):
                return readers
        unlike = f"The scores are of {self.size} edges, but {model.name} has {find_graph(model).n_edges}."
        raise HeadcountError(f"{unlike} Score this model first.")

    def order(self, by: ScoreOrder = "absolute", mix: float | None = None) -> list[Edge]:
        """Edges (writer, reader) from the first to be kept to the last, as `HeadScores.order`."""
        edges = np.argwhere(self.graph.real)[ranked(self.values[self.graph.real], by, mix)]
        return [(writer, reader) for writer, reader in edges.tolist()]

    def top(self, k: int, by: ScoreOrder = "absolute", mix: float | None = None) -> tuple[str, ...]:
        """Names of the first k edges of an order."""
        require_count(min(k, self.size), self.size, "edges")
        return tuple(self.graph.edge_name(edge) for edge in self.order(by, mix)[:k])

    def circuit(self, k: int, by: ScoreOrder = "absolute", mix: float | None = None) -> Circuit:
        """The first k edges, to be saved or drawn."""
        require_count(k, self.size, "edges")
        keep = np.zeros(self.values.shape, dtype=bool)
        for edge in self.order(by, mix)[:k]:
            keep[edge] = True
        return Circuit(self.model, self.task, self.graph, self.width, keep, self.values)

    def shuffled(self, seed: int = 0) -> "EdgeScores":
        """The same numbers dealt out to the edges at random."""
        require_seed(seed)
        mixed = self.values.copy()
        mixed[self.graph.real] = np.random.default_rng(seed).permutation(self.values[self.graph.real])
        return replace(self, method=f"shuffled {self.method}", values=mixed)

    def rows(self) -> list[Row]:
        """One row per edge."""
        writers, readers = self.graph.writers, self.graph.readers
        facts = {"model": self.model, "task": self.task, "method": self.method, "metric": self.metric}
        return [
            {**facts, "writer": writers[f], "reader": readers[b], "score": float(self.values[f, b])}
            for f, b in np.argwhere(self.graph.real)
        ]


def warn_of_another(scores: HeadScores | EdgeScores, model: Model) -> None:
    """Scores that were saved may be of a model with the same shape and other weights: a choice, or a slip."""
    if part_of(scores.provenance, "model").get("sha256") not in (None, model.fingerprint):
        warn(
            f"the scores are of {quoted(scores.model)}, whose weights, precision or config are not those of"
            f" {quoted(model.name)}, which goes by them."
        )


def warn_of_prompts(scores: HeadScores | EdgeScores, task: Task) -> None:
    """The same of another task, or of other prompts of the same."""
    if scores.task != task.name:
        warn(f"the scores are of the task {quoted(scores.task)}, not of {quoted(task.name)}.")
    elif part_of(scores.provenance, "task").get("sha256") not in (None, task.fingerprint):
        warn(
            "these are not the prompts of the scores (another n, seed or split), so that some of them may have been"
            " scored."
        )
