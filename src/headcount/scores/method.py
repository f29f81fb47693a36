"""What a scoring method is: one function of one shape, with a line about it and its cost.

    score(model, examples, settings) -> [example, layer, head]

One score an example and head; of methods that are fitted, one a seed and head. It is positive
where keeping the head raises the metric. Averaging, progress and saving are the same for all methods and live in
`scores/__init__.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from ..cuts import Filler, Positions
    from ..graph import Readers
    from ..models import Model
    from .gate_fit import Fit

    ScoreFunction = Callable[[Model, Sequence[Any], "Settings"], Tensor]
    """The examples are pairs, or completions too where the method does not need pairs."""


@dataclass(frozen=True)
class Settings:
    """What a method may be told beside the model and the pairs."""

    metric: str
    filler: "Filler"
    """What a removed head carries."""
    positions: "Positions"
    steps: int
    """Points on the path of an integrated gradient."""
    seed: int
    max_tokens: int
    """Tokens in one forward pass."""
    advance: Callable[[int], None]
    """Told how many prompts have been run."""
    readers: "Readers" = "kv-heads"
    """Who reads keys and values, for methods that score edges."""
    memory: int | None = None
    fit: "Fit | None" = None
    """How gates are fitted, for `gating`."""
    note: Callable[[str], None] = lambda words: None
    """Told how a fit stands."""
    """Bytes that may be used beyond the model, for methods that score edges."""


@dataclass(frozen=True)
class Method:
    name: str
    summary: str
    cost: str
    """In forward passes over the scored examples; L layers of H heads, S steps, E edges, U that of a fit's updates. A
    backward pass counts as one."""
    target: "str | ScoreFunction"
    """The function, or 'file:function' below `scores/`, so that listing the methods needs no torch."""
    side: str = "clean"
    """The prompts that the method runs on."""
    units: str = "heads"
    needs_pairs: bool = False
    """True where every prompt must have its counterfactual."""
    metric: str = ""
    """The one metric that the method knows; any where empty."""
    fill: str = ""
    """What it puts in a head's place unless told otherwise."""
    samples: str = "examples"
    """What its scores have one of: `examples`, or `seeds`."""

    def function(self) -> "ScoreFunction":
        if callable(self.target):
            return self.target
        module, _, name = self.target.partition(":")
        function: ScoreFunction = getattr(import_module(f".{module}", __package__), name)
        return function

    def forwards(self, heads: int, steps: int, edges: int = 0, updates: int = 0) -> int:
        """The cost as a number, for progress bars."""
        names = {"L·H": heads, "2·S": 2 * steps, "E": edges, "U": updates}
        return sum(_count(term, names) for term in self.cost.split(" + "))


def _count(term: str, names: dict[str, int]) -> int:
    return names[term] if term in names else int(term)
