"""The study of roles: gates fitted on train, heads ablated by role on test."""

from dataclasses import dataclass, replace
from typing import Any, cast

from ..curves import Curve
from ..cuts import Fill, check_fill
from ..errors import HeadcountError
from ..measure import MAX_TOKENS
from ..models import Model
from ..progress import Bar
from ..role_sweeps import ORDERS, points_of_roles, role_grid, sweep_roles
from ..scores.gate_fit import Fit
from ..scores.gating import fit_roles
from ..scores.roles import HeadRoles
from ..tasks.examples import Example, Task
from .jobs import Job, Ledger, PanelResult, array_digest, job_of
from .spec import RolesPanel

METRICS = ("log_prob", "log_prob_per_token")


def check_roles(panel: RolesPanel) -> None:
    """What can be known to be wrong before a model is loaded."""
    Fill.parse(panel.fill)
    fit_of(panel)
    if panel.metric not in METRICS:
        raise HeadcountError(
            f"The metric of a study of roles is one of {', '.join(METRICS)}; this is {panel.metric!r}."
        )
    if isinstance(panel.ks, str):
        raise HeadcountError(f"The ks of a study of roles are a list of whole numbers; this is {panel.ks!r}.")


def fit_of(panel: RolesPanel) -> Fit:
    # `Fit` says what is wrong with its rates.
    free, pulled = cast(tuple[float, float], panel.free_rate), cast(tuple[float, float], panel.pulled_rate)
    return Fit(panel.seeds, panel.updates, panel.batch, free, pulled, panel.pull, patience=panel.patience)


@dataclass(frozen=True)
class RolesWork:
    """The jobs of one panel and one model: a fit, and a curve for each role and for chance."""

    panel: RolesPanel
    model: Model
    task: Task
    memory: int | None
    """Not asked here: how much runs at once is fixed."""

    def say_forecast(self, quiet: bool) -> None:
        """Gates need no more than a few hundred tokens' activations; but the fill may need pairs."""
        check_fill(self.panel.fill, self.task.train)

    def run(self, bar: Bar, ledger: Ledger) -> PanelResult:
        roles = self.roles(bar, ledger)
        return PanelResult(roles, [self.curve(order, roles, bar, ledger) for order in ORDERS])

    def roles(self, bar: Bar, ledger: Ledger) -> HeadRoles:
        fit, fill, seed = fit_of(self.panel), self.panel.fill, self.panel.seed
        bar.describe(f"{self.model.name} · {self.task.name} · gating")
        length = _mean_length(self.task.train)
        found = ledger.result(
            self._job("roles", self.task, fit=fit.facts(), fill=fill, seed=seed),
            HeadRoles,
            lambda: fit_roles(
                self.model, self.task, fit, fill=fill, seed=seed, note=bar.note,
                advance=lambda prompts: bar.advance(prompts * length),
            ),
            skipped=lambda: bar.advance(self._fit_cost()),
        )  # fmt: skip
        return replace(found, model=self.model.name, task=self.task.name)

    @property
    def _measured(self) -> Task:
        """The task with no more test examples than are to be measured."""
        return replace(self.task, test=self.task.test[: self.panel.test or None])

    def curve(self, order: str, roles: HeadRoles, bar: Bar, ledger: Ledger) -> Curve:
        panel, task = self.panel, self._measured
        settings: dict[str, Any] = {
            "ks": list(panel.ks) or None, "base": panel.base, "draws": panel.draws, "seed": panel.seed
        }  # fmt: skip
        bar.describe(f"{self.model.name} · {self.task.name} · {order}")
        length = _mean_length(task.test)
        found = ledger.result(
            self._job(
                "role-sweep", task, order=order, roles=array_digest(roles.plus, roles.minus), fill=roles.fill,
                **settings,
            ),
            Curve,
            lambda: sweep_roles(
                self.model, task, roles, orders=[order], advance=lambda prompts: bar.advance(prompts * length),
                **settings,
            )[0],
            skipped=lambda: bar.advance(self._sweep_cost(order)),
        )  # fmt: skip
        metric = f"{panel.metric}_change" if f"{panel.metric}_change" in found.values else found.metric
        return replace(found, model=self.model.name, task=self.task.name, title=self.task.title, metric=metric)

    def cost(self) -> float:
        """In tokens, for the progress bar."""
        return self._fit_cost() + sum(self._sweep_cost(order) for order in ORDERS)

    def _fit_cost(self) -> float:
        return fit_of(self.panel).forwards(len(self.task.train)) * _mean_length(self.task.train)

    def _sweep_cost(self, order: str) -> float:
        ks = len(role_grid(self.model.head_count, self.panel.ks))
        points = points_of_roles(ks, self.panel.seeds, self.panel.draws, [order])
        test = self._measured.test
        return points * len(test) * _mean_length(test)

    def _job(self, kind: str, task: Task, **settings: Any) -> Job:
        return job_of(kind, self.model, task, MAX_TOKENS, settings)


def _mean_length(examples: tuple[Example, ...]) -> float:
    return sum(len(example.ids) for example in examples) / len(examples)
