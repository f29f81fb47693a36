"""Orders: which units are kept or removed at every k, in one draw or many.

    order (masks for each draw and k) x meter -> values -> Curve

An order lists the points that have to be measured, says which of them are the same, turns them into masks that a meter
takes, and folds what was measured to [draw, k, example]. Heads, edges, attention edges, roles and masked answers differ
in their orders and meters alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.errors import HeadcountError, did_you_mean
from ..core.words import ORDERS, ChanceOrder, Mode
from ..meters import Meter, Readings
from ..rank.scores import EdgeScores, HeadScores

Scores = HeadScores | EdgeScores
Places = NDArray[np.intp]
"""Units by where they stand in the flattened mask."""
Point = tuple[Any, ...]
"""(draw, k), and what else an order tells apart."""
M = TypeVar("M")
MASK_BYTES = 2**27
"""Masks of so many points are made at once."""


class Order(ABC, Generic[M]):
    """The masks of a sweep."""

    draws: int
    at_once: int = 2**31
    """Points whose masks are made together, at most."""

    def points(self, ks: Sequence[int]) -> list[Point]:
        return [(draw, k) for draw in range(self.draws) for k in ks]

    def different(self, points: Sequence[Point]) -> tuple[list[Point], list[int]]:
        """The points to measure, and for each point asked for its place among them."""
        chosen = list(dict.fromkeys(map(self.identity, points)))
        place = {point: index for index, point in enumerate(chosen)}
        return chosen, [place[self.identity(point)] for point in points]

    def identity(self, point: Point) -> Point:
        """The point that has the same mask and comes first."""
        return point

    @abstractmethod
    def masks(self, points: Sequence[Point]) -> M:
        """What a meter takes."""

    def fold(self, found: Readings, ks: Sequence[int]) -> Readings:
        """[point, example] -> [draw, k, example]."""
        return {name: value.reshape(self.draws, len(ks), -1) for name, value in found.items()}


def measured(order: Order[M], meter: Meter[M], ks: Sequence[int]) -> Readings:
    """What a meter reads at every k of an order, [draw, k, example]. Each different mask is run once."""
    points = order.points(ks)
    chosen, place = order.different(points)
    parts = [meter.measure(order.masks(some)) for some in _split(chosen, order.at_once)]
    meter.advance((len(points) - len(chosen)) * len(meter))
    found = {name: np.concatenate([part[name] for part in parts])[place] for name in parts[0]}
    return order.fold(found, ks)


def _split(points: list[Point], at_once: int) -> Iterator[list[Point]]:
    for first in range(0, len(points), at_once):
        yield points[first : first + at_once]


class UnitOrder(Order[Tensor]):
    """The first k units of each of some orders, kept or removed."""

    def __init__(self, shape: tuple[int, ...], places: Places, orders: Sequence[Places], mode: Mode) -> None:
        self.shape, self.places, self.orders, self.mode = shape, places, orders, mode
        self.draws = len(orders)
        self.at_once = max(MASK_BYTES // int(np.prod(shape)), 1)

    def identity(self, point: Point) -> Point:
        """All orders begin and end with the same masks."""
        return (0, point[1]) if point[1] in (0, len(self.places)) else point

    def masks(self, points: Sequence[Point]) -> Tensor:
        """[point, row, column], True for units that are there."""
        keep = self.mode == "keep"
        found = np.zeros((len(points), int(np.prod(self.shape))), dtype=bool)
        if not keep:
            found[:, self.places] = True
        for row, (draw, k) in zip(found, points, strict=True):
            row[self.orders[draw][:k]] = keep
        return torch.from_numpy(found.reshape(len(points), *self.shape))


class OwnOrders(Order[Sequence[Point]]):
    """Every prompt has orders of its own, which its meter knows: a mask is the point itself."""

    def __init__(self, draws: int) -> None:
        self.draws = draws

    def masks(self, points: Sequence[Point]) -> Sequence[Point]:
        return points


def order_named(name: str) -> str:
    """An order by its name, `top` being short for absolute."""
    name = "absolute" if name == "top" else name
    if name not in ORDERS:
        raise HeadcountError(f"There is no order {name!r}.{did_you_mean(name, ('top', *ORDERS))}")
    return name


def ranked_places(places: Places, scores: Scores, order: str) -> Places:
    """From the first to be kept to the last; ties go by place."""
    if order == "signed" and not scores.signed:
        raise HeadcountError(
            f"Scores of {scores.method} have no sign, so that none of them can be called helpful."
            " Use the order 'absolute'."
        )
    values = scores.values.ravel()[places]
    ranked: Places = places[np.argsort(-(values if order == "signed" else np.abs(values)), kind="stable")]
    return ranked


def chance_orders(places: Places, layers: Places, draws: int, seed: int, like: Places | None = None) -> list[Places]:
    """Random orders; with `like`, orders that take as many units of each layer as it does, at every length."""
    rng = np.random.default_rng(seed)
    if like is None:
        return [rng.permutation(places) for _ in range(draws)]
    layer_at = np.zeros(int(places.max()) + 1, dtype=np.intp)
    layer_at[places] = layers
    drawn = []
    for _ in range(draws):
        order = like.copy()
        for layer in np.unique(layers):
            where = layer_at[like] == layer
            order[where] = rng.permutation(like[where])
        drawn.append(order)
    return drawn


def others_than(
    ranked: Places, heads_a_layer: int, order: ChanceOrder, ks: Sequence[int], draws: int, seed: int
) -> list[list[Places]]:
    """Random heads that are never among the first k of an order, [draw][k]; `chance-matched` takes as many of each
    layer as the first k have, or of the nearest layer that has some left."""
    pick = _matched if order == "chance-matched" else _anywhere
    drawn = []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        drawn.append([pick(ranked[:k], ranked[k:], heads_a_layer, rng) for k in ks])
    return drawn


def _anywhere(top: Places, others: Places, heads_a_layer: int, rng: np.random.Generator) -> Places:
    return rng.permutation(others)[: len(top)]


def _matched(top: Places, others: Places, heads_a_layer: int, rng: np.random.Generator) -> Places:
    layers = others // heads_a_layer
    left = {int(layer): list(rng.permutation(others[layers == layer])) for layer in np.unique(layers)}
    picked = []
    for layer in rng.permutation(top // heads_a_layer):
        nearest = min((other for other in left if left[other]), key=lambda other: (abs(other - layer), other))
        picked.append(left[nearest].pop())
    return np.array(picked, dtype=np.intp)
