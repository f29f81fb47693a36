"""What a scoring method is: one function of one shape, with a line about it and its cost; and the methods there are.

    score(model, examples, request) -> [example, layer, head], or [writer, reader] for edges

One score per example and head; of methods that are fitted, one a seed and head. It is positive where keeping the unit
raises the metric. Averaging, progress and saving are the same for all methods and live in `score.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from ..core.errors import HeadcountError, did_you_mean
from ..core.files import read_toml
from ..core.keys import source_of
from ..core.plain import quoted
from ..core.registry import Registry, resolve
from ..core.words import Positions, Readers

if TYPE_CHECKING:
    from torch import Tensor

    from ..edit import Filler
    from ..models import Model
    from ..tasks.examples import Example
    from .fit import AnyFit

    ScoreFunction = Callable[[Model, Sequence[Example], "Request"], Tensor] | Callable[..., Tensor]
    """The examples are pairs, or completions too where the method does not need pairs."""

ScoredUnits = Literal["heads", "edges"]
RunSide = Literal["clean", "corrupt"]
Samples = Literal["examples", "seeds"]
FamilyPart = Literal["", "edges", "final norm"]


@dataclass(frozen=True)
class Request:
    """What a method is told beside the model and the examples."""

    metric: str
    filler: "Filler"  # what a removed head carries; of edges, its `fill`
    positions: Positions
    steps: int  # points on the path of an integrated gradient
    seed: int
    max_tokens: int  # in one forward pass
    advance: Callable[[int], None]  # told how many prompts have been run
    readers: Readers = "kv-heads"  # of keys and values, for methods that score edges
    memory: int | None = None  # bytes that may be used beyond the model, for methods that score edges
    fit: "AnyFit | None" = None  # how gates are fitted or rankings learned
    note: Callable[[str], None] = lambda words: None  # told how a fit stands


@dataclass(frozen=True)
class Method:
    """`cost` counts forward passes over the scored examples: L layers of H heads, S steps, E edges, U that of a fit's
    updates; a backward pass counts as one."""

    name: str
    summary: str
    cost: str
    target: "str | ScoreFunction"  # or 'file:function' below `rank/`, so that listing the methods needs no torch
    units: ScoredUnits = "heads"
    needs_pairs: bool = False  # True where every prompt must have its counterfactual
    signed: bool = True  # whether the sign of a score says anything; without one there is no order `signed`
    side: RunSide = "clean"  # the prompts that the method runs on
    metric: str = ""  # the one that the method knows; any where empty
    fill: str = ""  # what it puts in a head's place unless told otherwise
    samples: Samples = "examples"  # what its scores have one of
    any_fill: bool = (
        False  # of methods for edges: whether removed edges may carry something else than the counterfactual
    )
    fills: Sequence[str] = ()  # of methods for heads: the kinds of fill that it knows; any where there are none
    family: FamilyPart = ""  # what has to be known of a model's family beside its heads
    by_gradient: bool = False  # whether the metric is differentiated
    source: str = field(init=False, default="")
    """A hash of the code behind a method from outside, as it was when it became known; empty for our own."""

    def __post_init__(self) -> None:
        if callable(self.target):
            object.__setattr__(self, "source", source_of(self.target))

    def function(self) -> "ScoreFunction":
        if callable(self.target):
            return self.target
        return cast("ScoreFunction", resolve(f"{__package__}.{self.target}"))

    def forwards(self, heads: int, steps: int, edges: int = 0, updates: int = 0) -> int:
        """The cost as a number, for progress bars."""
        names = {"L·H": heads, "2·S": 2 * steps, "E": edges, "U": updates}
        try:
            return sum(names[term] if term in names else int(term) for term in self.cost.split(" + "))
        except ValueError:
            raise HeadcountError(
                f"The cost of {self.name} is written as numbers and {', '.join(names)} with ' + ' between them; this is"
                f" {self.cost!r}."
            ) from None


MEAN = "mean:"
"""`mean:eap-ig,eap` is a method wherever one is named: the mean of their ranks, see `ensemble.py`."""


@dataclass(frozen=True)
class _MeanOf:
    methods: tuple[Method, ...]

    def __call__(self, model: "Model", examples: "Sequence[Example]", request: Request) -> "Tensor":
        mean = cast("Callable[..., Tensor]", resolve(f"{__package__}.ensemble:score_by_mean"))
        return mean(self.methods, model, examples, request)


def _shared(fills: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What all of some members take; any where none of them says."""
    return tuple(kind for kind in fills[0] if all(kind in others for others in fills)) if fills else ()


def _mean_of(name: str, methods: Sequence[Method]) -> Method:
    """One metric, the one that a member knows alone if there is such a member, and one fill for all."""
    for what, wanted in (("score the same units", "units"), ("know the same metric", "metric")):
        found = {getattr(method, wanted): method.name for method in methods if getattr(method, wanted)}
        if len(found) > 1:
            named = " and ".join(f"{method} {value}" for value, method in found.items())
            raise HeadcountError(f"A mean is of methods that {what}; these are {named}.")
    names, costs = [method.name for method in methods], [method.cost for method in methods]
    made = Method(
        name,
        summary=f"mean of the ranks of {', '.join(names)}",
        cost=" + ".join(costs),
        target=_MeanOf(tuple(methods)),
        units=methods[0].units,
        needs_pairs=any(method.needs_pairs for method in methods),
        signed=all(method.signed for method in methods),
        metric=next((method.metric for method in methods if method.metric), ""),
        fills=_shared([method.fills for method in methods if method.fills]),
        family=next((method.family for method in methods if method.family), ""),
        by_gradient=any(method.by_gradient for method in methods),
    )
    # What it depends on is the code of its members.
    object.__setattr__(made, "source", " ".join(method.source for method in methods).strip())
    return made


class _Methods(Registry[Method]):
    """All that are listed, and means of them."""

    def __contains__(self, name: object) -> bool:
        return str(name).startswith(MEAN) or super().__contains__(name)

    def __getitem__(self, name: str) -> Method:
        return self._mean(name) if name.startswith(MEAN) else super().__getitem__(name)

    def named(self, name: str) -> Method:
        return self._mean(name) if name.startswith(MEAN) else self._listed(name)

    def scoring(self, name: str, units: str) -> Method:
        """The method of a name, for these units; of one that is not known, the nearest for the same units is named."""
        found = self._mean(name, units) if name.startswith(MEAN) else self._listed(name, units)
        if found.units != units:
            known = [name for name, other in self.sound().items() if other.units == units]
            raise HeadcountError(
                f"{name!r} scores {found.units}, and {units} are wanted. Use one of {', '.join(known)}."
            )
        return found

    def _listed(self, name: str, units: str = "") -> Method:
        if not super().__contains__(name):
            known = [other for other, method in self.sound().items() if units in ("", method.units)]
            what = f"{self.what} {quoted(name)}{f' for {units}' * bool(units)}"
            raise HeadcountError(f"There is no {what}.{did_you_mean(name, known)} See 'headcount methods'.")
        return super().__getitem__(name)

    def _mean(self, name: str, units: str = "") -> Method:
        members = [member.strip() for member in name.removeprefix(MEAN).split(",")]
        if len(members) < 2:
            raise HeadcountError(f"A mean needs two methods or more, such as mean:eap-ig,eap; got {name!r}.")
        return _mean_of(name, [self._listed(member, units) for member in members])


BUILT_IN = read_toml(Path(__file__).parent / "methods.toml", dict[str, dict[str, Any]])
METHODS = _Methods(
    "scoring method", "headcount.methods", {name: Method(name, **facts) for name, facts in BUILT_IN.items()}, Method
)


def register_method(
    name: str,
    *,
    summary: str,
    cost: str,
    units: ScoredUnits = "heads",
    needs_pairs: bool = False,
    signed: bool = True,
    side: RunSide = "clean",
    metric: str = "",
    fill: str = "",
    samples: Samples = "examples",
    any_fill: bool = False,
    fills: Sequence[str] = (),
    family: FamilyPart = "",
    by_gradient: bool = False,
) -> "Callable[[ScoreFunction], ScoreFunction]":
    """Make a scoring function of your own known by a name; the arguments are the fields of `Method`."""
    given = units, needs_pairs, signed, side, metric, fill, samples, any_fill, fills, family, by_gradient
    return lambda function: METHODS.add(name, Method(name, summary, cost, function, *given)).function()
