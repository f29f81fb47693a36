"""The steps of a study of what is kept: scores of the units, and a sweep for each order. (Attention edges are scored
prompt by prompt inside their sweep, and have no scores of their own.) Repeats are the same steps with other seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from ...core.cache import Result
from ...core.words import SCORE_ORDERS, Control, Mode
from ...edit import Fill, check_fill
from ...edit.attention_fills import mean_bytes
from ...meters import TOKENS_A_PASS
from ...meters.memory import Sizes, head_bytes, plan_circuits, plan_scores, show_bytes
from ...meters.metrics import require_measured
from ...models import Model
from ...rank import METHODS
from ...rank.fit import Learning, fit_for
from ...rank.score import asked_of, score
from ...rank.scores import EdgeScores, HeadScores, warn_of_another, warn_of_prompts
from ...rank.search import MASKS, search
from ...rank.search import Found as Searched
from ...sweeps import Curve, Repeats, sweep
from ...sweeps.mix import Mix, choose_mix, mix_runs
from ...sweeps.orders import Scores
from ...sweeps.sweep import points_to_measure, unit_grid
from ...sweeps.units import Asked, Edges, Heads, units_of
from ...tasks.examples import Task, pairs_only
from ...tasks.nonsense import PREFIX
from ..kind import StudyKind
from ..plan import (
    Found,
    Job,
    Names,
    ScoredCell,
    ScoredWork,
    Step,
    Subject,
    Told,
    as_part,
    mean_length,
    parts_of,
    told_by,
)
from ..reading import reading_step
from .closer import closer_plan
from .controls import control_plan
from .named import named_plan
from .settings import AttentionEdgesKept, EdgesKept, HeadsKept, Kept, ScoredKept
from .told import GivenTold, GridSweeping, ScoreAsked, ScoreTold, Scoring, SearchTold, Sweeping, SweepTold

CHANCE_SHARE = 2
"""How many times fewer points orders by chance have."""


@dataclass(frozen=True)
class KeptCell(ScoredCell[Kept, Scores | None]):
    again: list[Curve] = field(default_factory=list)
    """Of the other repeats."""
    searched: Searched | None = None
    controls: dict[Control, Curve] = field(default_factory=dict)
    """Of the first order that comes from scores."""
    named: dict[str, Repeats] = field(default_factory=dict)
    """Of every order from scores what the heads that its answer names explain, where repeats have rankings of their
    own."""

    @property
    def controlled(self) -> Curve | None:
        """The curve that the controls are of."""
        return next((curve for curve in self.curves if self.controls and curve.order in SCORE_ORDERS), None)

    def repeats(self, curve: Curve) -> Repeats:
        """A curve of this cell, and the same in the other repeats."""
        return Repeats((curve, *(other for other in self.again if other.order == curve.order)))


@dataclass(frozen=True)
class KeptWork(ScoredWork[Kept, Scores | None]):
    again: tuple[ScoredWork[Kept, Scores | None], ...] = ()
    """The other repeats."""
    searching: Step[Searched] | None = None
    controls: tuple[tuple[Control, Step[Curve]], ...] = ()
    named: Mapping[str, Sequence[Step[Curve]]] = field(default_factory=dict)
    """By order, one of each repeat."""

    @property
    def steps(self) -> Sequence[Step[Result]]:
        own = [*super().steps, *([self.searching] if self.searching else []), *(step for _, step in self.controls)]
        named = [step for steps in self.named.values() for step in steps]
        return [*own, *(step for work in self.again for step in work.steps), *named]

    def gather(self, found: Found) -> KeptCell:
        cell = super().gather(found)
        again = [curve for work in self.again for curve in work.gather(found).curves]
        searched = replace(found[self.searching], **self.names) if self.searching else None
        controls = {kind: replace(found[step], **self.names) for kind, step in self.controls}
        named = {
            order: Repeats(tuple(replace(found[step], **self.names, title=self.title) for step in steps))
            for order, steps in self.named.items()
        }
        return KeptCell(cell.panel, cell.scores, cell.curves, cell.prompts, again, searched, controls, named)


def plan(kind: StudyKind, panel: Kept, name: str, model: Model, task: Task, memory: int | None) -> KeptWork:
    """Everything once, and then as often as the panel has repeats with the seeds that follow: but for orders by chance,
    which have draws, and but for examples that another seed does not change."""
    panel = panel.for_task(task)
    first = plan_once(kind, panel, name, model, task, memory)
    ranked = [order for order in panel.orders if order in SCORE_ORDERS]
    again, drawn, seen = list[KeptWork](), [task], {task.fingerprint}
    for number in range(1, panel.repeats if ranked else 1):
        other = panel.changed(seed=panel.seed + number, repeats=1, orders=ranked, **_alone(panel))
        examples = cast(Task, other.examples(model))
        if examples.fingerprint not in seen:
            seen.add(examples.fingerprint)
            drawn.append(examples)
            again.append(plan_once(kind, other, name, model, examples, memory, f" · repeat {number + 1}"))
    # Attention edges are scored inside their sweeps, and would be scored again for a few k more.
    works = [first, *again] if panel.units == "attention-edges" else _closer([first, *again], drawn)
    named = {
        order: [named_plan(number, curves, one) for number, one in enumerate(drawn)]
        for order, curves in _by_order(works).items()
        if again and panel.units == "heads"
    }
    return replace(works[0], again=tuple(works[1:]), named=named)


def _closer(works: Sequence[KeptWork], tasks: Sequence[Task]) -> list[KeptWork]:
    """Repeats with the curves that the mean of all asks for, in all orders but by chance."""
    if len(works) == 1:
        return list(works)
    closer = {
        order: [
            closer_plan(number, curves, *of)
            for number, of in enumerate(zip((work.scoring for work in works), tasks, strict=True))
        ]
        for order, curves in _by_order(works).items()
    }
    found = list[KeptWork]()
    for number, work in enumerate(works):
        sweeps = zip(work.panel.orders, work.sweeps, strict=True)
        own = [closer[order][number] if order in closer else step for order, step in sweeps]
        found.append(replace(work, sweeps=tuple(own)))
    return found


def _by_order(works: Sequence[KeptWork]) -> dict[str, list[Step[Curve]]]:
    """The sweeps of all repeats, in all orders but by chance."""
    sweeps = [dict(zip(work.panel.orders, work.sweeps, strict=True)) for work in works]
    return {order: [own[order] for own in sweeps] for order in sweeps[0] if order in SCORE_ORDERS}


def plan_once(
    kind: StudyKind, panel: Kept, name: str, model: Model, task: Task, memory: int | None, which: str = ""
) -> KeptWork:
    """Scores, then a sweep for each order; refused here where memory or fill do not allow them."""
    at_once = memory if panel.units == "edges" else TOKENS_A_PASS
    require_measured(getattr(panel, "metric", None) or task.metric, task.test)
    subject = Subject.of(name, model, {"kind": kind.name, "panel": panel.facts()}, task, at_once=at_once)
    units = units_of(model, task, None, panel.units, getattr(panel, "readers", "kv-heads"))
    score_bytes, sweep_bytes, note = _memory(panel, model, task, memory)
    label = f"{model.name} · {task.name}{which}"
    filled = "" if panel.fill == "counterfactual" else f" · {panel.fill}"
    mode: Mode = getattr(panel, "mode", "keep")
    ks = panel.ks if isinstance(panel.ks, str) else list(panel.ks) or None

    scoring: Step[Scores] | None = None
    if isinstance(panel, HeadsKept) and panel.scores:
        given = HeadScores.load(panel.scores)
        given.require_shape(model.name, model.n_layers, model.n_heads)
        if not which:
            warn_of_another(given, model)
            warn_of_prompts(given, task)
        by_value = GivenTold(
            method=given.method,
            metric=given.metric,
            signed=given.signed,
            samples=given.samples,
            by_pair=given.by_pair.tolist(),
        )
        scoring = subject.step(f"{label} · {given.method}", given_step, by_value, 0, 0)
    elif isinstance(panel, ScoredKept):
        method, fit = METHODS.named(panel.scorer), panel.fit
        updates = fit_for(panel.scorer, fit).forwards(len(task.train)) // len(task.train)
        runs = method.forwards(model.head_count, panel.steps, units.total, updates)
        returns = HeadScores if panel.units == "heads" else EdgeScores
        # Circuits may be filled otherwise than the scores of a method that knows one fill.
        fill = panel.fills[0] if panel.units == "heads" or method.any_fill else "counterfactual"
        asked = told_by(panel, ScoreAsked, metric=task.metric, fill=fill)
        asked_of(model, task, panel.scorer, **asked, fit=fit)  # what does not go together is told before any panel runs
        words = f"{label} · {panel.scorer}{filled if fill == panel.fill else ''}"
        scoring_told = told_by(panel, Scoring, **asked, method=panel.scorer, memory=memory)
        told = ScoreTold(score=scoring_told, fit=fit.facts() if fit else None, code=method.source)
        runs, each = runs * len(task.train), mean_length(task.train)
        scoring = subject.step(words, score_step, told, runs, each, returns=returns, memory=score_bytes)

    def told_of(order: str, how: type[Told], **more: object) -> Told:
        return told_by(panel, how, metric=task.metric, memory=memory, **{mode: order}, **more)

    def swept(order: str) -> Step[Curve]:
        # Means over draws by chance are smooth, and few points do.
        points = max(panel.points // CHANCE_SHARE, 4) if order not in SCORE_ORDERS else panel.points
        runs = points_to_measure(units, ks, points, order, panel.draws, mode) * len(task.test)
        told, each = SweepTold(sweep=told_of(order, GridSweeping, ks=ks, points=points)), mean_length(task.test)
        if isinstance(panel, AttentionEdgesKept) and panel.method == "learned" and order != "chance":
            fit = Learning(updates=panel.updates) if panel.updates else Learning()
            told["learning"] = fit.facts()
            runs += 2 * fit.updates * len(task.test)
        needs: tuple[Step[Result], ...] = (scoring,) if scoring is not None and order != "chance" else ()
        words = f"{label} · {order}{filled}"
        # Attention edges are scored inside the sweep: that would be done in every part.
        alone = units.name == "attention-edges"
        grid = len(unit_grid(units.name, units.total, ks, panel.points, shares=mode == "keep"))
        first, parts = list[Step[Curve]](), parts_of(runs * each, 1 if alone else grid)
        mixing = (mix_runs(task, units.total), mean_length(task.train)) if order == "best" else (0, 0.0)
        if parts and mixing[0]:  # all parts go by one mix
            mix = subject.step(f"{words} · mix", mix_step, told, *mixing, needs=needs, memory=sweep_bytes)
            needs = (*needs, mix)
        runs += 0 if parts else mixing[0]
        for number, of in parts:
            some, part = SweepTold(**told, part=[number, of]), f"{words} · part {number + 1} of {of}"
            first.append(subject.step(part, sweep_step, some, runs // of, each, needs=needs, memory=sweep_bytes))
        runs = runs // 10 if first else runs  # points are added to the whole
        return subject.step(words, sweep_step, told, runs, each, needs=(*needs, *first), memory=sweep_bytes)

    searching: Step[Searched] | None = None
    if isinstance(panel, HeadsKept) and panel.search and scoring is not None:
        sought, runs = told_by(panel, SearchTold, metric=task.metric), MASKS * len(task.train)
        words, each, needs = f"{label} · search", mean_length(task.train), (scoring,)
        searching = subject.step(words, search_step, sought, runs, each, needs=needs, memory=score_bytes)
    sweeps: dict[str, Step[Curve]] = {order: swept(order) for order in panel.orders}
    controls = list[tuple[Control, Step[Curve]]]()
    ranked = next((order for order in sweeps if order in SCORE_ORDERS), "")
    for control in getattr(panel, "controls", ()) if ranked else ():
        scored = scoring
        if control == "nonsense":
            other = panel.changed(task=f"{PREFIX}{panel.task}", **_alone(panel))
            scored = plan_once(kind, other, name, model, cast(Task, other.examples(model)), memory, which).scoring
        assert scored is not None  # an order by scores has some
        sweeping, by = told_of(ranked, Sweeping), (scored, sweeps[ranked])
        about = scored.subject or subject
        step = control_plan(control, about, f"{label}{filled}", sweeping, task.test, by, sweep_bytes)
        controls.append((control, step))
    names = Names(model=model.name, task=task.name)
    done, reading = tuple(sweeps.values()), None if which else reading_step(subject, label, task.test)
    return KeptWork(panel, names, task.title, scoring, done, note, reading, (), searching, tuple(controls))


def _alone(panel: Kept) -> dict[str, object]:
    """Settings without what is done beside the sweeps."""
    beside = {"search": False, "controls": ()}
    return {name: value for name, value in beside.items() if hasattr(panel, name)}


def score_step(job: Job[Task, ScoreTold]) -> Scores:
    told, facts = job.settings["score"], job.settings["fit"]
    fit = fit_for(told["method"], None).changed(**facts) if facts else None
    return score(job.model, job.examples, **told, fit=fit, advance=job.paid(mean_length(job.examples.train)))


def given_step(job: Job[Task, GivenTold]) -> HeadScores:
    """Scores that were made before, by value: a step knows nothing but its settings."""
    told, by_pair = job.settings, np.array(job.settings["by_pair"])
    about = job.model.name, job.examples.name, told["method"], told["metric"]
    return HeadScores(*about, by_pair, told["samples"], told["signed"])


def search_step(job: Job[Task, SearchTold], scores: HeadScores) -> Searched:
    return search(job.model, job.examples, scores, **job.settings, advance=job.paid(mean_length(job.examples.train)))


def mix_step(job: Job[Task, SweepTold], scores: Scores) -> Mix:
    """The mix of a sweep that is then split."""
    told = job.settings["sweep"]
    mode: Mode = "mask" if "mask" in told else "keep"
    units = units_of(job.model, job.examples, scores, told["units"], told.get("readers", "kv-heads"))
    asked = Asked(
        "best", mode, told["fill"], told.get("positions", "all"), told["metric"], told["draws"], told["seed"],
        told.get("prune", False), told["memory"],
    )  # fmt: skip
    return choose_mix(
        cast(Heads | Edges, units), job.examples, asked, told["threshold"], job.paid(mean_length(job.examples.train))
    )


def sweep_step(job: Job[Task, SweepTold], *needed: Scores | Mix | Curve) -> Curve:
    """With the scores of its order, where it has some; and with its mix and its parts, where it was split."""
    told, learning = job.settings, job.settings.get("learning")
    parts = [each for each in needed if isinstance(each, Curve)]
    scores = next((each for each in needed if isinstance(each, HeadScores | EdgeScores)), None)
    mix = next((each for each in needed if isinstance(each, Mix)), None)
    return sweep(
        job.model,
        job.examples,
        scores,
        **told["sweep"],
        method="learned" if learning else "attribution",
        fit=Learning.of(learning) if learning else None,
        mix=mix,
        part=as_part(told.get("part")),
        parts=parts,
        advance=job.paid(mean_length(job.examples.test)),
    )


def _memory(panel: Kept, model: Model, task: Task, memory: int | None) -> tuple[int, int, str]:
    """Bytes beyond the model that scores and sweeps take, and that in words; or an error before anything runs."""
    if isinstance(panel, HeadsKept):
        for fill in panel.fills:
            check_fill(fill, task.train)
    if not isinstance(panel, EdgesKept):
        found = head_bytes(model, task.test)
        if panel.units == "attention-edges" and any(Fill.parse(fill).needs_reference for fill in panel.fills):
            found += mean_bytes(model, max(len(example.ids) for side in task.sides for example in side))
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
