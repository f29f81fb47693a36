"""A study's work as a plan of steps: the runner and the executors know nothing else.

A step is a pure function of its description. It carries the names of model and examples by value, so that it can be
sent; their hashes, its settings, the keys of the steps that it needs, the versions of the libraries and the hash of the
source make its key. That gives the cache, resume, provenance, the forecast, and the split over machines.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, cast, get_type_hints

from pydantic import TypeAdapter
from typing_extensions import TypedDict, TypeVar

from ..core.cache import Result
from ..core.errors import HeadcountError
from ..core.keys import digest, package_source, source_of
from ..core.provenance import Facts, versions
from ..core.registry import resolve
from ..meters.meter import WHOLE, Part
from ..models import Model
from ..models.families import family_facts
from ..sweeps import Curve
from ..tasks.examples import Example
from ..tasks.texts import PromptTexts
from .panel import Fingerprinted, Panel

R = TypeVar("R", bound=Result)
R_co = TypeVar("R_co", bound=Result, covariant=True)
C_co = TypeVar("C_co", covariant=True)
P = TypeVar("P")
S = TypeVar("S")
E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
Told = TypeVar("Told", bound=Mapping[str, object])
Told_co = TypeVar("Told_co", bound=Mapping[str, object], covariant=True, default=Facts)
Needed = ParamSpec("Needed")


class Names(TypedDict):
    """Of a result; no part of what defines a step, as the same weights may be called differently today."""

    model: str
    task: str


class Asked(TypedDict):
    """What makes examples: a kind of study, and the facts of its panel."""

    kind: str
    panel: Facts


class Description(TypedDict):
    """Everything that a result depends on, and nothing else."""

    function: str
    settings: Mapping[str, object]
    subject: Facts | None
    needs: list[str]
    """Keys."""
    versions: dict[str, str]
    source: str
    code: str


@dataclass(frozen=True)
class Subject:
    """A model and what it is asked, by name and by hash."""

    model: str
    """As the study names it."""
    asked: Asked
    identity: Facts
    """Hashes of the model and of the examples: what results depend on."""

    @classmethod
    def of(cls, name: str, model: Model, asked: Asked, examples: Fingerprinted, **more: object) -> "Subject":
        facts = {key: fact for key, fact in model.facts().items() if key != "name"}
        facts["family"] = family_facts(model.hf.config)
        return cls(name, asked, {"model": facts, "examples": examples.fingerprint, **more})

    def step(
        self,
        label: str,
        does: "Callable[Concatenate[Job[E, Told], Needed], R]",
        settings: Told,
        runs: int,
        each: float,
        *,
        returns: type[R] | None = None,
        needs: tuple["Step[Result]", ...] = (),
        memory: int = 0,
        libraries: tuple[str, ...] = (),
        optional: bool = False,
        fitted: int = 0,
    ) -> "Step[R]":
        """A step about it that runs so many prompts or answers, at so many tokens each."""
        made, name = returns or get_type_hints(does)["return"], f"{does.__module__}:{does.__name__}"
        return Step(label, name, made, settings, self, needs, runs * each, runs, memory, libraries, optional, fitted)


@dataclass(frozen=True)
class Job(Generic[E_co, Told_co]):
    """What the function of a step is given; `Job[Task]` where it is about a task, and `Job[Task, Reading]` where its
    settings are a `TypedDict`, of what JSON can say: they are sent as they are, and make the key."""

    settings: Told_co
    model: Model
    examples: E_co
    """A task, or questions."""
    advance: Callable[[float], None]
    """Told how much of the step's cost has been paid."""
    note: Callable[[str], None]

    def paid(self, each: float) -> Callable[[int], None]:
        """Told of prompts, answers or the like, at so much of the cost each."""
        return lambda count: self.advance(count * each)


@dataclass(frozen=True, eq=False)
class Step(Generic[R_co]):
    label: str
    function: str
    """'package.module:name' of a function (job, *results of the steps needed) -> result."""
    returns: type[R_co]
    settings: Mapping[str, object]
    subject: Subject | None = None
    """None where no model is needed."""
    needs: tuple["Step[Result]", ...] = ()
    cost: float = 0.0
    """In tokens that are run, about."""
    forwards: int = 0
    """Prompts that are run, about."""
    memory: int = 0
    """Bytes beyond the model, about."""
    libraries: tuple[str, ...] = ()
    """Beside the usual ones, where its numbers come from."""
    optional: bool = False
    """Whether the study goes on where the step is refused; the reason is then its result."""
    fitted: int = 0
    """Prompts of an update, where gates are fitted: forward and backward, in small batches; 0 for plain passes."""

    @cached_property
    def description(self) -> Description:
        return {
            "function": self.function,
            "settings": self.settings,
            "subject": None if self.subject is None else self.subject.identity,
            "needs": [step.key for step in self.needs],
            "versions": versions(*self.libraries),
            "source": package_source(),
            "code": source_of(resolve(self.function)),
        }

    @cached_property
    def key(self) -> str:
        return digest(self.description)


@dataclass(frozen=True)
class Found:
    """Results of steps by their keys; of optional steps also why there is none."""

    results: dict[str, Result | HeadcountError] = field(default_factory=dict)

    def __getitem__(self, step: Step[R]) -> R:
        result = self.results[step.key]
        if isinstance(result, HeadcountError):
            raise result
        return cast(R, result)

    def maybe(self, step: Step[R] | None, reason: str = "") -> tuple[R | None, str]:
        """The result of an optional step, or why there is none."""
        found = HeadcountError(reason) if step is None else self.results[step.key]
        return (None, str(found)) if isinstance(found, HeadcountError) else (cast(R, found), "")


class Work(Protocol[C_co]):
    """The steps of one panel and one model, and what they come to."""

    @property
    def note(self) -> str:
        """Said before the work begins; empty for nothing."""

    @property
    def steps(self) -> Sequence[Step[Result]]: ...

    def gather(self, found: Found) -> C_co: ...


@dataclass(frozen=True)
class ScoredCell(Generic[P, S]):
    """What was found for one task and model."""

    panel: P
    scores: S
    curves: list[Curve]
    prompts: PromptTexts | None = None
    """The test prompts that were measured, as texts; None where they cannot be had."""


@dataclass(frozen=True)
class ScoredWork(Generic[P, S]):
    """Scores of one task and model, and a sweep for each order."""

    panel: P
    names: Names
    title: str
    scoring: Step[Any] | None
    sweeps: tuple[Step[Curve], ...]
    note: str = ""
    reading: Step[PromptTexts] | None = None
    """The prompts for readers of the report."""

    @property
    def steps(self) -> Sequence[Step[Result]]:
        return [step for step in (self.scoring, *self.sweeps, self.reading) if step is not None]

    def gather(self, found: Found) -> ScoredCell[P, S]:
        scores: Any = self.scoring and replace(found[self.scoring], **self.names)
        curves = [replace(found[step], **self.names, title=self.title) for step in self.sweeps]
        return ScoredCell(self.panel, scores, curves, found.maybe(self.reading)[0])


@dataclass(frozen=True)
class Plan:
    """The different steps of a study, each behind those that it needs."""

    steps: tuple[Step[Result], ...]

    @classmethod
    def of(cls, steps: Sequence[Step[Result]]) -> "Plan":
        found: dict[str, Step[Result]] = {}
        for each in (each for step in steps for each in _with_needs(step)):
            found.setdefault(each.key, each)
        return cls(tuple(found.values()))


def _with_needs(step: Step[Result]) -> Iterator[Step[Result]]:
    for needed in step.needs:
        yield from _with_needs(needed)
    yield step


PART = 2**19
"""Tokens of a part, about: some minutes where a model fits its machine. What costs less than two parts is not split.
That depends on the plan alone, never on who runs it, so that keys agree."""


def told_by(panel: Panel, kind: type[Told], **more: object) -> Told:
    """The settings of a step: those of a panel that go by the same names, and more."""
    own = {name: getattr(panel, name) for name in get_type_hints(kind) if name in type(panel).model_fields}
    return TypeAdapter(kind).validate_python({**own, **more})


def parts_of(cost: float, most: int) -> list[tuple[int, int]]:
    """The parts of a long step, each with its number and how many there are; none where it is not worth while."""
    count = min(int(cost // PART), most)
    return [(number, count) for number in range(count)] if count > 1 else []


def as_part(written: Sequence[int] | None) -> Part:
    """A part that has been JSON; None is the whole."""
    number, of = written or WHOLE
    return number, of


def mean_length(examples: Sequence[Example]) -> float:
    """In tokens."""
    return sum(len(example.ids) for example in examples) / len(examples)
