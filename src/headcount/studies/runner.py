"""Run a study: load each model once, do its jobs, and write figure, tables and provenance.

    study -> jobs (score or fit, sweep) -> curves -> output folder

Finished jobs are found in the cache by the hash of what defines them, so a killed run goes on where it stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ..cache import writable_folder
from ..curves import Curve
from ..models import Model, load
from ..progress import Bar, progress_bar, waiting
from ..tasks import task as make_task
from ..tasks.examples import Task
from .jobs import Ledger, PanelResult
from .kept import EdgesWork, HeadsWork, KeptWork
from .kept_attention import AttentionEdgesWork
from .kept_outputs import write_kept
from .masked import MaskedWork, check_masked, panel_questions
from .masked_comet import add_comet
from .masked_outputs import write_masked
from .roles import RolesWork, check_roles
from .roles_outputs import write_roles
from .spec import KeptPanel, Panel, Study, read_study

Loader = Callable[[str], Model]


class Work(Protocol):
    """The jobs of one panel and one model."""

    def say_forecast(self, quiet: bool) -> None: ...

    def cost(self) -> float: ...

    def run(self, bar: Bar, ledger: Ledger) -> PanelResult: ...


@dataclass(frozen=True)
class Kind:
    """What sets one kind of study apart from another."""

    check: Callable[[Any], None]
    """Says what is wrong with a panel before a model is loaded."""
    prepare: Callable[[Any, Model], Any]
    """What a panel asks of a model: a task, or questions."""
    work: Callable[[Any, Model, Any, int | None], Work]
    finish: Callable[[list[list[PanelResult]]], list[list[PanelResult]]]
    """What is done once for all panels together."""
    write: Callable[[Path, Study, Sequence[Sequence[PanelResult]]], dict[str, Any]]
    """Writes the output folder and returns the summary."""


def _task(panel: Panel, model: Model) -> Task:
    made = make_task(panel.task, model, n=panel.n, seed=panel.seed)
    return replace(made, title=panel.title or made.title, metric=panel.metric or made.metric)


KEPT: dict[str, type[KeptWork]] = {"heads": HeadsWork, "edges": EdgesWork, "attention-edges": AttentionEdgesWork}
"""By the units that a panel asks for."""


def _check_kept(panel: KeptPanel) -> None:
    KEPT[panel.units].check(panel)


def _kept_work(panel: KeptPanel, model: Model, task: Task, memory: int | None) -> KeptWork:
    return KEPT[panel.units](panel, model, task, memory)


KINDS = {
    "kept": Kind(_check_kept, _task, _kept_work, list, write_kept),
    "roles": Kind(check_roles, _task, RolesWork, list, write_roles),
    "masked": Kind(check_masked, panel_questions, MaskedWork, add_comet, write_masked),
}


@dataclass(frozen=True)
class StudyResult:
    study: Study
    curves: tuple[Curve, ...]
    scores: tuple[Any, ...]
    """`HeadScores` or `EdgeScores`, of a study of roles `HeadRoles`, of one of masked heads `MaskedCell`."""
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
    kind = KINDS[read.kind]
    for panel in read.panels:  # Everything that can be known to be wrong is said before a model is loaded.
        kind.check(panel)
    found: dict[tuple[int, str], PanelResult] = {}
    ledger = Ledger()
    for name in read.models:
        found |= _run_model(read, kind, name, loader, ledger, memory, quiet)
    # In the order of the study, whatever the order of the work.
    panels = kind.finish([[found[index, name] for name in panel.models] for index, panel in enumerate(read.panels)])
    results = [result for panel in panels for result in panel]
    return StudyResult(
        study=read, curves=tuple(curve for result in results for curve in result.curves),
        scores=tuple(result.scores for result in results), folder=folder,
        summary=kind.write(folder, read, panels), computed=ledger.computed, cached=ledger.cached,
    )  # fmt: skip


def _run_model(
    study: Study, kind: Kind, name: str, loader: Loader, ledger: Ledger, memory: int | None, quiet: bool
) -> dict[tuple[int, str], PanelResult]:
    """All panels of one model, which is loaded once and gone when its curves are there: (panel, model) -> results."""
    with waiting(f"loading {name}"):
        model = loader(name)
        if sum(Path(other).name == model.name for other in study.models) > 1:
            model = replace(model, name=name)  # two folders of the same name
        _ = model.fingerprint  # takes a moment for large models
    work = {
        index: kind.work(panel, model, kind.prepare(panel, model), memory)
        for index, panel in enumerate(study.panels)
        if name in panel.models
    }
    for part in work.values():
        part.say_forecast(quiet)
    with progress_bar(sum(part.cost() for part in work.values()), quiet, lines=True) as bar:
        return {(index, name): part.run(bar, ledger) for index, part in work.items()}
