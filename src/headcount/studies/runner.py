"""Run a study: plan its steps, let an executor do them, and write figure, tables and provenance.

    study -> plan of steps -> executor -> cells (scores, curves) -> output folder

Finished steps are found in the cache by their keys, so a killed run goes on where it stopped.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

from ..core.cache import Result, Store
from ..core.errors import HeadcountError
from ..core.files import writable_folder
from ..core.progress import progress_bar, say, waiting, warn
from ..meters.speed import SOON, require_end
from ..models import Model, load
from ..models.changes import leaves_no_trace
from ..sweeps import Curve
from ..tasks.entries import glued, is_own
from ..view.page.notebook import HEIGHT, framed
from .bench import Bench, Loader
from .executors import engaged
from .executors.in_process import in_process
from .executors.schedule import Executor, Ledger
from .kind import Cell, Summary, Together
from .left_out import left_out
from .names import named_apart
from .outputs import S, StepNamed, holds_another, results, write_common
from .plan import Asked, Found, Plan, Step, Work
from .precision import is_coarse, words_of_rounding
from .report import PAGE, read_report, write_study_report
from .study import Study, read_study

BETWEEN_WRITES = 15.0
"""Seconds between two writes of the panels that are finished, at least: a figure takes a moment."""


@dataclass(frozen=True)
class StudyResult(Generic[S]):
    study: Study
    cells: tuple[Cell, ...]
    folder: Path
    summary: S  # what summary.json says
    computed: int
    """Steps that were run; the others came from the cache."""
    cached: int

    @property
    def report(self) -> Path:
        """The page to open in a browser."""
        return self.folder / PAGE

    def _repr_html_(self) -> str:
        """The report in a notebook, in a frame of its own."""
        words = f"{self.study.title}: {'; '.join(read_report(self.folder).sentences[:3])}"
        return framed(self.report.read_text(encoding="utf-8"), words, HEIGHT["study"])

    @property
    def curves(self) -> tuple[Curve, ...]:
        return tuple(curve for cell in self.cells for curve in cell.curves)

    @property
    def scores(self) -> tuple[object, ...]:
        """`HeadScores` or `EdgeScores`, of a study of roles `HeadRoles`; none of attention edges."""
        return tuple(cell.scores for cell in self.cells)


@dataclass(frozen=True)
class Planned:
    """The steps of a study, ready for an executor."""

    works: list[list[Work[Cell]]]
    """[panel][model]."""
    together: Together | None
    plan: Plan
    of_cells: Plan
    """The same without what is done for all cells together."""
    warnings: list[str]
    """Of models in half precision, how far they are rounded; of files, that answers lack a space, or how many lines are
    left out."""

    @property
    def last(self) -> Sequence[Step[Result]]:
        """What is done for all cells together."""
        return self.together.steps if self.together else ()

    def first(self, panels: int) -> "Planned":
        return replace(self, works=self.works[:panels])

    def without_last(self, found: Found) -> Found:
        """What has been found, with the reason why there is nothing for all cells together yet."""
        reasons = {step.key: HeadcountError(f"{step.label} has not answered yet.") for step in self.last}
        return Found({**found.results, **reasons})


@leaves_no_trace
def run(
    study: str | Path,
    *,
    models: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    quick: bool = False,
    out: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    memory: int | None = None,
    loader: Loader = load,
    cache: bool = True,
    executor: Executor | str = in_process,
    long: bool = False,
    quiet: bool = False,
    width: str = "",
) -> StudyResult[Summary]:
    """Run a bundled study by its name, or a TOML file.

    **Arguments:**

    - `models`, `tasks`: in place of those that the study names.
    - `quick`: the study's smaller settings, to see whether it works.
    - `out`: the output folder; `headcount-results/NAME` by default.
    - `overrides`: other keys of the study, for all panels.
    - `memory`: bytes that edges may use beyond the model; just below a gigabyte by default, or what one prompt needs.
    - `loader`: how a model's name becomes a model; `headcount.load` by default.
    - `cache`: whether finished steps are looked up and kept.
    - `executor`: where the steps are run: in this process by default, or `"local"`, `"ray"`, `"slurm"`, or what
      `headcount.executor` gives, which takes options and keeps its workers for the next study.
    - `long`: whether it may take more than a week.
    - `width`: of the figure, `"column"` or `"page"` of a paper; as wide as its panels by default.
    """
    read = read_study(study, quick=quick, models=models, tasks=tasks, overrides=overrides, width=width)
    folder = writable_folder(Path(out) if out else Path("headcount-results") / read.name)
    with engaged(executor, loader is load) as execute, _store(cache) as store:
        return _run(read, folder, store, Bench(loader, read.models), execute, memory, long, quiet)


@contextmanager
def _store(cache: bool) -> Iterator[Store]:
    """The user's, or one for this run alone."""
    if cache:
        store = Store()
        writable_folder(store.folder)
        yield store
    else:
        with tempfile.TemporaryDirectory(prefix="headcount-") as place:
            yield Store(Path(place) / "steps")


def _run(
    read: Study,
    folder: Path,
    store: Store,
    bench: Bench,
    executor: Executor,
    memory: int | None,
    long: bool,
    quiet: bool,
) -> StudyResult[Summary]:
    ledger = Ledger()
    with waiting("planning"):
        planned = plan_study(read, bench, memory)
    _require_end(planned.plan, bench, store, long)
    # As they are run, with what the tasks decided.
    panels = [getattr(row[0], "panel", panel) for row, panel in zip(planned.works, read.panels, strict=True)]
    read = replace(read, panels=tuple(panels))
    if holds_another(folder, read):
        warn(f"{folder} holds the results of another study. These take their place; --out keeps both.")
    if not quiet:
        for note in dict.fromkeys(
            [*planned.warnings, *(work.note for row in planned.works for work in row if work.note)]
        ):
            say(note)
    with progress_bar(sum(step.cost for step in planned.plan.steps), quiet, lines=True) as bar:
        found, written = Found(), time.monotonic()
        # Panel by panel where models need not be loaded again for that, and where nobody shares the work out.
        rows = planned.works if executor is in_process and bench.holds_all else []
        for number, row in enumerate(rows[:-1], 1):
            found = executor(Plan.of([step for work in row for step in work.steps]), bench, store, bar, ledger, found)
            if time.monotonic() - written > BETWEEN_WRITES:
                _write(folder, read, planned.first(number), ledger, planned.without_last(found))
                bar.tell(f"{number} of {len(rows)} panels: {folder / 'figure.png'}")
                written = time.monotonic()
        found = executor(planned.of_cells, bench, store, bar, ledger, found)
        if any(not store.has(step.key) for step in planned.last):
            # They may wait for other programs. What is there by now is written without them first.
            _write(folder, read, planned, ledger, planned.without_last(found))
        found = executor(planned.plan, bench, store, bar, ledger, found)
    with waiting("drawing the figure and writing the report"):
        cells, summary = _write(folder, read, planned, ledger, found)
    return StudyResult(read, cells, folder, summary, len(ledger.computed), len(ledger.cached))


def _write(
    folder: Path, study: Study, planned: Planned, ledger: Ledger, found: Found
) -> tuple[tuple[Cell, ...], Summary]:
    """What has been found, into the output folder."""
    cells = [[work.gather(found) for work in row] for row in planned.works]
    if planned.together is not None:
        cells = planned.together.finish(cells, found)
    done = {**ledger.computed, **ledger.cached}
    steps: list[StepNamed] = [{"key": step.key, "label": step.label} for step in planned.plan.steps if step.key in done]
    flat = tuple(cell for row in cells for cell in row)
    with results(folder) as unfinished:
        summary: Summary = study.kind.part("outputs").write(unfinished, study, cells)
        summary["warnings"] = [*summary.get("warnings", []), *planned.warnings]
        tables = write_common(unfinished, study, flat, summary, steps)
        write_study_report(unfinished, study, cells, tables, summary)
    return flat, summary


def _require_end(plan: Plan, bench: Bench, store: Store, long: bool) -> None:
    """Of the steps that are not finished yet."""
    left = [step for step in plan.steps if step.subject and not store.has(step.key)]
    if sum(step.cost for step in left) < SOON:
        return
    tokens: dict[Model, float] = {}
    for step in left:
        assert step.subject is not None
        model = bench.model(step.subject.model, step.subject.asked)
        tokens[model] = tokens.get(model, 0.0) + step.cost
    require_end(tokens, long)


def plan_study(study: Study, bench: Bench, memory: int | None = None) -> Planned:
    """All that can be known to be wrong is said here, before anything runs: of every panel, then of its models."""
    for panel in study.panels:
        panel.check()
    kind, steps_of = study.kind, study.kind.part("steps")
    made: dict[tuple[int, str], Work[Cell]] = {}
    coarse: dict[str, str] = {}
    unused: list[str] = []
    files = (task for task in dict.fromkeys(panel.task for panel in study.panels) if is_own(task))
    unspaced = [glued(task) for task in files if Path(task).is_file()]
    for name in study.models:  # each model is loaded once, whatever the order of the panels
        for index, panel in enumerate(study.panels):
            if name in panel.models:
                asked: Asked = {"kind": kind.name, "panel": panel.facts()}
                model, examples = bench.model(name, asked), bench.examples(name, asked)
                examples = named_apart(study.panels, index, examples)
                unused.append(left_out(panel, examples))
                if is_coarse(model) and name not in coarse:
                    coarse[name] = words_of_rounding(model, examples)
                made[index, name] = steps_of.plan(kind, panel, name, model, examples, memory)
    works = [[made[index, name] for name in panel.models] for index, panel in enumerate(study.panels)]
    together: Together | None = None
    if hasattr(steps_of, "together"):
        together = steps_of.together([work for row in works for work in row])
    steps = [step for work in made.values() for step in work.steps]
    plan = Plan.of([*steps, *(together.steps if together else [])])
    warned = dict.fromkeys(filter(None, [*coarse.values(), *unspaced, *unused]))
    return Planned(works, together, plan, Plan.of(steps), list(warned))
