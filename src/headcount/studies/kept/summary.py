"""The schema of summary.json."""

from typing import TypedDict

from ..kind import Summary


class KeptEntry(TypedDict):
    """One curve."""

    task: str
    model: str
    method: str
    order: str
    mode: str
    fill: str
    threshold: float
    units: str
    total: int
    needed: int | None
    """None where the threshold is never reached."""
    needed_low: int | None
    needed_high: int | None
    interval: float
    """Level of the interval."""
    warning: str | None
    """Why explained effect means little here."""
    metric: str
    metric_all: float | None
    metric_none: float | None
    accuracy_all: float | None
    accuracy_none: float | None
    test_pairs: int
    draws: int
    areas: dict[str, float | None]
    """MIB's CPR and CMD, of edges."""
    which: list[str]
    """The heads needed; of edges, which may be thousands, the circuit has files of its own."""


class RatioEntry(TypedDict):
    """Two models in one order; the one that needs more stands first."""

    task: str
    order: str
    more: str
    fewer: str
    more_units: int
    fewer_units: int
    units: str
    ratio: float
    words: str


class KeptSummary(Summary):
    curves: list[KeptEntry]
    ratios: list[RatioEntry]
