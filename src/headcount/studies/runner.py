"""Run a study: load each model once, do its jobs, and write figure, tables and provenance.

    study -> jobs (score, sweep) -> curves -> output folder

Finished jobs are found in the cache by the hash of what defines them, so a killed run goes on where it stopped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..cache import writable_folder
from ..curves import Curve
from ..cuts import Fill
from ..measure import MAX_TOKENS
from ..metrics import metric_named
from ..models import Model, load
from ..progress import Bar, progress_bar
from ..provenance import versions
from ..scores import method_named, score
from ..scores.result import HeadScores
from ..sweeps import REFINE_AT_ONCE, head_grid, sweep
from ..tasks import task as make_task
from ..tasks.pairs import Task
from .jobs import Job
from .outputs import write_outputs
from .spec import Panel, Study, read_study

Loader = Callable[[str], Model]


@dataclass(frozen=True)
class StudyResult:
    study: Study
    curves: tuple[Curve, ...]
    scores: tuple[HeadScores, ...]
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
    loader: Loader = load,
    quiet: bool = False,
) -> StudyResult:
    """Run a bundled study by its name, or a TOML file.

    **Arguments:**

    - `models`, `tasks`: in place of those that the study names.
    - `quick`: the study's smaller settings, to see whether it works.
    - `out`: the output folder; `headcount-results/NAME` by default.
    - `overrides`: other keys of the study, for all panels.
    - `loader`: how a model's name becomes a model; `headcount.load` by default.
    """
    read = read_study(study, quick=quick, models=models, tasks=tasks, overrides=overrides)
    folder = writable_folder(Path(out) if out else Path("headcount-results") / read.name)
    for panel in read.panels:  # Everything that can be known to be wrong is said before a model is loaded.
        method_named(panel.method)
        Fill.parse(panel.fill)
        if panel.metric:
            metric_named(panel.metric)
    curves: dict[tuple[int, str, str], Curve] = {}
    scores: dict[tuple[int, str], HeadScores] = {}
    counts = {"computed": 0, "cached": 0}
    for name in read.models:
        model = loader(name)
        work = [
            _PanelWork(index, panel, model, _task(panel, model))
            for index, panel in enumerate(read.panels)
            if name in panel.models
        ]
        with progress_bar(sum(part.cost() for part in work), quiet) as bar:
            for part in work:
                scores[part.index, name] = part.scores(bar, counts)
                for curve in part.curves(scores[part.index, name], bar, counts):
                    curves[part.index, name, curve.order] = curve
    # In the order of the study, whatever the order of the work.
    drawn = [
        [curves[index, name, order] for name in panel.models for order in panel.orders]
        for index, panel in enumerate(read.panels)
    ]
    listed = [scores[index, name] for index, panel in enumerate(read.panels) for name in panel.models]
    summary = write_outputs(folder, read, drawn, listed)
    return StudyResult(read, tuple(c for curves in drawn for c in curves), tuple(listed), folder, summary, **counts)


def _task(panel: Panel, model: Model) -> Task:
    made = make_task(panel.task, model, n=panel.n, seed=panel.seed)
    return replace(made, title=panel.title or made.title, metric=panel.metric or made.metric)


@dataclass(frozen=True)
class _PanelWork:
    """The jobs of one panel and one model."""

    index: int
    panel: Panel
    model: Model
    task: Task

    def scores(self, bar: Bar, counts: dict[str, int]) -> HeadScores:
        panel = self.panel
        settings: dict[str, Any] = {
            "metric": self.task.metric, "fill": panel.fill, "positions": panel.positions, "steps": panel.steps,
            "seed": panel.seed,
        }  # fmt: skip
        job = self._job("score", method=panel.method, **settings)
        compute = lambda: score(self.model, self.task, panel.method, advance=self._advance(bar), **settings)  # noqa: E731
        bar.describe(f"{self.model.name} · {self.task.name} · {panel.method}")
        found: HeadScores = self._result(job, HeadScores, compute, bar, counts, self._score_cost())
        return replace(found, model=self.model.name, task=self.task.name)

    def curves(self, scores: HeadScores, bar: Bar, counts: dict[str, int]) -> Iterator[Curve]:
        panel = self.panel
        for order in panel.orders:
            settings: dict[str, Any] = {
                panel.mode: order, "ks": panel.ks, "points": panel.points, "threshold": panel.threshold,
                "precision": panel.precision, "fill": panel.fill,
                 "positions": panel.positions, "metric": self.task.metric, "draws": panel.draws,
                "seed": panel.seed,
            }  # fmt: skip
            own_scores = None if order == "chance" else scores
            job = self._job("sweep", scores=None if own_scores is None else own_scores.values.tolist(), **settings)

            def compute(own_scores: HeadScores | None = own_scores, settings: dict[str, Any] = settings) -> Curve:
                return sweep(self.model, self.task, own_scores, advance=self._advance(bar), **settings)

            bar.describe(f"{self.model.name} · {self.task.name} · {order}")
            found: Curve = self._result(job, Curve, compute, bar, counts, self._sweep_cost(order))
            method = found.method if own_scores is None else scores.method
            yield replace(found, model=self.model.name, task=self.task.name, title=self.task.title, method=method)

    def _job(self, kind: str, **settings: Any) -> Job:
        """All that a result depends on: model, prompts, settings, versions, and how prompts share a forward."""
        return Job(
            {
                "kind": kind, "model": self.model.fingerprint, "dtype": str(self.model.hf.dtype),
                "device": self.model.device.type, "task": self.task.fingerprint, "settings": settings,
                "max_tokens": MAX_TOKENS, "versions": versions(),
            }
        )  # fmt: skip

    def _result(
        self, job: Job, kind: Any, compute: Callable[[], Any], bar: Bar, counts: dict[str, int], cost: float
    ) -> Any:
        if job.finished():
            counts["cached"] += 1
            bar.advance(cost)
        else:
            counts["computed"] += 1
        return job.result(kind, compute)

    def cost(self) -> float:
        """In tokens, for the progress bar."""
        return self._score_cost() + sum(self._sweep_cost(order) for order in self.panel.orders)

    def _score_cost(self) -> float:
        cost = method_named(self.panel.method).forwards(self.model.head_count, self.panel.steps)
        return cost * sum(len(pair.clean) for pair in self.task.train)

    def _sweep_cost(self, order: str) -> float:
        points = len(head_grid(self.model.head_count, self.panel.ks, self.panel.points))
        if order.startswith("chance"):
            points = (points - 2 + REFINE_AT_ONCE // 2) * self.panel.draws + 2
        else:
            points += REFINE_AT_ONCE
        return points * sum(len(pair.clean) for pair in self.task.test)

    def _advance(self, bar: Bar) -> Callable[[int], None]:
        """Prompts that have been run, in tokens."""
        length = sum(len(pair.clean) for pair in self.task.test) / len(self.task.test)
        return lambda prompts: bar.advance(prompts * length)
