"""Tasks: named sources of examples, for any tokenizer: pairs of prompts, or prompts with a wanted response."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NotRequired, cast

from typing_extensions import TypedDict

from ..core.errors import HeadcountError, did_you_mean, require_known, require_seed
from ..core.files import read_toml
from ..core.plain import plain, quoted
from ..core.registry import Registry, resolve
from ..core.words import SPLITS_BY, SplitBy
from .entries import PREFIX as DATASET
from .entries import entries_of, is_own, read_entries
from .examples import Task
from .jsonl import Entry, examples_of
from .known_sets import KNOWN_SETS, is_known_set, read_known_set, short_name, title_of
from .lm_eval import PREFIX, read_lm_eval
from .nonsense import PREFIX as NONSENSE
from .nonsense import nonsense
from .records import Record
from .source import AnySource, Item, ItemSource, P, Source, SplitSource, Tokens, draw_completions, draw_pairs

if TYPE_CHECKING:
    from ..models import Model


@dataclass(frozen=True)
class TaskEntry:
    """A task that is known by a name."""

    source: str | AnySource
    """What makes its examples (see `source.py`), or 'file:object' below `tasks/`, read when it is asked for."""
    summary: str = ""
    kind: Literal["pairs", "completions"] = "pairs"

    def made(self) -> AnySource:
        found = resolve(f"{__name__}.{self.source}") if isinstance(self.source, str) else self.source
        return cast(AnySource, found)


class _Line(TypedDict):
    """Of tasks.toml."""

    source: str
    summary: str
    kind: NotRequired[Literal["pairs", "completions"]]


_BUILT_IN = read_toml(Path(__file__).parent / "tasks.toml", dict[str, _Line])
TASKS: Registry[TaskEntry] = Registry(
    "task", "headcount.tasks", {name: TaskEntry(**facts) for name, facts in _BUILT_IN.items()}, TaskEntry
)


def register_task(name: str, source: Source[P] | ItemSource, *, summary: str = "") -> None:
    """Make a task of your own known by a name; `tasks/source.py` says what one of pairs and what one of completions has
    to say. A package declares a `TaskEntry` as an entry point instead."""
    TASKS.add(
        name, TaskEntry(source, summary or source.title, "completions" if isinstance(source, ItemSource) else "pairs")
    )


def known_tasks() -> dict[str, tuple[str, str]]:
    """Name -> (kind, one line about it)."""
    return {
        **{name: (entry.kind, entry.summary) for name, entry in TASKS.sound().items()},
        **{name: ("published", about) for name, about in KNOWN_SETS.items()},
        "lm-eval:NAME": ("published", "any task of lm-evaluation-harness, or lm-eval:FILE.yaml"),
        f"{NONSENSE}TASK": ("control", "the prompts of any of these with randomly assigned answers"),
    }


def task(
    name: str | Path | Iterable[Record], model: "Model", *, n: int = 200, seed: int = 0, split: SplitBy = "words"
) -> Task:
    """Examples for a model: half of them to score on (`train`), half to measure on (`test`), with no shared words.

    **Arguments:**

    - `name`: a built-in or registered task; a file of your own (JSONL, CSV, Parquet) or `dataset:NAME`, see
      `tasks/entries.py`; a published set, or `lm-eval:NAME`; behind `nonsense:` its prompts with answers dealt out at
      random. Or the records themselves, a list of dicts or a `datasets.Dataset`.
    - `model`: its tokenizer decides which words can be used.
    - `n`: how many examples in all. A file of your own gives at most that many; `available` of the task says
      how many it has.
    - `seed`: the same seed gives the same examples.
    - `split`: what train and test do not share: `words`, those that answers are made of; or, of built-in pairs,
      `templates`, and all words that fill them too.
    """
    require_known(split, SPLITS_BY, "split")
    if type(n) is not int or n < 2:
        words = f"n is {quoted(n)}"
        raise HeadcountError(f"A task needs at least 2 examples, one to score on and one to measure on; {words}.")
    require_seed(seed)
    if isinstance(name, str | Path):
        made = _made(str(name), tokens_of(model), n, seed, split)
    else:
        made = _own("records", entries_of(name), "of records", tokens_of(model), n, seed)
    longest, limit = max(len(example.ids) for side in made.sides for example in side), model.context
    if limit and longest > limit:
        raise HeadcountError(
            f"The task {made.name!r} has a prompt of {longest} tokens, but {model.name} takes {limit} at most."
        )
    return made


def require_task(name: str) -> None:
    """Refuse what stands for no task, and a file that cannot be read, before a model is fetched for it."""
    name = name.removeprefix(NONSENSE)
    if is_known_set(name) or name.startswith((DATASET, PREFIX)):
        return  # it may be on the hub
    if is_own(name):
        read_entries(name)
    elif name not in TASKS:
        raise HeadcountError(
            f"There is no task {quoted(name)}.{did_you_mean(name, known_tasks())} A file ends in .jsonl, .csv or"
            " .parquet."
        )


def _made(name: str, tokens: Tokens, n: int, seed: int, split: SplitBy) -> Task:
    """By what the name stands for: nonsense, a published set, a file, a task of the harness, or one that is known."""
    if name.startswith(NONSENSE):
        return nonsense(_made(name.removeprefix(NONSENSE), tokens, n, seed, split), seed)
    if split != "words" and not _splits_templates(name):
        known = [name for name in TASKS.sound() if _splits_templates(name)]
        raise HeadcountError(
            f"{quoted(name)} cannot be split by {split}. Known: {', '.join(known)}. Leave split at 'words'."
        )
    rng = random.Random(f"{name} {seed}")
    items: Sequence[Sequence[Item]]
    if is_known_set(name):
        title, items = title_of(name), read_known_set(name, rng)
    elif is_own(name):
        return _own(plain(Path(name).stem), read_entries(name), name, tokens, n, seed)
    elif name.startswith(PREFIX):
        title, items = name.removeprefix(PREFIX), read_lm_eval(name, rng)
    else:
        require_task(name)
        source = _source(name, split)
        title = source.title
        if not isinstance(source, ItemSource):
            pairs = cast(Source[object], source)  # whatever its pools are, it alone looks into them
            first, second = (draw_pairs(pairs, pool, tokens, n // 2, rng, name) for pool in pairs.pools(tokens, rng))
            return Task(name, title, pairs.metric, first, second)
        items = source.items(rng)
    train, test = draw_completions(items, tokens, n // 2, name)
    return Task(short_name(name), title, "log_prob", train, test)


def _own(name: str, entries: Mapping[int, Entry], where: str, tokens: Tokens, n: int, seed: int) -> Task:
    train, test, metric = examples_of(entries, where, tokens, seed)
    title, half, available = name.replace("-", " ").replace("_", " "), n // 2, (len(train), len(test))
    return Task(name, title, metric, train[:half], test[:half], available)


def _source(name: str, split: SplitBy) -> AnySource:
    made = TASKS[name].made()
    return made if split == "words" else cast(SplitSource[object], made).by_templates()


def _splits_templates(name: str) -> bool:
    return name in TASKS and hasattr(TASKS[name].made(), "by_templates")


def tokens_of(model: "Model") -> Tokens:
    """What tasks ask a model's tokenizer. Prompts come again and again, with one word or another behind them."""
    return Tokens(lru_cache(model.encode), model.vocabulary, model.context, _start_token(model))


def _start_token(model: "Model") -> int | None:
    """What stands in for an empty prompt: the token that begins a text, else the one that ends it."""
    found = (getattr(model.tokenizer, name, None) for name in ("bos_token_id", "eos_token_id"))
    return next((token for token in found if token is not None), None)
