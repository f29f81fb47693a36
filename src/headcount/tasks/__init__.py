"""Tasks: named sources of examples, for any tokenizer: pairs of prompts, or prompts with a wanted response."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from ..core.errors import HeadcountError, did_you_mean, require_seed
from ..core.registry import Registry, resolve

if TYPE_CHECKING:
    from ..models import Model
    from .completions import Item, ItemSource
    from .examples import Completion as Completion
    from .examples import Pair as Pair
    from .examples import Task as Task
    from .source import Source, Tokens

    AnySource = Source[Any] | ItemSource


P = TypeVar("P")


@dataclass(frozen=True)
class TaskEntry:
    """A task that is known by a name."""

    source: "str | Source[Any] | ItemSource"
    """What makes its examples (`source.py` for pairs, `completions.py` for prompts with a target), or 'file:object'
    below `tasks/`, so that listing the tasks needs no torch."""
    summary: str = ""
    kind: Literal["pairs", "completions"] = "pairs"

    def made(self) -> "AnySource":
        found = resolve(f"{__name__}.{self.source}") if isinstance(self.source, str) else self.source
        return cast("AnySource", found)


def _pairs(source: str, summary: str) -> TaskEntry:
    return TaskEntry(source, summary)


def _completions(source: str, summary: str) -> TaskEntry:
    return TaskEntry(source, summary, "completions")


TASKS: Registry[TaskEntry] = Registry(
    "task",
    "headcount.tasks",
    {
        "ioi": _pairs("ioi:ioi", "two people, one gives something to the other: who receives it?"),
        "ioi-long": _pairs("ioi:ioi_long", "the same in longer stories with a few sentences in front"),
        "greater-than": _pairs("greater_than:greater_than", "something began in one year: in which did it end?"),
        "docstring": _pairs("docstring:docstring", "the next argument to be documented is the next in the signature"),
        "syntax": _completions(
            "syntax:syntax", "agreement, tense, plural, questions, negation: an instruction and one example"
        ),
        "syntax-shots": _completions("syntax:syntax_shots", "the same by four examples, with no instruction"),
        "commonsense": _completions("commonsense:commonsense", "everyday questions with lettered choices"),
        "math": _completions("arithmetic:math", "arithmetic word problems, worked step by step"),
    },
    TaskEntry,
)


def register_task(name: str, source: "Source[P] | ItemSource", *, summary: str = "") -> None:
    """Make a task of your own known by a name; `tasks/source.py` says what one of pairs has to say,
    `tasks/completions.py` what one of completions. A package declares a `TaskEntry` as an entry point instead."""
    TASKS.add(name, TaskEntry(source, summary or source.title, "completions" if hasattr(source, "items") else "pairs"))


def known_tasks() -> dict[str, tuple[str, str]]:
    """Name -> (kind, one line about it)."""
    from .known_sets import KNOWN_SETS

    return {
        **{name: (entry.kind, entry.summary) for name, entry in TASKS.sound().items()},
        **{name: ("published", about) for name, about in KNOWN_SETS.items()},
        "lm-eval:NAME": ("published", "any task of lm-evaluation-harness, or lm-eval:FILE.yaml"),
    }


def task(name: str | Path, model: "Model", *, n: int = 200, seed: int = 0) -> "Task":
    """Examples for a model: half of them to score on (`train`), half to measure on (`test`), with no shared words.

    **Arguments:**

    - `name`: a built-in or registered task, the path of a JSONL file, a published set, or `lm-eval:NAME`.
    - `model`: its tokenizer decides which words can be used.
    - `n`: how many examples in all. A JSONL file gives at most that many.
    - `seed`: the same seed gives the same examples.
    """
    from .source import Tokens

    if n < 2:
        raise HeadcountError(f"A task needs at least 2 examples, one to score on and one to measure on; n is {n}.")
    require_seed(seed)
    tokens = Tokens(model.encode, model.hf.config.get_text_config().vocab_size)
    made = _made(str(name), Drawing(tokens, n, seed, context_of(model), _start_token(model)))
    longest = max(len(example.ids) for side in made.sides for example in side)
    if (limit := context_of(model)) and longest > limit:
        raise HeadcountError(
            f"The task {made.name!r} has a prompt of {longest} tokens, but {model.name} takes {limit} at most."
        )
    return made


@dataclass(frozen=True)
class Drawing:
    """How examples are drawn: for which tokenizer, how many, and what the model takes."""

    tokens: "Tokens"
    n: int
    seed: int
    limit: int | None
    """Tokens that the model takes, at most."""
    start: int | None
    """What stands in for an empty prompt."""

    def completions(self, name: str, title: str, items: "Items") -> "Task":
        """A task of the first items that the tokenizer can write."""
        from .completions import draw_completions
        from .examples import Task

        sides = items(random.Random(f"{name} {self.seed}"))
        train, test = draw_completions(sides, self.tokens, self.n // 2, name, self.limit, self.start)
        return Task(name, title, "log_prob", train, test)


Items = Callable[[random.Random], "tuple[Sequence[Item], Sequence[Item]]"]


def _made(name: str, drawing: Drawing) -> "Task":
    """By what the name stands for: a file, a task of the harness, a published set, or a task that is known."""
    from .examples import Task
    from .known_sets import is_known_set, read_known_set

    if is_known_set(name):
        return drawing.completions(name, name.partition(":")[0], lambda rng: read_known_set(name, rng))
    if name.endswith(".jsonl"):
        from .jsonl import read_examples

        path = Path(name)
        train, test, metric = read_examples(path, drawing)
        return Task(path.stem, path.stem.replace("-", " ").replace("_", " "), metric, train, test)
    if name.startswith("lm-eval:"):
        from .lm_eval import read_lm_eval

        return drawing.completions(name, name.removeprefix("lm-eval:"), lambda rng: read_lm_eval(name, rng))
    if name not in TASKS:
        raise HeadcountError(f"There is no task {name!r}.{did_you_mean(name, known_tasks())} A file ends in .jsonl.")
    source = TASKS[name].made()
    if hasattr(source, "items"):
        return drawing.completions(name, source.title, source.items)
    from .source import draw_pairs

    rng = random.Random(f"{name} {drawing.seed}")
    pools = source.pools(drawing.tokens, rng)
    train, test = (draw_pairs(source, pool, drawing.tokens, drawing.n // 2, rng, name) for pool in pools)
    return Task(name, source.title, source.metric, train, test)


def context_of(model: "Model") -> int | None:
    """How many tokens the model takes, where it says so."""
    limit: int | None = getattr(model.hf.config.get_text_config(), "max_position_embeddings", None)
    return limit


def _start_token(model: "Model") -> int | None:
    """What stands in for an empty prompt: the token that begins a text, else the one that ends it."""
    found = (getattr(model.tokenizer, name, None) for name in ("bos_token_id", "eos_token_id"))
    return next((token for token in found if token is not None), None)
