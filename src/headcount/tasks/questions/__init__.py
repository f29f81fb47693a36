"""Questions that are labelled with the cognitive function they ask for, with their right answers; sets of them in three
splits."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from ...core.errors import HeadcountError, did_you_mean, require_seed
from ...core.plain import quoted
from ...core.reading import local_path

_LOW_LEVEL = ("retrieval", "knowledge-recall", "semantic-understanding", "syntactic-understanding")
_HIGH_LEVEL = ("math-calculation", "inference", "logical-reasoning", "decision-making")
FUNCTIONS = _LOW_LEVEL + _HIGH_LEVEL
"""The cognitive functions of CogQA (Cognitive Mirrors, arXiv 2512.10978)."""
BUILT_IN = "built-in"


@dataclass(frozen=True)
class Question:
    function: str
    template: str
    """A short name of its template. Questions that share one stand in one split."""
    text: str
    """The whole question, with the passage where there is one."""
    answer: str
    accepted: tuple[str, ...] = ()
    """Other right answers. Whether letters are small or capital does not count."""
    wrong: tuple[str, ...] = ()
    """The other options, where the question names some."""


@dataclass(frozen=True)
class QuestionSet:
    """Questions to fit on, to rank heads on, and to measure on."""

    name: str
    train: tuple[Question, ...] = field(repr=False)
    validation: tuple[Question, ...] = field(repr=False)
    test: tuple[Question, ...] = field(repr=False)
    skipped: dict[str, int] = field(default_factory=dict)
    """Why entries of a file are not here -> how many."""

    @property
    def sides(self) -> tuple[tuple[Question, ...], ...]:
        return self.train, self.validation, self.test

    @property
    def questions(self) -> tuple[Question, ...]:
        """Of all splits, train first."""
        return (*self.train, *self.validation, *self.test)

    @property
    def functions(self) -> tuple[str, ...]:
        """Those that every split has questions of."""
        sides = [{question.function for question in side} for side in self.sides]
        return tuple(function for function in FUNCTIONS if all(function in side for side in sides))

    @property
    def fingerprint(self) -> str:
        text = repr([tuple(map(astuple, side)) for side in self.sides])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def require(self, function: str) -> str:
        """The name of a function as it is written here, or an error that lists those there are."""
        name = function_name(function)
        if name not in self.functions:
            where = f" The set {self.name} has too few questions of it." if name in FUNCTIONS else ""
            nearest = did_you_mean(name, self.functions)
            raise HeadcountError(f"There is no function {quoted(function)} to ask for.{where}{nearest}")
        return name

    def limited(self, n: int) -> "QuestionSet":
        """At most so many questions of each function, shared out to the splits as all of them are: the first of each
        template, then the second ones, and so on."""
        counts = Counter(question.function for question in self.questions)
        train, validation, test = (_first(side, n, counts) for side in self.sides)
        return replace(self, train=train, validation=validation, test=test)


def questions(source: str | Path = BUILT_IN, *, seed: int = 0) -> QuestionSet:
    """The built-in questions, or those of a JSON file in the layout of CogQA.

    **Arguments:**

    - `source`: `built-in`, or the path of a file that ends in .json.
    - `seed`: of the built-in questions, and of how a file is split.
    """
    require_seed(seed)
    if str(source) == BUILT_IN:
        from .built_in import built_in_questions

        return built_in_questions(seed)
    if not str(source).endswith(".json"):
        raise HeadcountError(
            f"There are no questions {quoted(str(source))}. Known: {BUILT_IN}; a file in the layout of CogQA ends in"
            " .json."
        )
    from .cogqa import read_cogqa

    return read_cogqa(local_path(source), seed=seed)


def function_name(label: str) -> str:
    """`Decision-making`, `Math Calculation` as they are written here: `decision-making`, `math-calculation`."""
    return re.sub(r"[\s_-]+", "-", label.strip().lower())


def function_title(function: str) -> str:
    """For figures: `Math Calculation`."""
    return " ".join(word.capitalize() for word in function.split("-"))


def _first(side: Sequence[Question], n: int, counts: Mapping[str, int]) -> tuple[Question, ...]:
    """Questions of each function: of n, the share that this side has of all, with the templates taking turns."""
    own = Counter(question.function for question in side)
    shares = {function: math.ceil(n * count / counts[function]) for function, count in own.items()}
    kept = sorted(place for function, share in shares.items() for place in _by_turns(side, function)[:share])
    return tuple(side[place] for place in kept)


def _by_turns(side: Sequence[Question], function: str) -> list[int]:
    """The places of a function's questions: the first of each template, then the second ones, and so on."""
    places, seen, turns = of_function(side, function), Counter[str](), dict[int, int]()
    for place in places:
        turns[place] = seen[side[place].template]
        seen[side[place].template] += 1
    return sorted(places, key=turns.__getitem__)


def of_function(side: Sequence[Question], function: str) -> list[int]:
    """The places of a function's questions."""
    return [place for place, question in enumerate(side) if question.function == function]
