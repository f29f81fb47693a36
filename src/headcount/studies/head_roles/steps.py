"""The steps of a study of roles: gates fitted on train, then heads ablated by role on test, one curve per order."""

from dataclasses import dataclass, replace
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from ...core.provenance import Facts
from ...core.words import GateBase
from ...edit import check_fill
from ...meters import TOKENS_A_PASS
from ...meters.memory import head_bytes
from ...models import Model
from ...rank.fit import Fit
from ...rank.gating import fit_roles
from ...rank.roles import HeadRoles
from ...sweeps import Curve
from ...sweeps.roles import ROLE_ORDERS, points_of_roles, role_grid, sweep_roles
from ...tasks.examples import Task
from ..kind import StudyKind
from ..plan import Found, Job, Names, ScoredCell, ScoredWork, Step, Subject, as_part, mean_length, parts_of, told_by
from ..reading import reading_step
from .settings import HeadRolesPanel

RolesCell = ScoredCell[HeadRolesPanel, HeadRoles]


class FitTold(TypedDict):
    fit: Facts
    fill: str
    seed: int


class SweepTold(TypedDict):
    order: str
    test: int
    ks: Literal["halves"] | list[int] | None
    base: GateBase
    draws: int
    seed: int
    part: NotRequired[list[int]]


@dataclass(frozen=True)
class RolesWork(ScoredWork[HeadRolesPanel, HeadRoles]):
    def gather(self, found: Found) -> RolesCell:
        cell, wanted = super().gather(found), f"{self.panel.metric}_change"
        curves = [replace(curve, metric=wanted) if wanted in curve.values else curve for curve in cell.curves]
        return replace(cell, curves=curves)


def plan(kind: StudyKind, panel: HeadRolesPanel, name: str, model: Model, task: Task, memory: int | None) -> RolesWork:
    """A fit, and a curve for each role and for chance. How much runs at once is fixed, whatever `memory` says."""
    check_fill(panel.fill, task.train)
    subject = Subject.of(name, model, {"kind": kind.name, "panel": panel.facts()}, task, at_once=TOKENS_A_PASS)
    label, taken = f"{model.name} · {task.name}", head_bytes(model, task.train)
    told = FitTold(fit=panel.fit.facts(), fill=panel.fill, seed=panel.seed)
    runs, each = panel.fit.forwards(len(task.train)), mean_length(task.train)
    at_once = min(panel.fit.prompts_of_an_update(len(task.train)), max(int(TOKENS_A_PASS // 3 // each), 1))
    fitting = subject.step(f"{label} · gating", fit_step, told, runs, each, memory=taken, fitted=at_once)
    tests, ks = task.test[: panel.measured(len(task.test))], len(role_grid(model.head_count, panel.ks))
    grid = panel.ks if isinstance(panel.ks, str) else list(panel.ks) or None

    def swept(order: str) -> Step[Curve]:
        runs, each = points_of_roles(ks, panel.seeds, panel.draws, [order]) * len(tests), mean_length(tests)
        told, words, needs = told_by(panel, SweepTold, order=order, ks=grid), f"{label} · {order}", (fitting,)
        first = list[Step[Curve]]()
        for number, of in parts_of(runs * each, ks):
            some, part = SweepTold(**told, part=[number, of]), f"{words} · part {number + 1} of {of}"
            first.append(subject.step(part, sweep_step, some, runs // of, each, needs=needs, memory=taken))
        runs = len(tests) if first else runs  # the whole model is measured where parts are put together
        return subject.step(words, sweep_step, told, runs, each, needs=(*needs, *first), memory=taken)

    names = Names(model=model.name, task=task.name)
    reading = reading_step(subject, label, tests)
    return RolesWork(panel, names, task.title, fitting, tuple(map(swept, ROLE_ORDERS)), reading=reading)


def fit_step(job: Job[Task, FitTold]) -> HeadRoles:
    told, advance = job.settings, job.paid(mean_length(job.examples.train))
    how = Fit.of(told["fit"])
    return fit_roles(job.model, job.examples, how, fill=told["fill"], seed=told["seed"], note=job.note, advance=advance)


def sweep_step(job: Job[Task, SweepTold], roles: HeadRoles, *parts: Curve) -> Curve:
    """With no more test examples than are to be measured; and with its parts, where it was split."""
    told = job.settings
    task = replace(job.examples, test=job.examples.test[: told["test"] or None])
    (curve,) = sweep_roles(
        job.model,
        task,
        roles,
        orders=[told["order"]],
        ks=told["ks"],
        base=told["base"],
        draws=told["draws"],
        seed=told["seed"],
        part=as_part(told.get("part")),
        parts=parts,
        advance=job.paid(mean_length(task.test)),
    )
    return curve
