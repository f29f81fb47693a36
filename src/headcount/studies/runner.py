"""Run a study: plan its steps, let an executor do them, and write figure, tables and provenance.

    study -> plan of steps -> executor -> cells (scores, curves) -> output folder

Finished steps are found in the cache by their keys, so a killed run goes on where it stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from ..core.cache import Store
from ..core.files import writable_folder
from ..core.progress import progress_bar, say
from ..meters.speed import SOON, require_end
from ..models import load
from ..sweeps import Curve
from .bench import Bench, Loader
from .executor import Executor, Ledger, in_process
from .kind import Cell, Summary, Together
from .outputs import S, write_common
from .plan import Plan, Work
from .study import Study, read_study


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


def run(
    study: str | Path,
    *,
    models: Sequence[str] = (),
    tasks: Sequence[str] = (),
    quick: bool = False,
    out: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    memory: int | None = None,
    loader: Loader = load,
    cache: bool = True,
    executor: Executor = in_process,
    long: bool = False,
    quiet: bool = False,
) -> StudyResult[Summary]:
    """Run a bundled study by its name, or a TOML file.

    **Arguments:**

    - `models`, `tasks`: in place of those that the study names.
    - `quick`: the study's smaller settings, to see whether it works.
    - `out`: the output folder; `headcount-results/NAME` by default.
    - `overrides`: other keys of the study, for all panels.
    - `memory`: bytes that edges may use beyond the model; half a gigabyte by default, or what one prompt needs.
    - `loader`: how a model's name becomes a model; `headcount.load` by default.
    - `cache`: whether finished steps are looked up and kept.
    - `executor`: what takes the plan; in this process by default.
    - `long`: whether it may take more than a week.
    """
    read = read_study(study, quick=quick, models=models, tasks=tasks, overrides=overrides)
    folder = writable_folder(Path(out) if out else Path("headcount-results") / read.name)
    bench, ledger = Bench(loader, read.models), Ledger()
    planned, store = plan_study(read, bench, memory), Store() if cache else None
    _require_end(planned.plan, bench, store, long)
    if not quiet:
        for note in dict.fromkeys(work.note for row in planned.works for work in row if work.note):
            say(note)
    with progress_bar(sum(step.cost for step in planned.plan.steps), quiet, lines=True) as bar:
        found = executor(planned.plan, bench, store, bar, ledger)
    cells = [[work.gather(found) for work in row] for row in planned.works]
    if planned.together is not None:
        cells = planned.together.finish(cells, found)
    summary: Summary = read.kind.part("outputs").write(folder, read, cells)
    done = {**ledger.computed, **ledger.cached}
    steps = [{"key": step.key, "label": step.label} for step in planned.plan.steps if step.key in done]
    flat = tuple(cell for row in cells for cell in row)
    write_common(folder, read, flat, summary, steps)
    return StudyResult(read, flat, folder, summary, len(ledger.computed), len(ledger.cached))


def _require_end(plan: Plan, bench: Bench, store: Store | None, long: bool) -> None:
    """Of the steps that are not finished yet."""
    tokens: dict[str, float] = {}
    for step in plan.steps:
        if step.subject is not None and not (store and store.has(step.key)):
            tokens[step.subject.model] = tokens.get(step.subject.model, 0.0) + step.cost
    if sum(tokens.values()) >= SOON:
        require_end({bench.model(name): count for name, count in tokens.items()}, long)


def plan_study(study: Study, bench: Bench, memory: int | None = None) -> Planned:
    """All that can be known to be wrong is said here, before anything runs: of every panel, then of its models."""
    for panel in study.panels:
        panel.check()
    kind, steps_of = study.kind, study.kind.part("steps")
    made: dict[tuple[int, str], Work[Cell]] = {}
    for name in study.models:  # each model is loaded once, whatever the order of the panels
        for index, panel in enumerate(study.panels):
            if name in panel.models:
                examples = bench.examples(name, {"kind": kind.name, "panel": panel.facts()})
                made[index, name] = steps_of.plan(kind, panel, name, bench.model(name), examples, memory)
    works = [[made[index, name] for name in panel.models] for index, panel in enumerate(study.panels)]
    together: Together | None = None
    if hasattr(steps_of, "together"):
        together = steps_of.together([work for row in works for work in row])
    steps = [step for work in made.values() for step in work.steps] + list(together.steps if together else [])
    return Planned(works, together, Plan.of(steps))
