"""Run a study: plan its steps, let an executor do them, and write figure, tables and provenance.

    study -> plan of steps -> executor -> cells (scores, curves) -> output folder

Finished steps are found in the cache by their keys, so a killed run goes on where it stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

from ..core.cache import Store
from ..core.files import writable_folder
from ..core.progress import progress_bar, say
from ..models import load
from ..sweeps import Curve
from ..view.page.notebook import HEIGHT, framed
from .bench import Bench, Loader
from .executor import Executor, Ledger, in_process
from .kind import Cell, Summary, Together
from .outputs import S, write_common
from .plan import Plan, Work
from .precision import is_coarse, words_of_rounding
from .report import PAGE, read_report, write_study_report
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
    coarse: list[str]
    """Of models in half precision, how far they are rounded."""


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
    """
    read = read_study(study, quick=quick, models=models, tasks=tasks, overrides=overrides)
    folder = writable_folder(Path(out) if out else Path("headcount-results") / read.name)
    bench, ledger = Bench(loader, read.models), Ledger()
    planned = plan_study(read, bench, memory)
    # As they are run, with what the tasks decided.
    panels = [getattr(row[0], "panel", panel) for row, panel in zip(planned.works, read.panels, strict=True)]
    read = replace(read, panels=tuple(panels))
    if not quiet:
        for note in dict.fromkeys(
            [*planned.coarse, *(work.note for row in planned.works for work in row if work.note)]
        ):
            say(note)
    with progress_bar(sum(step.cost for step in planned.plan.steps), quiet, lines=True) as bar:
        found = executor(planned.plan, bench, Store() if cache else None, bar, ledger)
    cells = [[work.gather(found) for work in row] for row in planned.works]
    if planned.together is not None:
        cells = planned.together.finish(cells, found)
    summary: Summary = read.kind.part("outputs").write(folder, read, cells)
    summary["warnings"] = [*summary.get("warnings", []), *planned.coarse]
    done = {**ledger.computed, **ledger.cached}
    steps = [{"key": step.key, "label": step.label} for step in planned.plan.steps if step.key in done]
    flat = tuple(cell for row in cells for cell in row)
    tables = write_common(folder, read, flat, summary, steps)
    write_study_report(folder, read, cells, tables, {**summary})
    return StudyResult(read, flat, folder, summary, len(ledger.computed), len(ledger.cached))


def plan_study(study: Study, bench: Bench, memory: int | None = None) -> Planned:
    """All that can be known to be wrong is said here, before anything runs: of every panel, then of its models."""
    for panel in study.panels:
        panel.check()
    kind, steps_of = study.kind, study.kind.part("steps")
    made: dict[tuple[int, str], Work[Cell]] = {}
    coarse: dict[str, str] = {}
    for name in study.models:  # each model is loaded once, whatever the order of the panels
        for index, panel in enumerate(study.panels):
            if name in panel.models:
                asked = {"kind": kind.name, "panel": panel.facts()}
                model, examples = bench.model(name, asked), bench.examples(name, asked)
                if is_coarse(model) and name not in coarse:
                    coarse[name] = words_of_rounding(model, examples)
                made[index, name] = steps_of.plan(kind, panel, name, model, examples, memory)
    works = [[made[index, name] for name in panel.models] for index, panel in enumerate(study.panels)]
    together: Together | None = None
    if hasattr(steps_of, "together"):
        together = steps_of.together([work for row in works for work in row])
    steps = [step for work in made.values() for step in work.steps] + list(together.steps if together else [])
    return Planned(works, together, Plan.of(steps), list(coarse.values()))
