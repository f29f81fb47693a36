"""The study of what is kept: score, sweep, explained effect against number of heads or edges."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from ..attention_edges import ORDERS as ATTENTION_ORDERS
from ..attention_edges import UNITS as ATTENTION_EDGES
from ..attention_edges import edge_count, sweep_attention_edges
from ..circuits.fills import check_cut
from ..curves import Curve, Mode
from ..cuts import Fill, check_fill
from ..errors import HeadcountError
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


def check_kept(panel: KeptPanel) -> None:
    """What can be known to be wrong before a model is loaded."""
    if panel.units == "attention-edges":
        _check_attention_edges(panel)
    else:
        require_units(panel.method, panel.units)
    Fill.parse(panel.fill)
    if panel.units == "edges":
        check_cut(panel.fill, panel.positions)
    if panel.metric:
        metric_named(panel.metric)


def _check_attention_edges(panel: KeptPanel) -> None:
    """They are scored by attribution, kept, and carry the counterfactual elsewhere."""
    wanted = {"method": "attribution", "fill": "counterfactual", "positions": "all", "mode": "keep"}
    for key, only in wanted.items():
        if getattr(panel, key) != only:
            raise HeadcountError(
                f"Attention edges know the {key} {only!r} alone; the study asks for {getattr(panel, key)!r}."
            )
    if wrong := [order for order in panel.orders if order not in ATTENTION_ORDERS]:
        raise HeadcountError(f"Attention edges have no order {wrong[0]!r}. Known: {', '.join(ATTENTION_ORDERS)}.")


@dataclass(frozen=True)
class KeptWork:
    """The jobs of one panel and one model."""

    panel: KeptPanel
    model: Model
    task: Task
    memory: int | None

    def run(self, bar: Bar, ledger: Ledger) -> PanelResult:
        if self.panel.units == "attention-edges":
            return PanelResult(None, [self.attention_curve(order, bar, ledger) for order in self.panel.orders])
        scores = self.scores(bar, ledger)
        return PanelResult(scores, [self.curve(order, scores, bar, ledger) for order in self.panel.orders])

    def say_forecast(self, quiet: bool) -> None:
        """What edges will need, or an error before anything runs where one prompt is too large."""
        if self.panel.units != "edges":
            check_fill(self.panel.fill, self.task.train)
            return
        readers, device = cast(Readers, self.panel.readers), self.model.device
        sizes = Sizes.of_model(self.model, readers)
        train, test = (pairs_only(side, "A study of edges") for side in self.task.sides)
        scores = plan_scores(sizes, train, self.panel.steps, self.memory, device)
        circuits = plan_circuits(sizes, test, self.memory, device)
        if not quiet:
            say(
                f"{self.model.name} · {self.task.name} · {sizes.graph.n_edges:,} edges; forecast beyond the model:"
                f" scores {show_bytes(scores.bytes)}, circuits {show_bytes(circuits.bytes)}"
                f" ({scores.tokens} and {circuits.tokens} tokens at a time)"
            )

    def scores(self, bar: Bar, ledger: Ledger) -> Scores:
        panel = self.panel
        settings: dict[str, Any] = {
            "metric": self.task.metric, "fill": panel.fill, "positions": panel.positions, "steps": panel.steps,
            "seed": panel.seed, **self._of_edges(),
        }  # fmt: skip
        if panel.units == "edges":
            settings["fill"] = "counterfactual"  # what attribution of edges knows; circuits may be filled otherwise
        bar.describe(f"{self.model.name} · {self.task.name} · {panel.method}")
        kind: Any = EdgeScores if panel.units == "edges" else HeadScores
        found: Scores = ledger.result(
            self._job("score", method=panel.method, **settings),
            kind,
            lambda: score(
                self.model, self.task, panel.method, memory=self.memory, advance=self._advance(bar), **settings
            ),
            skipped=lambda: bar.advance(self._score_cost()),
        )
        return replace(found, model=self.model.name, task=self.task.name)

    def curve(self, order: str, scores: Scores, bar: Bar, ledger: Ledger) -> Curve:
        panel = self.panel
        ordered_by = None if order == "chance" else scores
        settings: dict[str, Any] = {
            panel.mode: order, "units": panel.units, "ks": panel.ks or None, "points": panel.points,
            "threshold": panel.threshold, "precision": panel.precision, "fill": panel.fill,
            "positions": panel.positions,
            "metric": self.task.metric, "draws": panel.draws, "seed": panel.seed, **self._of_edges(),
            **({"prune": panel.prune} if panel.units == "edges" else {}),
        }  # fmt: skip
        bar.describe(f"{self.model.name} · {self.task.name} · {order}")
        found = ledger.result(
            self._job("sweep", scores=ordered_by and array_digest(ordered_by.values), **settings),
            Curve,
            lambda: sweep(
                self.model, self.task, ordered_by, memory=self.memory, advance=self._advance(bar), **settings
            ),
            skipped=lambda: bar.advance(self._sweep_cost(order)),
        )
        # Names are not part of what defines a job: the same weights may be called differently today.
        method = scores.method if ordered_by else found.method
        return replace(found, model=self.model.name, task=self.task.name, title=self.task.title, method=method)

    def attention_curve(self, order: str, bar: Bar, ledger: Ledger) -> Curve:
        panel = self.panel
        settings: dict[str, Any] = {
            "keep": order, "ks": panel.ks or None, "points": panel.points, "threshold": panel.threshold,
            "precision": panel.precision, "metric": self.task.metric, "draws": panel.draws, "seed": panel.seed,
        }  # fmt: skip
        bar.describe(f"{self.model.name} · {self.task.name} · {ATTENTION_EDGES}, {order}")
        found = ledger.result(
            self._job("attention-sweep", **settings),
            Curve,
            lambda: sweep_attention_edges(self.model, self.task, advance=self._advance(bar), **settings),
            skipped=lambda: bar.advance(self._sweep_cost(order)),
        )
        return replace(found, model=self.model.name, task=self.task.name, title=self.task.title)

    def _of_edges(self) -> dict[str, Any]:
        return {"readers": self.panel.readers} if self.panel.units == "edges" else {}

    def _job(self, kind: str, **settings: Any) -> Job:
        at_once = self.memory if self.panel.units == "edges" else MAX_TOKENS
        return job_of(kind, self.model, self.task, at_once, settings)

    def cost(self) -> float:
        """In tokens, for the progress bar."""
        return self._score_cost() + sum(self._sweep_cost(order) for order in self.panel.orders)

    def _score_cost(self) -> float:
        if self.panel.units == "attention-edges":
            return 0
        edges = self._total() if self.panel.units == "edges" else 0
        train = len(self.task.train)
        updates = Fit().forwards(train) // train
        cost = method_named(self.panel.method).forwards(self.model.head_count, self.panel.steps, edges, updates)
        return cost * sum(len(example.ids) for example in self.task.train)

    def _sweep_cost(self, order: str) -> float:
        panel = self.panel
        mode = cast(Mode, panel.mode)
        ks, total = panel.ks or None, self._total()
        points = points_to_measure(panel.units, total, ks, panel.points, order, panel.draws, mode)
        return points * sum(len(example.ids) for example in self.task.test)

    def _total(self) -> int:
        if self.panel.units == "heads":
            return self.model.head_count
        if self.panel.units == "attention-edges":
            return edge_count(self.model, max(len(example.ids) for example in self.task.test))
        return find_graph(self.model, cast(Readers, self.panel.readers)).n_edges

    def _advance(self, bar: Bar) -> Callable[[int], None]:
        """Prompts that have been run, in tokens."""
        length = sum(len(example.ids) for example in self.task.test) / len(self.task.test)
        return lambda prompts: bar.advance(prompts * length)
