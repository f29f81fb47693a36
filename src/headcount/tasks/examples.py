"""The examples that a measurement runs on: pairs of prompts, or prompts with a wanted response; and tasks of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..core.errors import HeadcountError
from ..core.keys import digest
from ..core.plain import quoted
from ..core.provenance import Facts

Split = Literal["train", "test"]
Asked = tuple[tuple[int, ...], tuple[int, ...]]
"""The right and the wrong tokens at a spot where something is predicted; an example's last spot ends what is read."""


def _require_ids(tokens: Sequence[int], vocabulary: int | None = None) -> None:
    """Ids of tokens, of which a model knows so many."""
    if tokens and (min(tokens) < 0 or (vocabulary is not None and max(tokens) >= vocabulary)):
        wrong = min(tokens) if min(tokens) < 0 else max(tokens)
        known = "from 0 on" if vocabulary is None else f"from 0 to {vocabulary - 1}, which the model knows"
        raise HeadcountError(f"Token ids are whole numbers {known}; got {wrong}.")


@dataclass(frozen=True)
class Pair:
    """A clean prompt and its counterfactual, aligned token by token, with the right and the wrong next tokens."""

    clean: tuple[int, ...]
    corrupt: tuple[int, ...]
    answers: tuple[int, ...]
    wrongs: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.clean) != len(self.corrupt):
            raise HeadcountError(
                f"A pair must have prompts of equal length: the clean one has {len(self.clean)} tokens,"
                f" the corrupt one {len(self.corrupt)}. Change words until both counts agree."
            )
        for name in ("clean", "answers", "wrongs"):
            if not getattr(self, name):
                raise HeadcountError(f"A pair must have at least one token in {name!r}, and this one has none.")
        _require_ids(self.tokens)
        for name in ("answers", "wrongs"):  # one that is named twice would count twice in sums of probabilities
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        if both := set(self.answers) & set(self.wrongs):
            raise HeadcountError(f"A token cannot be right and wrong at once; this pair has {sorted(both)} in both.")

    @property
    def tokens(self) -> tuple[int, ...]:
        """All that it names."""
        return (*self.clean, *self.corrupt, *self.answers, *self.wrongs)

    @property
    def ids(self) -> tuple[int, ...]:
        """What a run reads."""
        return self.clean

    @property
    def asked(self) -> list[Asked]:
        return [(self.answers, self.wrongs)]

    @property
    def chance(self) -> float:
        """That a token drawn from the right and the wrong ones is right."""
        return len(self.answers) / (len(self.answers) + len(self.wrongs))

    def facts(self) -> list[object]:
        """What a result depends on."""
        return [self.clean, self.corrupt, self.answers, self.wrongs]


@dataclass(frozen=True)
class Completion:
    """A prompt and the response that is wanted, of any length; where the response is one of several, the others too."""

    prompt: tuple[int, ...]
    target: tuple[int, ...]
    others: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt:
            raise HeadcountError("A completion must have a prompt of at least one token, and this one has none.")
        if not self.target:
            raise HeadcountError("The target of a completion is empty; it must have at least one token.")
        if not all(self.others) or self.target in self.others:
            raise HeadcountError("The other choices of a completion must not be empty or the same as the target.")
        _require_ids(self.tokens)

    @property
    def tokens(self) -> tuple[int, ...]:
        """All that it names."""
        return (*self.prompt, *self.target, *(token for other in self.others for token in other))

    @property
    def ids(self) -> tuple[int, ...]:
        """What a run reads: all but the target's last token, after which nothing is asked."""
        return self.prompt + self.target[:-1]

    @property
    def has_long_choices(self) -> bool:
        """True where choices can only be compared by reading each of them."""
        return bool(self.others) and any(len(choice) > 1 for choice in (self.target, *self.others))

    @property
    def asked(self) -> list[Asked]:
        """Every token of the target; wrong are the other choices, where all of them are one token."""
        wrongs = () if self.has_long_choices else tuple(choice[0] for choice in self.others)
        return [((token,), wrongs) for token in self.target]

    @property
    def chance(self) -> float:
        """That a choice drawn at random is right; 0 where there are no choices."""
        return 1 / (1 + len(self.others)) if self.others else 0.0

    def facts(self) -> list[object]:
        return [self.prompt, self.target, self.others]


Example = Pair | Completion
Examples = tuple[Pair, ...] | tuple[Completion, ...]


@dataclass(frozen=True)
class Task:
    """A named set of examples with its metric. Scores are fitted on `train`, curves are measured on `test`."""

    name: str
    title: str
    metric: str
    train: Examples = field(repr=False)
    test: Examples = field(repr=False)
    available: tuple[int, int] | None = None
    """Train and test examples that a file or records of the user's own hold, of which n may leave some out."""

    def facts(self) -> Facts:
        """For provenance."""
        sizes = {"train_pairs": len(self.train), "test_pairs": len(self.test)}
        return {"name": self.name, "sha256": self.fingerprint, **sizes, "chance": self.chance}

    @property
    def chance(self) -> float:
        """The accuracy of guessing on the test examples, among the answers that are compared; 0 where none are."""
        shares = [example.chance for example in self.test]
        return sum(shares) / max(len(shares), 1)

    @property
    def fingerprint(self) -> str:
        """A hash of the metric and of every token id: what a result depends on, however the task was made."""
        return digest([[self.metric], *([example.facts() for example in side] for side in self.sides)], 16)

    @property
    def sides(self) -> tuple[Sequence[Example], Sequence[Example]]:
        return self.train, self.test

    @property
    def has_pairs(self) -> bool:
        return all(isinstance(example, Pair) for side in self.sides for example in side)

    def split(self, name: Split) -> Examples:
        examples = self.train if name == "train" else self.test
        if not examples:
            raise HeadcountError(f"The task {self.name!r} has no {name} examples. Give it more.")
        return examples


def require_task(task: object, vocabulary: int) -> None:
    """Refuse what is no task, and tokens that a model does not know."""
    if not isinstance(task, Task):
        raise HeadcountError(f"A task is what headcount.task(name, model) gives; got {quoted(task)}.")
    for example in (*task.train, *task.test):
        _require_ids(example.tokens, vocabulary)


def pairs_only(examples: Sequence[Example], what: str) -> tuple[Pair, ...]:
    """The examples, where all of them are pairs."""
    found = tuple(example for example in examples if isinstance(example, Pair))
    if len(found) < len(examples):
        raise HeadcountError(
            f"{what} needs a counterfactual prompt for every prompt, and this task has prompts with a target only."
            " Use a task of pairs such as ioi; or, for heads, the fill zero or mean (--fill zero) or another method."
        )
    return found


def first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    """How many entries two lists begin with alike."""
    both = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(both) if a != b), min(len(one), len(other)))
