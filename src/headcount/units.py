"""What a sweep keeps or removes: heads or edges. Both are places in a mask, which is all that a sweep needs to know."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .circuits import CircuitMeter
from .circuits.fills import check_cut
from .cuts import Filler, Positions, head_name
from .errors import HeadcountError
from .graph import Graph, Readers
from .measure import MAX_TOKENS, Advance, Meter, Values
from .models import Model
from .models.wiring import find_graph
from .scores.result import EdgeScores, HeadScores
from .tasks.examples import Task, pairs_only

UNITS = ("heads", "edges")
Places = NDArray[np.intp]
"""Units by where they stand in the flattened mask."""


class Measures(Protocol):
    def measure(self, keeps: Tensor) -> Values: ...


@dataclass(frozen=True)
class Cut:
    """What fills the place of removed units, and where."""

    fill: str
    positions: Positions
    seed: int
    prune: bool = False
    memory: int | None = None


@dataclass(frozen=True)
class Heads:
    """Every head; edges have the same members."""

    model: Model
    name: str = "heads"

    @property
    def shape(self) -> tuple[int, int]:
        """Of a mask."""
        return self.model.n_layers, self.model.n_heads

    @property
    def places(self) -> Places:
        """Of all units, in order."""
        return np.arange(self.model.head_count)

    @property
    def layers(self) -> NDArray[np.intp]:
        """Of all units, for chance orders that are matched to it."""
        return self.places // self.model.n_heads

    def names(self, places: Places) -> tuple[str, ...]:
        return tuple(head_name((int(place) // self.model.n_heads, int(place) % self.model.n_heads)) for place in places)

    def meter(self, task: Task, cut: Cut, advance: Advance) -> Measures:
        examples = task.split("test")
        filler = Filler.prepare(self.model, cut.fill, examples=examples, reference=task.train, seed=cut.seed)
        return Meter(self.model, examples, filler, positions=cut.positions, max_tokens=MAX_TOKENS, advance=advance)


@dataclass(frozen=True)
class Edges:
    model: Model
    graph: Graph
    readers: Readers = "kv-heads"
    name: str = "edges"

    @property
    def shape(self) -> tuple[int, int]:
        return self.graph.real.shape[0], self.graph.real.shape[1]

    @cached_property
    def places(self) -> Places:
        return np.flatnonzero(self.graph.real)

    @property
    def layers(self) -> NDArray[np.intp]:
        """Of the reader."""
        return self.places % len(self.graph.readers) // self.graph.readers_a_layer

    def names(self, places: Places) -> tuple[str, ...]:
        width = len(self.graph.readers)
        return tuple(self.graph.edge_name((int(place) // width, int(place) % width)) for place in places)

    def meter(self, task: Task, cut: Cut, advance: Advance) -> Measures:
        check_cut(cut.fill, cut.positions)
        pairs, reference = (pairs_only(side, "A sweep over edges") for side in (task.split("test"), task.train))
        return CircuitMeter(
            self.model, pairs, fill=cut.fill, reference=reference, readers=self.readers,
            prune=cut.prune, memory=cut.memory, advance=advance,
        )  # fmt: skip


def units_of(
    model: Model, scores: HeadScores | EdgeScores | None, units: str | None, readers: Readers = "kv-heads"
) -> Heads | Edges:
    """Those of the scores; without scores, those asked for."""
    if isinstance(scores, EdgeScores):
        readers = "kv-heads" if scores.graph == find_graph(model) else "query-heads"
        graph = find_graph(model, readers)
        if scores.graph != graph:
            raise HeadcountError(
                f"The scores are of {scores.graph.n_edges} edges, but {model.name} has {graph.n_edges}."
                " Score this model first."
            )
        found: Heads | Edges = Edges(model, graph, readers)
    elif scores is not None or units in (None, "heads"):
        if scores is not None and scores.values.shape != (model.n_layers, model.n_heads):
            raise HeadcountError(
                f"The scores are of {scores.values.size} heads, but {model.name} has {model.head_count}."
                " Score this model first."
            )
        found = Heads(model)
    elif units == "edges":
        found = Edges(model, find_graph(model, readers), readers)
    else:
        raise HeadcountError(f"There are no units {units!r}. Known: {', '.join(UNITS)}.")
    if units not in (None, found.name):
        raise HeadcountError(f"The scores are of {found.name}, and {units} are wanted.")
    return found


def ranked_places(units: Heads | Edges, scores: HeadScores | EdgeScores, signed: bool) -> Places:
    """From the first to be kept to the last; ties go by place."""
    values = scores.values.ravel()[units.places]
    ranked: Places = units.places[np.argsort(-(values if signed else np.abs(values)), kind="stable")]
    return ranked


def chance_orders(units: Heads | Edges, draws: int, seed: int, like: Places | None = None) -> list[Places]:
    """Random orders; with `like`, orders that take as many units of each layer as it does, at every length."""
    rng = np.random.default_rng(seed)
    if like is None:
        return [rng.permutation(units.places) for _ in range(draws)]
    layer_at = np.zeros(units.shape[0] * units.shape[1], dtype=np.intp)
    layer_at[units.places] = units.layers
    drawn = []
    for _ in range(draws):
        order = like.copy()
        for layer in np.unique(units.layers):
            where = layer_at[like] == layer
            order[where] = rng.permutation(like[where])
        drawn.append(order)
    return drawn


def masks(
    units: Heads | Edges, orders: Sequence[Places], points: Sequence[tuple[int, int]], keep: bool
) -> NDArray[np.bool_]:
    """[point, row, column]: the first k of an order kept, or all but them; a point is (which order, k)."""
    found = np.zeros((len(points), units.shape[0] * units.shape[1]), dtype=bool)
    if not keep:
        found[:, units.places] = True
    for row, (order, k) in zip(found, points, strict=True):
        row[orders[order][:k]] = keep
    return found.reshape(len(points), *units.shape)
