"""A curve: what is left of a behaviour against the number of units kept or masked, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from ..core.errors import HeadcountError, did_you_mean, require_known
from ..core.provenance import Facts
from ..core.saving import Floats, Row, Saved, Tabled
from ..core.shown import Shown
from ..core.words import AIMS, Aim, CurveKind, Mode, in_words
from ..meters.metrics import range_of
from .needed import (
    NEAR,
    ROUNDING,
    Bools,
    Closeness,
    Confirmed,
    UnitsNeeded,
    first_k,
    holds,
    interval_of_k,
    resampled_first_k,
    stays_from,
    upper_first_ks,
    whole_number,
)
from .resampling import ends_of, resamplings, share_ends

T = TypeVar("T")
EXPLAINED = "explained_effect"
MIB_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The shares of all edges at which MIB (Mueller et al. 2025, arXiv 2504.13151) measures a circuit."""
DRAW_STREAM = 1000
FEWEST_PROMPTS = 5
"""Below which an interval is warned of: resampling n prompts shows 1 - 1/n of their variance."""


class Interval(NamedTuple, Generic[T]):
    """A number, or one at every k, and the ends of its interval."""

    value: T
    low: T
    high: T


@dataclass(frozen=True, eq=False)
class Curve(Saved, Tabled, Shown):
    """Every metric of every test pair at every k, from which means, intervals and explained effect are computed.

    Explained effect: EE(k) = (m(k) - m(none)) / (m(all) - m(none)), m being the mean of the curve's metric over pairs;
    with none of the units kept every unit carries the fill, with all of them the model is whole.
    """

    FILE: ClassVar[str] = "curve"
    AXES: ClassVar[dict[str, tuple[str, ...]]] = {"ks": ("k",), "values": ("draw", "k", "pair")}

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
    own: dict[str, Floats] = field(default_factory=dict, repr=False)
    """Of attention edges in an order of scores, which every prompt has for itself: the first of each prompt by its
    number, [edge, 5], with layer, head, query, key and score."""
    said: dict[str, Floats] = field(default_factory=dict, repr=False)
    """Of an order of scores: the most probable next token (`said`, its id) and its probability (`said_chance`), each
    [k, pair]."""
    words: dict[str, str] = field(default_factory=dict, repr=False)
    """The tokens that are said as texts, by their ids."""
    provenance: Facts = field(default_factory=dict, repr=False)

    def require_sound(self) -> None:
        if self.metric not in self.values or list(self.ks) != sorted(set(self.ks)):
            raise ValueError("its metric or its ks are not those of its values")
        if len(self.groups) not in (0, self.pairs) or any(
            own.ndim != 2 or own.shape[1] != 5 for own in self.own.values()
        ):
            raise ValueError("its groups or edges are not those of its prompts")
        if self.provenance.get("mix") is not None and not (self.mix is not None and 0 <= self.mix <= 1):
            raise ValueError("its mix is no share")

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
        mix = self.provenance.get("mix")
        return mix if isinstance(mix, float | int) else None

    def band(self, metric: str = EXPLAINED, level: float = 0.9) -> Interval[Floats]:
        """Mean over pairs and draws, with an interval over both, resampled together: of a chance order its draws and
        the pairs, of any other the pairs. Neither goes beyond what the metric can be: intervals are widened for few
        groups, and know nothing of that; nor do sums of rounded numbers."""
        if metric not in self.metrics:
            raise HeadcountError(f"This curve has no metric {metric!r}.{did_you_mean(metric, self.metrics)}")
        value, samples = self._mean(metric), self._samples(metric, level)
        if metric != EXPLAINED and np.isin(self.values[metric], (0, 1)).all():
            return Interval(value, *share_ends(value, samples, len(set(self._groups)), self.pairs, level))
        low, high = np.quantile(samples, ends_of(level), axis=0)
        return Interval(*(np.clip(each, *range_of(metric)) for each in (value, low, high)))

    def warning(self) -> str | None:
        """Why explained effect means little here: removing all units does not lower the metric beyond chance."""
        m_none, m_all = self._mean(self.metric)[self._none_and_all]
        if not (np.isfinite(m_none) and np.isfinite(m_all)):
            return f"{self.metric} is not a number, so nothing can be explained."
        none, whole = self.values[self.metric][0][self._none_and_all]
        if np.quantile(resamplings(self._groups) @ (whole - none), ends_of(0.9)[0]) > 0:
            return None
        return (
            f"{self.metric} is {m_all:.4g} with all {in_words(self.units)} and {m_none:.4g} with none, a fall that"
            f" resampling the {self.pairs} prompts does not tell from nothing; explained effect means little here."
        )

    def too_few(self) -> str | None:
        """Why its intervals mean little."""
        few = "one prompt" if self.pairs == 1 else f"{self.pairs} prompts"
        said = f"this was measured on {few}, and intervals over so few are too narrow. Give more examples."
        return said if self.pairs < FEWEST_PROMPTS else None

    def units_needed(self, threshold: float = 0.9, level: float = 0.9, aim: Aim = "faithful") -> UnitsNeeded:
        """The smallest k that is faithful, or that has reached the threshold: see `needed.py`.

        Only measured k count: a sweep adds points around its own threshold, for others it is as fine as the grid."""
        return self.needed_at((threshold,), level, aim)[0]

    def needed_at(
        self, thresholds: Sequence[float], level: float = 0.9, aim: Aim = "faithful", jumps: bool = True
    ) -> tuple[UnitsNeeded, ...]:
        """`units_needed` at many thresholds, from the same resamplings. `jumps`: whether one unit more can take it past
        the range, as with one ranking; see `needed.py`."""
        require_known(aim, AIMS, "aim")
        ks, done = np.asarray(self.ks, dtype=np.float64), self._counted(self._mean(EXPLAINED), aim)
        samples = self._counted(self._samples(EXPLAINED, level), aim)
        ends = np.quantile(samples, ends_of(level), axis=0)
        uppers = upper_first_ks(ks, samples, thresholds, level, aim, jumps)
        found = []
        for at, upper in zip(thresholds, uppers.tolist(), strict=True):
            interval = interval_of_k(ks, done, ends, upper, at, aim)
            numbers = map(whole_number, (*interval, stays_from(ks, holds(done, at, aim))))
            value, low, high, stays = numbers
            found.append(UnitsNeeded(value, low, high, self.total, at, level, self.units, self.mode, aim, stays))
        return tuple(found)

    def first_k(self, threshold: float, aim: Aim = "faithful") -> int | None:
        """`units_needed` without an interval."""
        require_known(aim, AIMS, "aim")
        done = self._counted(self._mean(EXPLAINED), aim)
        return whole_number(float(first_k(np.asarray(self.ks, dtype=np.float64), holds(done, threshold, aim))))

    def crossings(
        self, threshold: float, level: float | None, aim: Aim = "faithful", stream: int = 0, jumps: bool = True
    ) -> Floats:
        """The same in every resampling, [sample]; infinite where it never comes to that."""
        samples = self._counted(self._samples(EXPLAINED, level, stream), aim)
        return resampled_first_k(np.asarray(self.ks, dtype=np.float64), samples, threshold, aim, jumps)

    def joined(self, other: "Curve") -> "Curve":
        """This curve, and what another one of the same order and prompts has at other k."""
        new = [place for place, k in enumerate(other.ks) if k not in self.ks]
        ks = np.array([*self.ks, *(other.ks[place] for place in new)])
        order = ks.argsort()

        def together(own: dict[str, Floats], more: dict[str, Floats], axis: int) -> dict[str, Floats]:
            pairs = {name: (value, more[name].take(new, axis)) for name, value in own.items()}
            return {name: np.concatenate(both, axis).take(order, axis) for name, both in pairs.items()}

        values, said = together(self.values, other.values, 1), together(self.said, other.said, 0)
        words = {**other.words, **self.words}
        return replace(self, ks=tuple(ks[order].tolist()), values=values, said=said, words=words)

    def at(self, k: int, metric: str = EXPLAINED, level: float = 0.9) -> Interval[float]:
        """A metric with the first k units, where that was measured."""
        place = self._place(k)
        return Interval(*(float(each[place]) for each in self.band(metric, level)))

    def closeness(self, k: int) -> Closeness:
        """How close the first k units come to the whole model, prompt by prompt; of a chance order, in the mean of its
        draws."""
        values, place = self.values[self.metric], self._place(k)
        none, whole = (values[:, end] for end in self._none_and_all)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.abs(whole - values[:, place]) / np.abs((whole - none).mean())
        kl = float(self.values["kl"][:, place].mean()) if "kl" in self.values else None
        return Closeness(k, float(apart.mean()), float((apart <= NEAR).mean()), kl)

    def confirmed(self, threshold: float = 0.9, level: float = 0.9, aim: Aim = "faithful") -> Confirmed | None:
        """Explained effect on one half of the test prompts at the k that the other half chooses; None where a half
        would have fewer than two prompts (or groups), or chooses none. It costs no run of the model, since every prompt
        has its own values. The k to choose from were measured, some of them around the crossing of all prompts."""
        chosen_on, confirmed_on = self._halves()
        if len(set(confirmed_on._groups)) < 2 or (k := chosen_on.first_k(threshold, aim)) is None:
            return None
        return Confirmed(k, *confirmed_on.at(k, level=level), level, self.units, self.mode)

    def area(self, kind: Literal["CPR", "CMD"], level: float = 0.9) -> Interval[float] | None:
        """MIB's areas, over the share of edges kept from 0.1 % to all: CPR, that under explained effect (higher is
        better; meant for the signed order), and CMD, that between it and 1 (0 is best; meant for the absolute order).
        None where the curve has not been measured at MIB's shares."""
        require_known(kind, ("CPR", "CMD"), "area of MIB's")
        ks = [int(share * self.total) for share in MIB_SHARES]
        if self.mode != "keep" or not set(ks) <= set(self.ks):
            return None
        places = [self.ks.index(k) for k in ks]

        def areas(explained: Floats) -> Floats:
            heights = explained[..., places]
            return np.asarray(np.trapezoid(heights if kind == "CPR" else np.abs(1 - heights), MIB_SHARES, axis=-1))

        low, high = np.quantile(areas(self._samples(EXPLAINED, level)), ends_of(level))
        return Interval(float(areas(self._mean(EXPLAINED))), float(low), float(high))

    def _place(self, k: int) -> int:
        if k not in self.ks:
            near = min(self.ks, key=lambda other: abs(other - k))
            raise HeadcountError(f"This needs a k that was measured; {k} was not. The nearest one is {near}.")
        return self.ks.index(k)

    @property
    def _groups(self) -> tuple[str | int, ...]:
        return self.groups or tuple(range(self.pairs))

    @property
    def _none_and_all(self) -> list[int]:
        """The places of the k at which none and all of the units are there."""
        return [0, -1] if self.mode == "keep" else [-1, 0]

    def _halves(self) -> tuple["Curve", "Curve"]:
        """The same curve on every other prompt (or group), and on those between."""
        place = {group: number for number, group in enumerate(dict.fromkeys(self._groups))}
        odd = np.array([place[group] % 2 for group in self._groups], dtype=bool)

        def part(chosen: Bools) -> "Curve":
            groups = tuple(group for group, inside in zip(self.groups, chosen, strict=False) if inside)
            values = {name: value[..., chosen] for name, value in self.values.items()}
            return replace(self, values=values, groups=groups, said={})

        return part(~odd), part(odd)

    def _counted(self, explained: Floats, aim: Aim) -> Floats:
        """What is there of the effect, or, masked, gone; not a number where it counts for nothing, as the model is
        astray there and *faithful* is asked for."""
        done = explained if self.mode == "keep" else 1 - explained
        return np.where(self._astray, np.nan, done) if aim == "faithful" else done

    @property
    def _astray(self) -> Bools:
        """The k at which the next token is further (KL) from the whole model's than with no unit kept, [k]: there two
        answers may be as far apart as they should be by chance, in a model that says neither."""
        if self.mode == "mask" or "kl" not in self.values:
            return np.zeros(len(self.ks), dtype=bool)
        kl = self.values["kl"].mean((0, 2))
        return np.asarray(kl > kl[0] + ROUNDING)

    def _mean(self, metric: str) -> Floats:
        """Over pairs and draws, [k]."""
        means = self.values[self.metric if metric == EXPLAINED else metric].mean((0, 2))
        return self._explained(means) if metric == EXPLAINED else np.asarray(means)

    def _samples(self, metric: str, level: float | None, stream: int = 0) -> Floats:
        """The same for every resampling of the pairs and draws, [sample, k]; the same pairs for every metric and k."""
        values = self.values[self.metric if metric == EXPLAINED else metric]
        by_draw = np.matmul(resamplings(self._groups, level, stream), values.transpose(0, 2, 1))  # [draw, sample, k]
        # Draws have a stream of their own: as many of them as of pairs would otherwise be drawn alike.
        of_draws = resamplings(tuple(range(self.draws)), level, stream + DRAW_STREAM)
        means = np.asarray(np.einsum("dsk,sd->sk", by_draw, of_draws))
        return self._explained(means) if metric == EXPLAINED else means

    def _explained(self, means: Floats) -> Floats:
        """Explained effect of mean metrics, [..., k]."""
        m_none, m_all = (means[..., end, None] for end in self._none_and_all)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((means - m_none) / (m_all - m_none))

    def rows(self) -> list[Row]:
        """One row per metric and k."""
        facts = {name: getattr(self, name) for name in ("model", "task", "units", "method", "order", "mode", "fill")}
        return [
            {**facts, "k": k, "metric": metric, "value": float(value), "low": float(low), "high": float(high)}
            for metric in self.metrics
            for k, value, low, high in zip(self.ks, *self.band(metric), strict=True)
        ]
