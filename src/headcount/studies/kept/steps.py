"""The steps of a study of what is kept: scores of the units, and a sweep for each order. (Attention edges are scored
prompt by prompt inside their sweep, and have no scores of their own.)"""

from typing import Any

from ...core.words import Mode
from ...edit import check_fill
from ...meters import TOKENS_A_PASS
from ...meters.memory import Sizes, head_bytes, plan_circuits, plan_scores, show_bytes
from ...models import Model
from ...rank import METHODS
from ...rank.fit import fit_for
from ...rank.score import score
from ...rank.scores import EdgeScores, HeadScores
from ...sweeps import Curve, sweep
from ...sweeps.orders import Scores
from ...sweeps.sweep import points_to_measure
from ...sweeps.units import units_of
from ...tasks.examples import Task, pairs_only
from ..kind import StudyKind
from ..plan import Job, ScoredCell, ScoredWork, Step, Subject, mean_length
from .settings import EdgesKept, HeadsKept, Kept, ScoredKept

SCORED = ("method", "fill", "steps", "seed", "positions", "readers")
SWEPT = ("units", "points", "threshold", "precision", "draws", "seed", "fill", "positions", "readers", "prune")
"""Settings of a panel, where it has them, that scores and sweeps are told."""

KeptCell = ScoredCell[Kept, Scores | None]
KeptWork = ScoredWork[Kept, Scores | None]


def plan(kind: StudyKind, panel: Kept, name: str, model: Model, task: Task, memory: int | None) -> KeptWork:
    """Scores, then a sweep for each order; refused here where memory or fill do not allow them."""
    at_once = memory if panel.units == "edges" else TOKENS_A_PASS
    subject = Subject.of(name, model, {"kind": kind.name, "panel": panel.facts()}, task, at_once=at_once)
    units = units_of(model, task, None, panel.units, getattr(panel, "readers", "kv-heads"))
    score_bytes, sweep_bytes, note = _memory(panel, model, task, memory)
    label = f"{model.name} · {task.name}"
    mode: Mode = getattr(panel, "mode", "keep")
    ks = panel.ks if isinstance(panel.ks, str) else list(panel.ks) or None

    def told(names: tuple[str, ...], **more: object) -> dict[str, Any]:
        own = {name: getattr(panel, name) for name in names if hasattr(panel, name)}
        return {"memory": memory, "metric": task.metric, **own, **more}

    scoring: Step[Any] | None = None
    if isinstance(panel, ScoredKept):
        method, updates = (
            METHODS.named(panel.method),
            fit_for(panel.method, None).forwards(len(task.train)) // len(task.train),
        )
        runs = method.forwards(model.head_count, panel.steps, units.total, updates)
        returns = HeadScores if panel.units == "heads" else EdgeScores
        settings = told(SCORED, code=method.source)
        if panel.units == "edges":
            settings["fill"] = "counterfactual"  # all that their attribution knows; circuits may be filled otherwise
        runs, rest = runs * len(task.train), {"returns": returns, "memory": score_bytes}
        scoring = subject.step(f"{label} · {panel.method}", score_step, settings, runs, mean_length(task.train), **rest)

    def swept(order: str) -> Step[Curve]:
        runs = points_to_measure(units, ks, panel.points, order, panel.draws, mode) * len(task.test)
        settings, each = told(SWEPT, ks=ks, **{mode: order}), mean_length(task.test)
        needs = (scoring,) if scoring is not None and order != "chance" else ()
        return subject.step(f"{label} · {order}", sweep_step, settings, runs, each, needs=needs, memory=sweep_bytes)

    names = {"model": model.name, "task": task.name}
    return KeptWork(panel, names, task.title, scoring, tuple(map(swept, panel.orders)), note)


def score_step(job: Job) -> Scores:
    settings = {key: value for key, value in job.settings.items() if key != "code"}
    return score(job.model, job.examples, advance=job.paid(mean_length(job.examples.train)), **settings)


def sweep_step(job: Job, scores: Scores | None = None) -> Curve:
    return sweep(job.model, job.examples, scores, advance=job.paid(mean_length(job.examples.test)), **job.settings)


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
