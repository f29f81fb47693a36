"""The steps of a study of roles: gates fitted on train, then heads ablated by role on test, a curve an order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.cache import Result
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
from ..plan import Found, Job, Step, Subject, mean_length
from .settings import HeadRolesPanel

HERE = __name__


@dataclass(frozen=True)
class RolesCell:
    """What was found for one task and model."""

    panel: HeadRolesPanel
    scores: HeadRoles
    curves: list[Curve]


@dataclass(frozen=True)
class RolesWork:
    panel: HeadRolesPanel
    model: str
    task: str
    title: str
    fitting: Step[HeadRoles]
    sweeps: tuple[Step[Curve], ...]
    note: str = ""

    @property
    def steps(self) -> Sequence[Step[Result]]:
        return [self.fitting, *self.sweeps]

    def gather(self, found: Found) -> RolesCell:
        names: dict[str, Any] = {"model": self.model, "task": self.task}
        curves = []
        for step in self.sweeps:
            curve, wanted = found[step], f"{self.panel.metric}_change"
            metric = wanted if wanted in curve.values else curve.metric
            curves.append(replace(curve, **names, title=self.title, metric=metric))
        return RolesCell(self.panel, replace(found[self.fitting], **names), curves)


def plan(kind: StudyKind, panel: HeadRolesPanel, name: str, model: Model, task: Task, memory: int | None) -> RolesWork:
    """A fit, and a curve for each role and for chance. How much runs at once is fixed, whatever `memory` says."""
    check_fill(panel.fill, task.train)
    subject = Subject.of(name, model, {"kind": kind.name, "panel": panel.facts()}, task, at_once=TOKENS_A_PASS)
    label, fit = f"{model.name} · {task.name}", panel.fit
    forwards, needed = fit.forwards(len(task.train)), head_bytes(model, task.train)
    fitting = Step(
        label=f"{label} · gating",
        function=f"{HERE}:fit_step",
        returns=HeadRoles,
        settings={"fit": fit.facts(), "fill": panel.fill, "seed": panel.seed},
        subject=subject,
        cost=forwards * mean_length(task.train),
        forwards=forwards,
        memory=needed,
    )
    tests = task.test[: panel.test or None]
    ks = len(role_grid(model.head_count, panel.ks))
    settings = {"ks": list(panel.ks) or None, "base": panel.base, "draws": panel.draws, "seed": panel.seed}

    def sweep_step(order: str) -> Step[Curve]:
        run = points_of_roles(ks, panel.seeds, panel.draws, [order]) * len(tests)
        return Step(
            label=f"{label} · {order}",
            function=f"{HERE}:sweep_step",
            returns=Curve,
            settings={"order": order, "test": panel.test, **settings},
            subject=subject,
            needs=(fitting,),
            cost=run * mean_length(tests),
            forwards=run,
            memory=needed,
        )

    return RolesWork(panel, model.name, task.name, task.title, fitting, tuple(map(sweep_step, ROLE_ORDERS)))


def fit_step(job: Job) -> HeadRoles:
    settings, advance = dict(job.settings), job.paid(mean_length(job.examples.train))
    fit = Fit(**settings.pop("fit"))
    return fit_roles(job.model, job.examples, fit, note=job.note, advance=advance, **settings)


def sweep_step(job: Job, roles: HeadRoles) -> Curve:
    """With no more test examples than are to be measured."""
    settings = dict(job.settings)
    order, most = settings.pop("order"), settings.pop("test")
    task = replace(job.examples, test=job.examples.test[: most or None])
    advance = job.paid(mean_length(task.test))
    return sweep_roles(job.model, task, roles, orders=[order], advance=advance, **settings)[0]
