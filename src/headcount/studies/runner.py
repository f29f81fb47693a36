"""Run a study: load each model once, do its jobs, and write figure, tables and provenance.

    study -> jobs (score, sweep) -> curves -> output folder

Finished jobs are found in the cache by the hash of what defines them, so a killed run goes on where it stopped.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ..cache import writable_folder
from ..circuits.fills import check_cut
from ..curves import Curve, Mode
from ..cuts import Fill
from ..graph import Readers
from ..measure import MAX_TOKENS
from ..memory import Sizes, plan_circuits, plan_scores, show_bytes
from ..metrics import metric_named
from ..models import Model, load
from ..models.wiring import find_graph
from ..progress import Bar, progress_bar, say, waiting
from ..provenance import versions
from ..scores import method_named, require_units, score
from ..scores.result import EdgeScores, HeadScores
from ..sweeps import points_to_measure, sweep
from ..tasks import task as make_task
from ..tasks.examples import Task, pairs_only
from .jobs import Job, R
from .outputs import write_outputs
from .spec import Panel, Study, read_study

Loader = Callable[[str], Model]
Scores = HeadScores | EdgeScores


@dataclass(frozen=True)
class StudyResult:
    study: Study
    curves: tuple[Curve, ...]
    scores: tuple[Scores, ...]
    folder: Path
    summary: dict[str, Any]
    computed: int
    """Jobs that were run; the others came from the cache."""
    cached: int


def run(
    study: str | Path,
    *,
    models: Sequence[str] = (),
    tasks: Sequence[str] = (),
    quick: bool = False,
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    memory: int | None = None,
    loader: Loader = load,
    quiet: bool = False,
) -> StudyResult:
    """Run a bundled study by its name, or a TOML file.

    **Arguments:**

    - `models`, `tasks`: in place of those that the study names.
    - `quick`: the study's smaller settings, to see whether it works.
    - `out`: the output folder; `headcount-results/NAME` by default.
    - `overrides`: other keys of the study, for all panels.
    - `memory`: bytes that edges may use beyond the model; half a gigabyte by default, or what one prompt needs.
    - `loader`: how a model's name becomes a model; `headcount.load` by default.
    """
    read = read_study(study, quick=quick, models=models, tasks=tasks, overrides=overrides)
    folder = writable_folder(Path(out) if out else Path("headcount-results") / read.name)
    for panel in read.panels:  # Everything that can be known to be wrong is said before a model is loaded.
        require_units(panel.method, panel.units)
        Fill.parse(panel.fill)
        if panel.units == "edges":
            check_cut(panel.fill, panel.positions)
        if panel.metric:
            metric_named(panel.metric)
    found: dict[tuple[int, str], tuple[Scores, list[Curve]]] = {}
    ledger = _Ledger()
    for name in read.models:
        found |= _run_model(read, name, loader, ledger, memory, quiet)
    # In the order of the study, whatever the order of the work.
    panels = [[found[index, name] for name in panel.models] for index, panel in enumerate(read.panels)]
    curves = [[curve for _, own in panel for curve in own] for panel in panels]
    scores = [own for panel in panels for own, _ in panel]
    return StudyResult(
        study=read, curves=tuple(curve for panel in curves for curve in panel), scores=tuple(scores), folder=folder,
        summary=write_outputs(folder, read, curves, scores), computed=ledger.computed, cached=ledger.cached,
    )  # fmt: skip


def _run_model(
    study: Study, name: str, loader: Loader, ledger: "_Ledger", memory: int | None, quiet: bool
) -> dict[tuple[int, str], tuple[Scores, list[Curve]]]:
    """All panels of one model, which is loaded once and gone when its curves are there: (panel, model) -> results."""
    with waiting(f"loading {name}"):
        model = loader(name)
        if sum(Path(other).name == model.name for other in study.models) > 1:
            model = replace(model, name=name)  # two folders of the same name
        _ = model.fingerprint  # takes a moment for large models
    work = {
        index: _PanelWork(panel, model, _task(panel, model), memory)
        for index, panel in enumerate(study.panels)
        if name in panel.models
    }
    found = {}
    for part in work.values():
        part.say_forecast(quiet)
    with progress_bar(sum(part.cost() for part in work.values()), quiet, lines=True) as bar:
        for index, part in work.items():
            scores = part.scores(bar, ledger)
            found[index, name] = scores, [part.curve(order, scores, bar, ledger) for order in part.panel.orders]
    return found


def _task(panel: Panel, model: Model) -> Task:
    made = make_task(panel.task, model, n=panel.n, seed=panel.seed)
    return replace(made, title=panel.title or made.title, metric=panel.metric or made.metric)


@dataclass
class _Ledger:
    """What was computed and what was found."""

    computed: int = 0
    cached: int = 0

    def result(self, job: Job, kind: type[R], compute: Callable[[], R], skipped: Callable[[], None]) -> R:
        found = job.stored(kind)
        if found is not None:
            self.cached += 1
            skipped()
            return found
        self.computed += 1
        return job.store(compute())


@dataclass(frozen=True)
class _PanelWork:
    """The jobs of one panel and one model."""

    panel: Panel
    model: Model
    task: Task
    memory: int | None

    def say_forecast(self, quiet: bool) -> None:
        """What edges will need, or an error before anything runs where one prompt is too large."""
        if self.panel.units != "edges":
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

    def scores(self, bar: Bar, ledger: _Ledger) -> Scores:
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

    def curve(self, order: str, scores: Scores, bar: Bar, ledger: _Ledger) -> Curve:
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
            self._job("sweep", scores=ordered_by and _digest(ordered_by), **settings),
            Curve,
            lambda: sweep(
                self.model, self.task, ordered_by, memory=self.memory, advance=self._advance(bar), **settings
            ),
            skipped=lambda: bar.advance(self._sweep_cost(order)),
        )
        # Names are not part of what defines a job: the same weights may be called differently today.
        method = scores.method if ordered_by else found.method
        return replace(found, model=self.model.name, task=self.task.name, title=self.task.title, method=method)

    def _of_edges(self) -> dict[str, Any]:
        return {"readers": self.panel.readers} if self.panel.units == "edges" else {}

    def _job(self, kind: str, **settings: Any) -> Job:
        """All that a result depends on: model, prompts, settings, versions, and how prompts share a forward."""
        return Job(
            {
                "kind": kind, "model": self.model.fingerprint, "dtype": str(self.model.hf.dtype),
                "device": self.model.device.type, "task": self.task.fingerprint, "settings": settings,
                "at_once": MAX_TOKENS if self.panel.units == "heads" else self.memory, "versions": versions(),
            }
        )  # fmt: skip

    def cost(self) -> float:
        """In tokens, for the progress bar."""
        return self._score_cost() + sum(self._sweep_cost(order) for order in self.panel.orders)

    def _score_cost(self) -> float:
        edges = self._total() if self.panel.units == "edges" else 0
        cost = method_named(self.panel.method).forwards(self.model.head_count, self.panel.steps, edges)
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
        return find_graph(self.model, cast(Readers, self.panel.readers)).n_edges

    def _advance(self, bar: Bar) -> Callable[[int], None]:
        """Prompts that have been run, in tokens."""
        length = sum(len(example.ids) for example in self.task.test) / len(self.task.test)
        return lambda prompts: bar.advance(prompts * length)


def _digest(scores: Scores) -> str:
    """What an order depends on."""
    return hashlib.sha256(scores.values.tobytes()).hexdigest()[:24]
