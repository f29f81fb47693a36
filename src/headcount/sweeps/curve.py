"""A curve: what is left of a behaviour against the number of units kept or masked, with intervals; and how many times
the units one model needs of another."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from ..core.errors import HeadcountError, did_you_mean
from ..core.provenance import Facts
from ..core.saving import Floats, Row, Saved, Tabled
from ..core.words import CurveKind, Mode, in_words

T = TypeVar("T")
RESAMPLES = 1000
EXPLAINED = "explained_effect"
MIB_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The shares of all edges at which MIB (Mueller et al. 2025, arXiv 2504.13151) measures a circuit."""


class Interval(NamedTuple, Generic[T]):
    """A number, or one at every k, and the ends of its interval."""

    value: T
    low: T
    high: T


@dataclass(frozen=True)
class UnitsNeeded:
    """The fewest units with which the behaviour is there (or, masked, gone); None where that never happens."""

    value: int | None
    low: int | None
    high: int | None
    total: int
    threshold: float
    level: float
    units: str
    mode: Mode

    def __str__(self) -> str:
        if self.value is None:
            return f"not reached with all {self.total} {in_words(self.units)}"
        low, high = (self.total if end is None else end for end in (self.low, self.high))
        unit = in_words(self.units if self.value != 1 else self.units.removesuffix("s"))
        return f"{self.value} {unit}, {self.level:.0%} interval {low} to {high}".replace("%", " %")


@dataclass(frozen=True, eq=False)
class Curve(Saved, Tabled):
    """Every metric of every test pair at every k, from which means, intervals and explained effect are computed.

    Explained effect: EE(k) = (m(k) - m(none)) / (m(all) - m(none)), m being the mean of the curve's metric over pairs;
    with none of the units kept every unit carries the fill, with all of them the model is whole.
    """

    FILE: ClassVar[str] = "curve"

    model: str
    task: str
    title: str
    """Of the task, for figures."""
    units: str
    method: str
    order: str
    mode: Mode
    fill: str
    metric: str
    """The one that explained effect speaks of."""
    ks: tuple[int, ...]
    total: int
    ranking: tuple[str, ...] = field(repr=False)
    """Names of the units in the order in which they are kept or masked, of edges the first thousands; empty for chance
    orders, which have many."""
    values: dict[str, Floats] = field(repr=False)
    """Metric -> [draw, k, pair]; more than one draw for chance orders only."""
    kind: CurveKind = "explained"
    """`explained`: none and all of the units are measured, and explained effect speaks of what lies between. `change`:
    heads ablated by role, against the same heads open. `answers`: what is left of written answers."""
    base: str = ""
    """Of a `change`: the gates in which the first k are shut, `plus` (G+) or `ones`."""
    whole: dict[str, float] = field(default_factory=dict, repr=False)
    """Mean of each metric over the same examples with the model whole, where no k says so."""
    groups: tuple[str, ...] = field(default=(), repr=False)
    """Which examples are of one kind, such as a template: intervals resample kinds, as their examples go together."""
    provenance: Facts = field(default_factory=dict, repr=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        return (EXPLAINED, *self.values) if self.kind == "explained" else tuple(self.values)

    @property
    def draws(self) -> int:
        return len(self.values[self.metric])

    @property
    def pairs(self) -> int:
        return int(self.values[self.metric].shape[2])

    @property
    def mix(self) -> float | None:
        """Share of the most helpful units in the order `best`, which was chosen on the train split; none elsewhere."""
        mix: float | None = self.provenance.get("mix")
        return mix

    def band(self, metric: str = EXPLAINED, level: float = 0.9) -> Interval[Floats]:
        """Mean over pairs and draws, with an interval: over resampled pairs (bootstrap), or over the draws of a chance
        order, whose spread is the larger."""
        if metric not in self.metrics:
            raise HeadcountError(f"This curve has no metric {metric!r}.{did_you_mean(metric, self.metrics)}")
        low, high = np.quantile(self._samples(metric), ends_of(level), axis=0)
        return Interval(self._statistic(metric).mean((0, 1)), low, high)

    def warning(self) -> str | None:
        """Why explained effect means little here: removing all units does not lower the metric beyond chance."""
        m_none, m_all = self.band(self.metric).value[self._none_and_all]
        if not (np.isfinite(m_none) and np.isfinite(m_all)):
            return f"{self.metric} is not a number, so nothing can be explained."
        none, whole = self.values[self.metric][0][self._none_and_all]
        if np.quantile(self._resamplings() @ (whole - none), 0.05) > 0:
            return None
        return (
            f"{self.metric} is {m_all:.4g} with all {in_words(self.units)} and {m_none:.4g} with none, a fall that"
            f" resampling the {self.pairs} prompts does not tell from nothing; explained effect means little here."
        )

    def units_needed(self, threshold: float = 0.9, level: float = 0.9) -> UnitsNeeded:
        """Keeping: the smallest k with EE(k) >= threshold. Masking: the smallest k with EE(k) <= 1 - threshold.

        Only measured k count: a sweep adds points around its own threshold, for others it is as fine as the grid."""
        if not 0 < threshold <= 1:
            raise HeadcountError(
                f"A threshold of explained effect must lie above 0 and not above 1; this is {threshold}."
            )
        value = self._crossing(self.band().value[None], threshold)[0]
        crossings = self._crossing(self._samples(EXPLAINED), threshold)
        ends = np.quantile(crossings, ends_of(level), method="closest_observation")
        value, low, high = (int(k) if np.isfinite(k) else None for k in (value, *ends))
        return UnitsNeeded(value, low, high, self.total, threshold, level, self.units, self.mode)

    def area(self, kind: Literal["CPR", "CMD"], level: float = 0.9) -> Interval[float] | None:
        """MIB's areas, over the share of edges kept from 0.1 % to all: CPR, that under explained effect (higher is
        better; meant for the signed order), and CMD, that between it and 1 (0 is best; meant for the absolute order).
        None where the curve has not been measured at MIB's shares."""
        ks = [int(share * self.total) for share in MIB_SHARES]
        if self.mode != "keep" or not set(ks) <= set(self.ks):
            return None
        places = [self.ks.index(k) for k in ks]

        def areas(explained: Floats) -> Floats:
            heights = explained[..., places]
            return np.asarray(np.trapezoid(heights if kind == "CPR" else np.abs(1 - heights), MIB_SHARES, axis=-1))

        low, high = np.quantile(areas(self._samples(EXPLAINED)), ends_of(level))
        return Interval(float(areas(self._statistic(EXPLAINED)[:, 0]).mean()), float(low), float(high))

    def _crossing(self, explained: Floats, threshold: float) -> Floats:
        """The first k of each row [row, k] at which the threshold is reached; infinite where it never is."""
        # The tolerance forgives rounding in (m - m0) / (m1 - m0), nothing more.
        reached = explained >= threshold - 1e-9 if self.mode == "keep" else explained <= 1 - threshold + 1e-9
        first = np.asarray(self.ks, dtype=np.float64)[reached.argmax(1)]
        return np.where(reached.any(1), first, np.inf)

    def _samples(self, metric: str) -> Floats:
        """The statistic again and again, [sample, k]: one for each draw, or for each resampling of the pairs."""
        if self.draws > 1:
            return np.asarray(self._statistic(metric)[:, 0])
        return np.asarray(self._statistic(metric, self._resamplings())[0])

    def _resamplings(self) -> Floats:
        """Weights of the pairs in each bootstrap sample, [sample, pair]; always the same ones."""
        return resamplings(self.groups or tuple(range(self.pairs)))

    @property
    def _none_and_all(self) -> list[int]:
        """The places of the k at which none and all of the units are there."""
        return [0, -1] if self.mode == "keep" else [-1, 0]

    def _statistic(self, metric: str, weights: Floats | None = None) -> Floats:
        """Weighted means over pairs, turned into explained effect if asked for: [draw, weighting, k]."""
        weights = np.full((1, self.pairs), 1 / self.pairs) if weights is None else weights
        means: Floats = np.einsum("dkp,wp->dwk", self.values[self.metric if metric == EXPLAINED else metric], weights)
        if metric != EXPLAINED:
            return means
        m_none, m_all = (means[..., end, None] for end in self._none_and_all)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((means - m_none) / (m_all - m_none))

    def rows(self) -> list[Row]:
        """A row a metric and k."""
        facts = {name: getattr(self, name) for name in ("model", "task", "units", "method", "order", "mode", "fill")}
        return [
            {**facts, "k": k, "metric": metric, "value": float(value), "low": float(low), "high": float(high)}
            for metric in self.metrics
            for k, value, low, high in zip(self.ks, *self.band(metric), strict=True)
        ]


def ends_of(level: float) -> list[float]:
    """The shares of samples that lie below either end of an interval."""
    return [(1 - level) / 2, (1 + level) / 2]


@lru_cache(maxsize=32)
def resamplings(groups: tuple[Hashable, ...]) -> Floats:
    """Weights of the examples in each bootstrap sample, [sample, example]: whole groups are drawn, with replacement;
    always the same ones."""
    names = list(dict.fromkeys(groups))
    member = np.array([[group == name for group in groups] for name in names], dtype=np.float64)
    counts = np.random.default_rng(0).multinomial(len(names), np.full(len(names), 1 / len(names)), size=RESAMPLES)
    drawn = counts @ member
    return np.asarray(drawn / drawn.sum(1, keepdims=True))


@dataclass(frozen=True)
class Ratio:
    """How many times the units one model needs of another. The one that needs more stands first, so that a ratio is
    never below 1 and its direction never in doubt."""

    more: str
    fewer: str
    more_units: int
    fewer_units: int
    units: str

    @property
    def value(self) -> float:
        return self.more_units / self.fewer_units

    def __str__(self) -> str:
        units = in_words(self.units)
        if self.more_units == self.fewer_units:
            return f"{self.more} needs as many {units} as {self.fewer}"
        return f"{self.more} needs {self.value:.1f}x the {units} of {self.fewer}"


def compare(first: Curve, second: Curve, threshold: float = 0.9) -> Ratio | None:
    """The ratio between the units that two curves need; None where one of them needs none or never gets there."""
    sides = [(curve.units_needed(threshold).value, curve.model) for curve in (first, second)]
    counts = sorted(((count, model) for count, model in sides if count), key=lambda side: -side[0])
    if len(counts) < 2:
        return None
    (more_units, more), (fewer_units, fewer) = counts
    return Ratio(more, fewer, more_units, fewer_units, first.units)
