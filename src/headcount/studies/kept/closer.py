"""Repeats, measured closer where the mean of all of them crosses the threshold.

A sweep is fine around its own crossing. The mean of several crosses elsewhere, where each of them may be known at a few
k only, and goes from too little to too much between two of these. So every repeat has one step more, which needs the
curves of all, and measures its own units at those two k and at a few between them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from ...core.cache import Result
from ...core.words import AIMS
from ...rank.scores import EdgeScores, HeadScores
from ...sweeps import Curve, Repeats, sweep
from ...sweeps.mix import Mix
from ...sweeps.orders import Scores
from ...sweeps.sweep import points_around
from ...tasks.examples import Task
from ..plan import Job, Step, mean_length
from .told import CloserTold, GridSweeping, SweepTold

POINTS = 4
"""Between the two, at most."""


def closer_plan(number: int, curves: Sequence[Step[Curve]], scoring: Step[Result] | None, task: Task) -> Step[Curve]:
    """The curve of one of the repeats with the k that the mean of all asks for."""
    own = curves[number]
    assert own.subject is not None
    told: CloserTold = {"sweep": cast(SweepTold, own.settings)["sweep"], "own": number}
    runs, needs = (POINTS + 2) * len(task.test), (*([scoring] if scoring else []), *curves)
    words, each = f"{own.label} · closer", mean_length(task.test)
    return own.subject.step(words, closer_step, told, runs, each, needs=needs, memory=own.memory)


def closer_step(job: Job[Task, CloserTold], *needed: Scores | Curve) -> Curve:
    model, task, told = job.model, job.examples, job.settings["sweep"]
    repeats = repeats_of(job, [each for each in needed if isinstance(each, Curve)])
    own = repeats.curves[job.settings["own"]]
    missing = sorted(_wanted(repeats.pooled, told["threshold"], told["precision"]) - set(own.ks))
    if not missing:
        return own
    scores = next((each for each in needed if isinstance(each, HeadScores | EdgeScores)), None)
    mix = None if own.mix is None else Mix(own.mix, {})
    these: GridSweeping = {**told, "ks": missing, "threshold": 0.0}  # these k and no others
    return own.joined(sweep(model, task, scores, **these, mix=mix, advance=job.paid(mean_length(task.test))))


def repeats_of(job: Job[Task, CloserTold], curves: Sequence[Curve]) -> Repeats:
    """Curves of all repeats, some of which may have been made when the same model had another name."""
    return Repeats(tuple(replace(curve, model=job.model.name, task=job.examples.name) for curve in curves))


def _wanted(pooled: Curve, threshold: float, precision: float) -> set[int]:
    """Before and at the crossings of the mean, and a few k between."""
    found = set(points_around(pooled, threshold, precision, POINTS))
    for aim in AIMS:
        if k := pooled.first_k(threshold, aim):
            found |= {k, max(other for other in pooled.ks if other < k)}
    return found
