"""`headcount.measure`: what is left of a task without some heads, or with them alone: every metric, with intervals.

It is one point of a sweep whose order begins with these heads, between its two ends: all heads, and none.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..core.errors import require_known
from ..core.saving import Floats, Row, Tabled
from ..core.words import MODES, Mode, Positions
from ..edit import Head, head_name
from ..edit.cut import heads_of
from ..meters import Advance, silent
from ..models import Model, require_model
from ..rank.scores import HeadScores
from ..tasks.examples import Task, require_task
from .curve import EXPLAINED, Curve, Interval
from .guessing import doubts
from .needed import count_of
from .sweep import sweep


@dataclass(frozen=True)
class Measured(Tabled):
    """Some heads masked, or kept alone, on the test split of a task."""

    heads: tuple[str, ...]
    curve: Curve
    """With none of them, with these, and with all: the ends say what the whole model does, and what none of it."""

    @property
    def accuracy(self) -> Interval[float]:
        return self.of("accuracy")

    @property
    def effect(self) -> Interval[float]:
        """Explained effect: 1 for the whole model, 0 where every head carries the fill."""
        return self.of(EXPLAINED)

    def of(self, metric: str, level: float = 0.9) -> Interval[float]:
        """The mean of a metric over the test prompts, and its interval."""
        return self.curve.at(len(self.heads), metric, level)

    def whole(self, metric: str, level: float = 0.9) -> Interval[float]:
        """The same of the whole model."""
        return self.curve.at(self.curve.total if self.curve.mode == "keep" else 0, metric, level)

    def values(self, metric: str) -> Floats:
        """A number for each test prompt."""
        require_known(metric, self.curve.values, "metric")
        return np.asarray(self.curve.values[metric][0, self.curve.ks.index(len(self.heads))])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why these numbers may mean little, as a study would say it."""
        return doubts(self.curve)

    def rows(self) -> list[Row]:
        """One row per metric."""
        facts = {"model": self.curve.model, "task": self.curve.task, "mode": self.curve.mode, "fill": self.curve.fill}
        return [
            {**facts, "metric": metric, **self.of(metric)._asdict(), "whole": self.whole(metric).value}
            for metric in self.curve.metrics
        ]

    def __str__(self) -> str:
        curve, metric = self.curve, self.curve.metric
        more = " …" if len(self.heads) > 5 else ""
        named = f"{', '.join(self.heads[:5])}{more}; " if self.heads else ""
        how = f"{count_of(len(self.heads), 'heads')} {'kept' if curve.mode == 'keep' else 'masked'}"
        shown = dict.fromkeys([metric, "accuracy"])
        told = [f"{name} {words_of(self.of(name))}, whole {self.whole(name).value:.2f}" for name in shown]
        explained = f"explained effect {words_of(self.effect)}"
        said = f"{curve.model} on {curve.task}, {how} ({named}fill {curve.fill}): {'; '.join([*told, explained])}"
        return "\n".join([said, *(f"Warning: {words}" for words in self.warnings)])


def measure(
    model: Model,
    task: Task,
    heads: "Iterable[Head | str] | Head | str",
    fill: str | None = None,
    *,
    mode: Mode = "mask",
    metric: str | None = None,
    positions: Positions = "all",
    seed: int = 0,
    advance: Advance = silent,
) -> Measured:
    """What is left of a task without some heads, on its test split.

    **Arguments:**

    - `heads`: (layer, head), counted from 0, or names such as `a3.h5`.
    - `fill`: what removed heads carry; by default the counterfactual where a task has pairs, else zero.
    - `mode`: `mask` removes these heads; `keep` removes all others.
    - `metric`: the one that explained effect speaks of; the task's own by default.
    - `positions`: where heads are removed.
    - `seed`: of the fill `resample`.
    - `advance`: told how many prompts have been run.

    The numbers are those of `headcount.sweep` at the same heads.
    """
    require_model(model)
    require_task(task, model.vocabulary)
    require_known(mode, MODES, "mode")
    chosen = heads_of(model, heads)
    first = np.zeros((1, model.n_layers, model.n_heads))
    for place, head in enumerate(chosen):
        first[0, *head] = len(chosen) - place
    names = tuple(map(head_name, chosen))
    order = HeadScores(model.name, task.name, "given", metric or task.metric, first)
    asked = {"ks": [len(chosen)], "threshold": 0, "fill": fill, "metric": metric, "positions": positions, "seed": seed}
    curve = sweep(model, task, order, **{mode: "absolute"}, **asked, advance=advance)  # type: ignore[arg-type]
    return Measured(names, curve)


def words_of(found: Interval[float]) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"
