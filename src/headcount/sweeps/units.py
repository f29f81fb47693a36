"""What a sweep keeps or removes: heads, edges or attention edges. Each knows its own masks, names, orders and meter."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError, require_known
from ..core.provenance import Facts
from ..core.saving import Floats
from ..core.words import (
    ATTENTION_METHODS,
    CHANCE_ORDERS,
    PLAIN_ORDERS,
    UNITS,
    Mode,
    Positions,
    Readers,
    Units,
    in_words,
)
from ..edit import Filler, head_name
from ..edit.attention_fills import FilledTerms
from ..edit.edge_fills import check_cut
from ..meters import Advance, AttentionEdgeMeter, CircuitMeter, HeadMeter
from ..meters.attention_edges import edge_count
from ..models import Model
from ..models.wiring import find_graph
from ..rank.attention_attribution import attention_attribution
from ..rank.fit import Learning
from ..rank.learned_attention import learned_attention
from ..rank.scores import EdgeScores
from ..tasks.batches import Batch
from ..tasks.examples import Task, pairs_only
from .orders import Order, OwnOrders, Places, Point, Scores, UnitOrder, chance_orders, ranked_places

OWN_ORDERS = (*PLAIN_ORDERS, "chance")
"""Orders of attention edges. They are scored on the prompt at hand, so there are no others to choose a mix on."""
NAMED_UNITS = 10_000  # so many of the first units of its order a curve knows by name


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
    method: str = "attribution"
    """Of attention edges, which are scored where they are swept."""
    fit: Learning | None = None
    mix: float | None = None
    """Share of the signed order in the order `best`."""

    @property
    def by_chance(self) -> bool:
        return self.order in CHANCE_ORDERS

    def says(self, model: Model) -> bool:
        """Whether it is noted what the model says at every k: of one order, and where tokens have texts."""
        return not self.by_chance and model.tokenizer is not None


class PlacedUnits(ABC):
    """Units that are places in a mask, the same for all prompts, in an order that scores give. `layers` are those of
    all places, for chance orders that are matched to them."""

    name: ClassVar[Units]

    def __init__(
        self, model: Model, scores: Scores | None, shape: tuple[int, int], places: Places, layers: Places
    ) -> None:
        self.model, self.scores, self.shape, self.places, self.layers = model, scores, shape, places, layers
        self.total = len(places)
        if scores is not None and scores.values.shape != shape:
            sizes = f"The scores are of {scores.size} {self.name}, but {model.name} has {self.total}."
            raise HeadcountError(f"{sizes} Score this model first.")

    @abstractmethod
    def unit_name(self, place: int) -> str: ...

    def orders(self, asked: Asked) -> list[Places]:
        """The scores' own order, or random ones."""
        if asked.order != "chance" and self.scores is None:
            raise HeadcountError(
                f"The order {asked.order!r} comes from scores, and none were given. See headcount.score."
            )
        ranked = None if self.scores is None else ranked_places(self.places, self.scores, asked.order, asked.mix)
        if not asked.by_chance and ranked is not None:
            return [ranked]
        like = ranked if asked.order == "chance-matched" else None
        return chance_orders(self.places, self.layers, asked.draws, asked.seed, like)

    def order(self, asked: Asked) -> Order[Tensor]:
        orders = self.orders(asked)
        return UnitOrder(self.shape, self.places, len(orders), lambda draw, k: orders[draw][:k], asked.mode)

    def ranking(self, asked: Asked) -> tuple[str, ...]:
        """Names of the first units of an order; none of chance orders, which have many."""
        first = [] if asked.by_chance else self.orders(asked)[0][:NAMED_UNITS].tolist()
        return tuple(map(self.unit_name, first))

    def method(self, asked: Asked) -> str:
        return "chance" if self.scores is None else self.scores.method

    def own(self, asked: Asked, meter: object) -> dict[str, Floats]:
        """Orders that prompts have for themselves: none."""
        return {}


class Heads(PlacedUnits):
    name = "heads"

    def __init__(self, model: Model, scores: Scores | None = None) -> None:
        places = np.arange(model.head_count)
        super().__init__(model, scores, (model.n_layers, model.n_heads), places, places // model.n_heads)

    def unit_name(self, place: int) -> str:
        return head_name(divmod(place, self.model.n_heads))

    def meter(self, task: Task, asked: Asked, advance: Advance) -> HeadMeter:
        examples = task.split("test")
        filler = Filler.prepare(self.model, asked.fill, examples=examples, reference=task.train, seed=asked.seed)
        says = asked.says(self.model)
        return HeadMeter(self.model, examples, filler, positions=asked.positions, says=says, advance=advance)


class Edges(PlacedUnits):
    """The layer of an edge is that of its reader."""

    name = "edges"

    def __init__(self, model: Model, scores: Scores | None = None, readers: Readers = "kv-heads") -> None:
        self.readers, self.graph = readers, find_graph(model, readers)
        (writers, width), places = self.graph.real.shape, np.flatnonzero(self.graph.real)
        super().__init__(model, scores, (writers, width), places, places % width // self.graph.readers_a_layer)

    def unit_name(self, place: int) -> str:
        return self.graph.edge_name(divmod(place, len(self.graph.readers)))

    def meter(self, task: Task, asked: Asked, advance: Advance) -> CircuitMeter:
        check_cut(asked.fill, asked.positions)
        pairs, reference = (pairs_only(side, "A sweep over edges") for side in (task.split("test"), task.train))
        ready = partial(CircuitMeter, fill=asked.fill, prune=asked.prune, memory=asked.memory, advance=advance)
        return ready(self.model, pairs, reference=reference, readers=self.readers, says=asked.says(self.model))


@dataclass(frozen=True)
class AttentionEdges:
    """Of every prompt its own, in an order of its own: scored by attribution or trained, and kept prompt by prompt."""

    model: Model
    longest: int
    """Tokens of the longest prompt; shorter ones are whole with fewer edges."""
    name: ClassVar[Units] = "attention-edges"

    @property
    def total(self) -> int:
        return edge_count(self.model, self.longest)

    def order(self, asked: Asked) -> Order[Sequence[Point]]:
        if asked.mode != "keep":
            raise HeadcountError(f"Attention edges know the mode 'keep' alone; got {asked.mode!r}.")
        check_cut(asked.fill, asked.positions, "Attention edges")
        require_known(asked.method, ATTENTION_METHODS, "method for attention edges")
        if asked.order not in OWN_ORDERS:
            raise HeadcountError(f"Attention edges have no order {asked.order!r}. Known: {', '.join(OWN_ORDERS)}.")
        return OwnOrders(asked.draws if asked.by_chance else 1)

    def ranking(self, asked: Asked) -> tuple[str, ...]:
        return ()

    def method(self, asked: Asked) -> str:
        return "chance" if asked.by_chance else asked.method

    def own(self, asked: Asked, meter: AttentionEdgeMeter) -> dict[str, Floats]:
        """The first edges of every prompt, by its number."""
        return {} if asked.by_chance else {str(pair): edges for pair, edges in sorted(meter.first_edges().items())}

    def meter(self, task: Task, asked: Asked, advance: Advance) -> AttentionEdgeMeter:
        both = (task.split("test"), task.train)
        pairs, reference = (pairs_only(side, "A sweep over attention edges") for side in both)

        def learned(batch: Batch, fill: FilledTerms, first: Tensor) -> Tensor:
            facts: Facts = {"fill": asked.fill, "reference": task.fingerprint, "seed": asked.seed}
            told: dict[str, Any] = {"fit": asked.fit or Learning(), "facts": facts, "advance": advance}
            return learned_attention(self.model, batch, asked.metric, fill, first, **told)

        def score(indices: list[int], batch: Batch, fill: FilledTerms) -> Tensor:
            if not asked.by_chance:
                found = attention_attribution(self.model, batch, asked.metric, fill)
                found = found if asked.order == "signed" else found.abs()
                return (learned(batch, fill, found) if asked.method == "learned" else found)[None]
            shape, draws = (self.model.n_layers, self.model.n_heads, batch.length, batch.length), range(asked.draws)
            rngs = [np.random.default_rng((asked.seed, draw, index)) for draw in draws for index in indices]
            random = np.stack([rng.random(shape, dtype=np.float32) for rng in rngs])
            return torch.from_numpy(random).view(asked.draws, len(indices), *shape).to(self.model.device)

        ready = partial(AttentionEdgeMeter, fill=asked.fill, says=asked.says(self.model), advance=advance)
        return ready(self.model, pairs, score, reference=reference)


AnyUnits = Heads | Edges | AttentionEdges


def units_of(
    model: Model, task: Task, scores: Scores | None, units: str | None, readers: Readers = "kv-heads"
) -> AnyUnits:
    """Those of the scores; without scores, those asked for."""
    if units is not None and units not in UNITS:
        raise HeadcountError(f"There are no units {units!r}. Known: {', '.join(UNITS)}.")
    given = None if scores is None else scores.units
    if given and units not in (None, given):
        raise HeadcountError(f"The scores are of {given}, and {in_words(units or '')} are wanted.")
    chosen = given or units or "heads"
    if chosen == "heads":
        return Heads(model, scores)
    if chosen == "edges":
        return Edges(model, scores, scores.readers_on(model) if isinstance(scores, EdgeScores) else readers)
    longest = max(len(pair.clean) for pair in pairs_only(task.test, "A sweep over attention edges"))
    return AttentionEdges(model, longest)
