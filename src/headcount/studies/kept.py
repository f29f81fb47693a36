"""The study of what is kept: score, sweep, explained effect against number of heads or edges.

Heads and component edges differ in how they are scored, filled and planned; what they share stands in `KeptWork`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from ..circuits.fills import check_cut
from ..curves import Curve, Mode
from ..cuts import Fill, check_fill
from ..graph import Readers
from ..measure import MAX_TOKENS
from ..memory import Sizes, plan_circuits, plan_scores, show_bytes
from ..metrics import metric_named
from ..models import Model
from ..models.wiring import find_graph
from ..progress import Bar, say
from ..scores import method_named, require_units, score
from ..scores.gate_fit import Fit
from ..scores.result import EdgeScores, HeadScores
from ..sweeps import points_to_measure, sweep
from ..tasks.examples import Task, pairs_only
from .jobs import Job, Ledger, PanelResult, array_digest, job_of
from .spec import KeptPanel

Scores = HeadScores | EdgeScores


@dataclass(frozen=True)
class KeptWork(ABC):
    """The jobs of one panel and one model."""

    panel: KeptPanel
    model: Model
    task: Task
    memory: int | None

    @classmethod
    def check(cls, panel: KeptPanel) -> None:
        """What can be known to be wrong before a model is loaded."""
        Fill.parse(panel.fill)
        if panel.metric:
            metric_named(panel.metric)

    @abstractmethod
    def run(self, bar: Bar, ledger: Ledger) -> PanelResult: ...

    @abstractmethod
    def say_forecast(self, quiet: bool) -> None:
        """What will be needed, or an error before anything runs."""

    @abstractmethod
    def total(self) -> int:
        """Units that there are."""

    def cost(self) -> float:
        """In tokens, for the progress bar."""
        return sum(self.sweep_cost(order) for order in self.panel.orders)

    def sweep_cost(self, order: str) -> float:
        panel = self.panel
        mode = cast(Mode, panel.mode)
        points = points_to_measure(panel.units, self.total(), panel.ks or None, panel.points, order, panel.draws, mode)
        return points * sum(len(example.ids) for example in self.task.test)

    def sweep_settings(self, order: str) -> dict[str, Any]:
        """What every sweep asks for, whatever its units."""
        panel = self.panel
        return {
            panel.mode: order, "ks": panel.ks or None, "points": panel.points, "threshold": panel.threshold,
            "precision": panel.precision, "metric": self.task.metric, "draws": panel.draws, "seed": panel.seed,
        }  # fmt: skip

    def job(self, kind: str, **settings: Any) -> Job:
        return job_of(kind, self.model, self.task, MAX_TOKENS, settings)

    def advance(self, bar: Bar) -> Callable[[int], None]:
        """Prompts that have been run, in tokens."""
        length = sum(len(example.ids) for example in self.task.test) / len(self.task.test)
        return lambda prompts: bar.advance(prompts * length)


class ScoredWork(KeptWork):
    """Units that are scored once for the task and then kept in the order of their scores."""

    kind: ClassVar[Any]
    """What scoring gives."""

    @classmethod
    def check(cls, panel: KeptPanel) -> None:
        require_units(panel.method, panel.units)
        super().check(panel)

    @abstractmethod
    def of_units(self) -> dict[str, Any]:
        """Settings that both scores and sweeps of these units take."""

    @abstractmethod
    def score_fill(self) -> str: ...

    def run(self, bar: Bar, ledger: Ledger) -> PanelResult:
        scores = self.scores(bar, ledger)
        return PanelResult(scores, [self.curve(order, scores, bar, ledger) for order in self.panel.orders])

    def scores(self, bar: Bar, ledger: Ledger) -> Scores:
        panel = self.panel
        settings: dict[str, Any] = {
            "metric": self.task.metric, "fill": self.score_fill(), "positions": panel.positions, "steps": panel.steps,
            "seed": panel.seed, **self.of_units(),
        }  # fmt: skip
        bar.describe(f"{self.model.name} · {self.task.name} · {panel.method}")
        found: Scores = ledger.result(
            self.job("score", method=panel.method, **settings),
            self.kind,
            lambda: score(
                self.model, self.task, panel.method, memory=self.memory, advance=self.advance(bar), **settings
            ),
            skipped=lambda: bar.advance(self.score_cost()),
        )
        return replace(found, model=self.model.name, task=self.task.name)

    def curve(self, order: str, scores: Scores, bar: Bar, ledger: Ledger) -> Curve:
        ordered_by = None if order == "chance" else scores
        settings = self.sweep_settings(order)
        bar.describe(f"{self.model.name} · {self.task.name} · {order}")
        found = ledger.result(
            self.job("sweep", scores=ordered_by and array_digest(ordered_by.values), **settings),
            Curve,
            lambda: sweep(self.model, self.task, ordered_by, memory=self.memory, advance=self.advance(bar), **settings),
            skipped=lambda: bar.advance(self.sweep_cost(order)),
        )
        # Names are not part of what defines a job: the same weights may be called differently today.
        method = scores.method if ordered_by else found.method
        return replace(found, model=self.model.name, task=self.task.name, title=self.task.title, method=method)

    def sweep_settings(self, order: str) -> dict[str, Any]:
        panel = self.panel
        of_study = {"units": panel.units, "fill": panel.fill, "positions": panel.positions}
        return super().sweep_settings(order) | of_study | self.of_units()

    def cost(self) -> float:
        return self.score_cost() + super().cost()

    def score_cost(self) -> float:
        train = len(self.task.train)
        updates = Fit().forwards(train) // train
        method = method_named(self.panel.method)
        cost = method.forwards(self.model.head_count, self.panel.steps, self.total(), updates)
        return cost * sum(len(example.ids) for example in self.task.train)


class HeadsWork(ScoredWork):
    kind = HeadScores

    def of_units(self) -> dict[str, Any]:
        return {}

    def score_fill(self) -> str:
        return self.panel.fill

    def total(self) -> int:
        return self.model.head_count

    def say_forecast(self, quiet: bool) -> None:
        check_fill(self.panel.fill, self.task.train)


class EdgesWork(ScoredWork):
    kind = EdgeScores

    @classmethod
    def check(cls, panel: KeptPanel) -> None:
        super().check(panel)
        check_cut(panel.fill, panel.positions)

    @property
    def readers(self) -> Readers:
        return cast(Readers, self.panel.readers)

    def of_units(self) -> dict[str, Any]:
        return {"readers": self.panel.readers}

    def score_fill(self) -> str:
        return "counterfactual"  # what attribution of edges knows; circuits may be filled otherwise

    def sweep_settings(self, order: str) -> dict[str, Any]:
        return super().sweep_settings(order) | {"prune": self.panel.prune}

    def job(self, kind: str, **settings: Any) -> Job:
        return job_of(kind, self.model, self.task, self.memory, settings)

    def total(self) -> int:
        return find_graph(self.model, self.readers).n_edges

    def say_forecast(self, quiet: bool) -> None:
        sizes = Sizes.of_model(self.model, self.readers)
        train, test = (pairs_only(side, "A study of edges") for side in self.task.sides)
        scores = plan_scores(sizes, train, self.panel.steps, self.memory, self.model.device)
        circuits = plan_circuits(sizes, test, self.memory, self.model.device)
        if not quiet:
            say(
                f"{self.model.name} · {self.task.name} · {sizes.graph.n_edges:,} edges; forecast beyond the model:"
                f" scores {show_bytes(scores.bytes)}, circuits {show_bytes(circuits.bytes)}"
                f" ({scores.tokens} and {circuits.tokens} tokens at a time)"
            )
