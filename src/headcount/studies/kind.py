"""What a kind of study is: a folder, with its settings, its steps, its outputs, its figure, its table and its TOML.

    settings.py    the typed settings of a panel, a subclass of `Panel`
    steps.py       plan(kind, panel, name, model, examples, memory) -> Work; and, where something is done once for
                   all cells, together(works) -> Together
    outputs.py     write(folder, study, cells) -> Summary
    figure.py      plot(curves, threshold, title) -> a figure of curves alone, for `headcount.plot`
    table.py       show(result), in the terminal
    page.py        page(found) -> Report, for the browser; a kind without one shows its curves there
    NAME.toml      the study as it comes

(Free of torch until one of them is asked for.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol

from typing_extensions import TypedDict

from ..core.words import CurveKind
from .panel import Panel

if TYPE_CHECKING:
    from ..core.cache import Result
    from ..sweeps import Curve
    from .plan import Found, Step

Part = Literal["steps", "outputs", "figure", "table", "page"]


class Summary(TypedDict):
    """What summary.json says in every study; each kind says more, in a type of its own."""

    version: int  # changes when the meaning of a key does
    kind: str
    title: str
    warnings: list[str]  # why its numbers may mean little: a model that cannot do a task, coarse precision


class Cell(Protocol):
    """What one panel and one model come to: what the units were ordered by, and the curves."""

    @property
    def scores(self) -> object: ...

    @property
    def curves(self) -> "Sequence[Curve]": ...


class Together(Protocol):
    """What is done once for all cells of a study, behind their own steps; most kinds have nothing of the sort."""

    @property
    def steps(self) -> "Sequence[Step[Result]]": ...

    def finish(self, cells: Sequence[Sequence[Cell]], found: "Found") -> list[list[Cell]]: ...


@dataclass(frozen=True)
class StudyKind:
    name: str
    summary: str
    settings: type[Panel]
    home: str
    """The package that is its folder."""
    curves: CurveKind
    """What its curves say."""

    def part(self, name: Part) -> ModuleType:
        return import_module(f"{self.home}.{name}")

    def has(self, name: Part) -> bool:
        return find_spec(f"{self.home}.{name}") is not None

    @property
    def toml(self) -> Path:
        return Path(str(files(self.home))) / f"{self.name}.toml"
