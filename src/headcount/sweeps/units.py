"""What a sweep keeps or removes: heads, edges or attention edges. Each knows its own masks, names, orders and meter."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.words import CHANCE_ORDERS, ORDERS, Mode, Positions, Readers, Units, in_words
from ..edit import Filler, head_name
from ..edit.attention import Terms
from ..edit.edge_fills import check_cut
from ..meters import Advance, AttentionEdgeMeter, CircuitMeter, HeadMeter, Meter
from ..meters.attention_edges import edge_count
from ..models import Model
from ..models.graph import Graph
from ..models.wiring import find_graph
from ..rank.attention_attribution import attention_attribution
from ..rank.scores import EdgeScores
from ..tasks.batches import Batch
from ..tasks.examples import Task, pairs_only
from .orders import M, Order, OwnOrders, Places, Point, Scores, UnitOrder, chance_orders, ranked_places


@dataclass(frozen=True)
class Asked:
    """What a sweep asks of its units: an order, what takes the place of what is removed, and where."""

    order: str
    mode: Mode
    fill: str
    positions: Positions
    metric: str
    draws: int
    seed: int
    prune: bool = False
    memory: int | None = None

    @property
    def by_chance(self) -> bool:
        return self.order in CHANCE_ORDERS


@dataclass(frozen=True)
class AnyUnits(ABC, Generic[M]):
    model: Model

    name: ClassVar[Units]
    refined_at_once: ClassVar[int] = 6
    """Points that are added around the crossing together; half as many by chance."""

    @property
    @abstractmethod
    def total(self) -> int: ...

    @abstractmethod
    def order(self, asked: Asked) -> Order[M]: ...

    @abstractmethod
    def meter(self, task: Task, asked: Asked, advance: Advance) -> Meter[M]: ...

    def ranking(self, asked: Asked, most: int) -> tuple[str, ...]:
        """Names of the first units of an order; none of chance orders, which have many."""
        return ()

    def method(self, asked: Asked) -> str:
        return "chance"

    def arguments(self, asked: Asked) -> dict[str, object]:
        """What provenance says beside the usual."""
        return {}


@dataclass(frozen=True)
class PlacedUnits(AnyUnits[Tensor]):
    """Units that are places in a mask, the same for all prompts, in an order that scores give."""

    scores: Scores | None = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Of a mask."""

    @property
    @abstractmethod
    def places(self) -> Places:
        """Of all units, in order."""

    @property
    @abstractmethod
    def layers(self) -> Places:
        """Of all units, for chance orders that are matched to it."""

    @abstractmethod
    def names(self, places: Places) -> tuple[str, ...]: ...

    @property
    def total(self) -> int:
        return len(self.places)

    def orders(self, asked: Asked) -> list[Places]:
        """The scores' own order, or random ones."""
        if asked.order != "chance" and self.scores is None:
            raise HeadcountError(
                f"The order {asked.order!r} comes from scores, and none were given. See headcount.score."
            )
        ranked = None if self.scores is None else ranked_places(self.places, self.scores, asked.order)
        if not asked.by_chance and ranked is not None:
            return [ranked]
        like = ranked if asked.order == "chance-matched" else None
        return chance_orders(self.places, self.layers, asked.draws, asked.seed, like)

    def order(self, asked: Asked) -> Order[Tensor]:
        return UnitOrder(self.shape, self.places, self.orders(asked), asked.mode)

    def ranking(self, asked: Asked, most: int) -> tuple[str, ...]:
        return () if asked.by_chance else self.names(self.orders(asked)[0][:most])

    def method(self, asked: Asked) -> str:
        return "chance" if self.scores is None else self.scores.method

    def require_scores_of(self, shape: tuple[int, ...], what: str, total: int) -> None:
        if self.scores is not None and self.scores.values.shape != shape:
            raise HeadcountError(
                f"The scores are of {self.scores.size} {what}, but {self.model.name} has {total}."
                " Score this model first."
            )


@dataclass(frozen=True)
class Heads(PlacedUnits):
    name = "heads"

    def __post_init__(self) -> None:
        self.require_scores_of(self.shape, "heads", self.total)

    @property
    def shape(self) -> tuple[int, int]:
        return self.model.n_layers, self.model.n_heads

    @property
    def places(self) -> Places:
        return np.arange(self.model.head_count)

    @property
    def layers(self) -> Places:
        return self.places // self.model.n_heads

    def names(self, places: Places) -> tuple[str, ...]:
        return tuple(head_name((int(place) // self.model.n_heads, int(place) % self.model.n_heads)) for place in places)

    def meter(self, task: Task, asked: Asked, advance: Advance) -> HeadMeter:
        examples = task.split("test")
        filler = Filler.prepare(self.model, asked.fill, examples=examples, reference=task.train, seed=asked.seed)
        return HeadMeter(self.model, examples, filler, positions=asked.positions, advance=advance)


@dataclass(frozen=True)
class Edges(PlacedUnits):
    name = "edges"
    readers: Readers = "kv-heads"

    def __post_init__(self) -> None:
        self.require_scores_of(self.shape, "edges", self.total)

    @cached_property
    def graph(self) -> Graph:
        return find_graph(self.model, self.readers)

    @property
    def shape(self) -> tuple[int, int]:
        return self.graph.real.shape[0], self.graph.real.shape[1]

    @cached_property
    def places(self) -> Places:
        return np.flatnonzero(self.graph.real)

    @property
    def layers(self) -> Places:
        """Of the reader."""
        return self.places % len(self.graph.readers) // self.graph.readers_a_layer

    def names(self, places: Places) -> tuple[str, ...]:
        width = len(self.graph.readers)
        return tuple(self.graph.edge_name((int(place) // width, int(place) % width)) for place in places)

    def meter(self, task: Task, asked: Asked, advance: Advance) -> CircuitMeter:
        check_cut(asked.fill, asked.positions)
        pairs, reference = (pairs_only(side, "A sweep over edges") for side in (task.split("test"), task.train))
        return CircuitMeter(
            self.model,
            pairs,
            fill=asked.fill,
            reference=reference,
            readers=self.readers,
            prune=asked.prune,
            memory=asked.memory,
            advance=advance,
        )

    def arguments(self, asked: Asked) -> dict[str, object]:
        return {"readers": self.readers, "prune": asked.prune}


@dataclass(frozen=True)
class AttentionEdges(AnyUnits[Sequence[Point]]):
    """Of every prompt its own, in an order of its own: scored by attribution, and kept prompt by prompt."""

    name = "attention-edges"
    refined_at_once = 3
    longest: int = 0
    """Tokens of the longest prompt; shorter ones are whole with fewer edges."""

    @property
    def total(self) -> int:
        return edge_count(self.model, self.longest)

    def order(self, asked: Asked) -> Order[Sequence[Point]]:
        only = {"mode": "keep", "fill": "counterfactual", "positions": "all"}
        for key, value in only.items():
            if getattr(asked, key) != value:
                raise HeadcountError(
                    f"Attention edges know the {key} {value!r} alone; this is {getattr(asked, key)!r}."
                )
        if asked.order == "chance-matched":
            raise HeadcountError(f"Attention edges have no order {asked.order!r}. Known: {', '.join(ORDERS[:3])}.")
        return OwnOrders(asked.draws if asked.by_chance else 1)

    def method(self, asked: Asked) -> str:
        return "chance" if asked.by_chance else "attribution"

    def meter(self, task: Task, asked: Asked, advance: Advance) -> AttentionEdgeMeter:
        pairs = pairs_only(task.split("test"), "A sweep over attention edges")

        def score(indices: list[int], batch: Batch, other: Terms) -> Tensor:
            if asked.by_chance:
                return self._random(indices, batch, asked)
            found = attention_attribution(self.model, batch, asked.metric, other)[None]
            return found if asked.order == "signed" else found.abs()

        return AttentionEdgeMeter(self.model, pairs, score, advance=advance)

    def _random(self, indices: list[int], batch: Batch, asked: Asked) -> Tensor:
        shape = (self.model.n_layers, self.model.n_heads, batch.length, batch.length)
        rngs = [np.random.default_rng((asked.seed, draw, index)) for draw in range(asked.draws) for index in indices]
        random = np.stack([rng.random(shape, dtype=np.float32) for rng in rngs])
        return torch.from_numpy(random).view(asked.draws, len(indices), *shape).to(self.model.device)


def units_of(
    model: Model, task: Task, scores: Scores | None, units: str | None, readers: Readers = "kv-heads"
) -> Heads | Edges | AttentionEdges:
    """Those of the scores; without scores, those asked for."""
    known = {"heads": Heads, "edges": Edges, "attention-edges": AttentionEdges}
    if units is not None and units not in known:
        raise HeadcountError(f"There are no units {units!r}. Known: {', '.join(known)}.")
    given = None if scores is None else scores.units
    if given and units not in (None, given):
        raise HeadcountError(f"The scores are of {given}, and {in_words(units or '')} are wanted.")
    match given or units or "heads":
        case "heads":
            return Heads(model, scores)
        case "edges":
            return Edges(model, scores, scores.readers_on(model) if isinstance(scores, EdgeScores) else readers)
        case _:
            longest = max(len(pair.clean) for pair in pairs_only(task.test, "A sweep over attention edges"))
            return AttentionEdges(model, longest)
