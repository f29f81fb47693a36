"""What the steps of a study of kept units are told: what they do not need they do not have, and it makes their keys."""

from typing import NotRequired

from typing_extensions import TypedDict

from ...core.provenance import Facts
from ...core.words import Positions, Readers


class ScoreAsked(TypedDict, total=False):
    """Of a panel, where it has them."""

    metric: str
    fill: str
    steps: int
    seed: int
    positions: Positions


class Scoring(ScoreAsked, total=False):
    """What `headcount.score` is told."""

    method: str
    readers: Readers
    memory: int | None


class ScoreTold(TypedDict):
    score: Scoring
    fit: Facts | None
    code: str
    """Hash of a method from outside."""


class GivenTold(TypedDict):
    """Scores that were made before, by value."""

    method: str
    metric: str
    signed: bool
    samples: str
    by_pair: list[list[list[float]]]


class SearchTold(TypedDict, total=False):
    """What `headcount.search` is told."""

    threshold: float
    metric: str
    fill: str
    positions: Positions
    seed: int


class Sweeping(TypedDict, total=False):
    """What `headcount.sweep` is told; of a panel, where it has them."""

    units: str
    keep: str
    mask: str
    threshold: float
    draws: int
    seed: int
    fill: str
    metric: str
    positions: Positions
    readers: Readers
    prune: bool
    memory: int | None


class GridSweeping(Sweeping, total=False):
    ks: str | list[int] | None
    points: int
    precision: float


class SweepTold(TypedDict):
    sweep: GridSweeping
    learning: NotRequired[Facts]
    """How attention edges are learned, where they are."""
    part: NotRequired[list[int]]


class CloserTold(TypedDict):
    sweep: GridSweeping
    own: int
    """Its number among the repeats."""


class ControlTold(TypedDict):
    sweep: Sweeping
    shuffled: bool
