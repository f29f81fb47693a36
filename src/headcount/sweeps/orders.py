"""Orders: which units are kept or removed at every k, in one draw or many.

    order (masks for each draw and k) x meter -> values -> Curve

An order lists the points that have to be measured, says which of them are the same, turns them into masks that a meter
takes, and folds what was measured to [draw, k, example]. Heads, edges, attention edges, roles and masked answers differ
in their orders and meters alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.words import SCORE_ORDERS, Mode, ScoreOrder
from ..meters import Meter, Readings, Values
from ..meters.meter import WHOLE, Part, SharedMeter, T
from ..rank.scores import EdgeScores, HeadScores, ranked

Scores = HeadScores | EdgeScores
Places = NDArray[np.intp]
"""Units by where they stand in the flattened mask."""
First = Callable[[int, int], Places]  # (draw, k) -> units
Point = tuple[int, int]
"""(draw, k); an order may have several masks for a draw, and count them on."""
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

    def fold(self, found: Readings[T], ks: Sequence[int]) -> Readings[T]:
        """[point, example] -> [draw, k, example]."""
        return {name: value.reshape(self.draws, len(ks), -1) for name, value in found.items()}


def measured(order: Order[M], meter: Meter[M, T], ks: Sequence[int], part: Part = WHOLE) -> Readings[T]:
    """What a meter reads at every k of an order, [draw, k, example]. Each different mask is run once. Of a part of the
    work, what is left to other parts is not a number."""
    points = order.points(ks)
    chosen, place = order.different(points)
    starts = range(0, len(chosen), order.at_once)
    parts = [_read(meter, order.masks(chosen[start : start + order.at_once]), part) for start in starts]
    meter.advance((len(points) - len(chosen)) * len(meter))
    found = {name: np.concatenate([each[name] for each in parts])[place] for name in parts[0]}
    return order.fold(found, ks)


def _read(meter: Meter[M, T], masks: M, part: Part) -> Readings[T]:
    return meter.measure(masks) if part == WHOLE else cast(SharedMeter[T], meter).measure(cast(Tensor, masks), part)


def merged(parts: Sequence[Values]) -> Values:
    """The whole from all parts, bit for bit."""
    found = dict(parts[0])
    for other in parts[1:]:
        found = {name: np.where(np.isnan(value), other[name], value) for name, value in found.items()}
    return found


class UnitOrder(Order[Tensor]):
    """Some units of each draw and k, kept or removed: `first` says which."""

    def __init__(self, shape: tuple[int, int], places: Places, draws: int, first: First, mode: Mode) -> None:
        self.shape, self.places, self.draws, self.first, self.mode = shape, places, draws, first, mode
        self.at_once = max(MASK_BYTES // int(np.prod(shape)), 1)

    def identity(self, point: Point) -> Point:
        """All draws begin and end with the same masks."""
        return (0, point[1]) if point[1] in (0, len(self.places)) else point

    def masks(self, points: Sequence[Point]) -> Tensor:
        """[point, row, column], True for units that are there."""
        keep = self.mode == "keep"
        found = np.zeros((len(points), int(np.prod(self.shape))), dtype=bool)
        if not keep:
            found[:, self.places] = True
        for row, (draw, k) in zip(found, points, strict=True):
            row[self.first(draw, k)] = keep
        return torch.from_numpy(found.reshape(len(points), *self.shape))


class OwnOrders(Order[Sequence[Point]]):
    """Every prompt has orders of its own, which its meter knows: a mask is the point itself."""

    def __init__(self, draws: int) -> None:
        self.draws = draws

    def masks(self, points: Sequence[Point]) -> Sequence[Point]:
        return points


def ranked_places(places: Places, scores: Scores, order: str, mix: float | None = None) -> Places:
    """From the first to be kept to the last; ties go by place. `mix` is that of the order `best`; all but the orders of
    scores go by size."""
    if order == "signed" and not scores.signed:
        raise HeadcountError(
            f"Scores of {scores.method} have no sign, so that none of them can be called helpful."
            " Use the order 'absolute'."
        )
    by: ScoreOrder = next((known for known in SCORE_ORDERS if known == order), "absolute")
    return np.asarray(places[ranked(scores.values.ravel()[places], by, mix)])


def chance_orders(places: Places, layers: Places, draws: int, seed: int, like: Places | None = None) -> list[Places]:
    """Random orders; with `like`, orders that take as many units of each layer as it does, at every length."""
    rng = np.random.default_rng(seed)
    if like is None:
        return [rng.permutation(places) for _ in range(draws)]
    layer_at = np.zeros(int(places.max()) + 1, dtype=np.intp)
    layer_at[places] = layers
    drawn = [like.copy() for _ in range(draws)]
    for order in drawn:
        for layer in np.unique(layers):
            where = layer_at[like] == layer
            order[where] = rng.permutation(like[where])
    return drawn
