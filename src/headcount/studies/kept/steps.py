"""The steps of a study of what is kept: scores of the units, and a sweep for each order.

Attention edges are scored prompt by prompt inside their sweep, and have no scores of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ...core.cache import Result
from ...edit import check_fill
from ...meters import TOKENS_A_PASS
from ...meters.memory import Sizes, head_bytes, plan_circuits, plan_scores, show_bytes
from ...models import Model
from ...rank import METHODS
from ...rank.fit import Fit
from ...rank.score import score
from ...rank.scores import EdgeScores, HeadScores
from ...sweeps import Curve, sweep
from ...sweeps.orders import Scores
from ...sweeps.sweep import points_to_measure
from ...sweeps.units import units_of
from ...tasks.examples import Task, pairs_only
from ..kind import StudyKind
from ..plan import Found, Job, Step, Subject, mean_length
from .settings import EdgesKept, HeadsKept, Kept, ScoredKept

HERE = __name__


@dataclass(frozen=True)
class KeptCell:
    """What was found for one task and model."""

    panel: Kept
    scores: Scores | None
    """None of attention edges."""
    curves: list[Curve]


@dataclass(frozen=True)
class KeptWork:
    panel: Kept
    model: str
    task: str
    title: str
    note: str
    """Said before the work begins."""
    scoring: Step[Any] | None
    sweeps: tuple[Step[Curve], ...]

    @property
    def steps(self) -> Sequence[Step[Result]]:
        return [*([self.scoring] if self.scoring else []), *self.sweeps]

    def gather(self, found: Found) -> KeptCell:
        """Names are no part of what defines a step: the same weights may be called differently today."""
        names: dict[str, Any] = {"model": self.model, "task": self.task}
        scores = None if self.scoring is None else replace(found[self.scoring], **names)
        curves = [replace(found[step], **names, title=self.title) for step in self.sweeps]
        return KeptCell(self.panel, scores, curves)


def plan(kind: StudyKind, panel: Kept, name: str, model: Model, task: Task, memory: int | None) -> KeptWork:
    """Scores, then a sweep for each order; refused here where memory or fill do not allow them."""
    at_once = memory if panel.units == "edges" else TOKENS_A_PASS
    asked = {"kind": kind.name, "panel": panel.facts()}
    subject = Subject.of(name, model, asked, task, at_once=at_once)
    units = units_of(model, task, None, panel.units, getattr(panel, "readers", "kv-heads"))
    score_bytes, sweep_bytes, note = _memory(panel, model, task, memory)
    label = f"{model.name} · {task.name}"
    scoring: Step[Any] | None = None
    if isinstance(panel, ScoredKept):
        method = METHODS.named(panel.method)
        train, updates = len(task.train), Fit().forwards(len(task.train)) // len(task.train)
        forwards = method.forwards(model.head_count, panel.steps, units.total, updates)
        scoring = Step(
            label=f"{label} · {panel.method}",
            function=f"{HERE}:score_step",
            returns=HeadScores if panel.units == "heads" else EdgeScores,
            settings={
                "method": panel.method,
                "code": method.source,
                "memory": memory,
                **_score_settings(panel, task),
            },
            subject=subject,
            cost=forwards * train * mean_length(task.train),
            forwards=forwards * train,
            memory=score_bytes,
        )

    def sweep_step(order: str) -> Step[Curve]:
        points = points_to_measure(units, panel.ks, panel.points, order, panel.draws, getattr(panel, "mode", "keep"))
        return Step(
            label=f"{label} · {order}",
            function=f"{HERE}:sweep_step",
            returns=Curve,
            settings={"memory": memory, **_sweep_settings(panel, task, order)},
            subject=subject,
            needs=(scoring,) if scoring is not None and order != "chance" else (),
            cost=points * len(task.test) * mean_length(task.test),
            forwards=points * len(task.test),
            memory=sweep_bytes,
        )

    sweeps = tuple(sweep_step(order) for order in panel.orders)
    return KeptWork(panel, model.name, task.name, task.title, note, scoring, sweeps)


def score_step(job: Job) -> Scores:
    settings = {key: value for key, value in job.settings.items() if key != "code"}
    return score(job.model, job.examples, advance=job.paid(mean_length(job.examples.train)), **settings)


def sweep_step(job: Job, scores: Scores | None = None) -> Curve:
    return sweep(job.model, job.examples, scores, advance=job.paid(mean_length(job.examples.test)), **job.settings)


def _score_settings(panel: ScoredKept, task: Task) -> dict[str, Any]:
    found: dict[str, Any] = {"metric": task.metric, "steps": panel.steps, "seed": panel.seed}
    if isinstance(panel, HeadsKept):
        return {**found, "fill": panel.fill, "positions": panel.positions}
    # Attribution of edges knows the counterfactual; circuits may be filled otherwise.
    return {**found, "fill": "counterfactual", "readers": cast(EdgesKept, panel).readers}


def _sweep_settings(panel: Kept, task: Task, order: str) -> dict[str, Any]:
    ks = panel.ks if isinstance(panel.ks, str) else list(panel.ks) or None
    found: dict[str, Any] = {"units": panel.units, "ks": ks, "points": panel.points, "threshold": panel.threshold}
    found |= {"precision": panel.precision, "metric": task.metric, "draws": panel.draws, "seed": panel.seed}
    found |= {getattr(panel, "mode", "keep"): order}
    if isinstance(panel, ScoredKept):
        found["fill"] = panel.fill
    if isinstance(panel, HeadsKept):
        found["positions"] = panel.positions
    if isinstance(panel, EdgesKept):
        found |= {"readers": panel.readers, "prune": panel.prune}
    return found


def _memory(panel: Kept, model: Model, task: Task, memory: int | None) -> tuple[int, int, str]:
    """Bytes beyond the model that scores and sweeps take, and that in words; or an error before anything runs."""
    if isinstance(panel, HeadsKept):
        check_fill(panel.fill, task.train)
    if not isinstance(panel, EdgesKept):
        found = head_bytes(model, task.test)
        return found, found, ""
    sizes = Sizes.of_model(model, panel.readers)
    train, test = (pairs_only(side, "A study of edges") for side in task.sides)
    scores = plan_scores(sizes, train, panel.steps, memory, model.device)
    circuits = plan_circuits(sizes, test, memory, model.device)
    note = (
        f"{model.name} · {task.name} · {sizes.graph.n_edges:,} edges; forecast beyond the model: scores"
        f" {show_bytes(scores.bytes)}, circuits {show_bytes(circuits.bytes)}"
        f" ({scores.tokens} and {circuits.tokens} tokens at a time)"
    )
    return scores.bytes, circuits.bytes, note
