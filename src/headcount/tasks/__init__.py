"""Tasks: named sources of examples, for any tokenizer: pairs of prompts, or prompts with a wanted response."""

import random
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HeadcountError, did_you_mean, require_seed

if TYPE_CHECKING:
    from ..models import Model
    from .completions import ItemSource
    from .examples import Completion as Completion
    from .examples import Pair as Pair
    from .examples import Task as Task
    from .source import Source, Tokens

BUILT_IN: dict[str, tuple[str, str]] = {
    "ioi": ("ioi:ioi", "two people, one gives something to the other: who receives it?"),
    "ioi-long": ("ioi:ioi_long", "the same in longer stories with a few sentences in front"),
    "greater-than": ("greater_than:greater_than", "something began in one year: in which did it end?"),
    "docstring": ("docstring:docstring", "the next argument to be documented is the next in the signature"),
}
"""Tasks of pairs: name -> (file and object, one line about it). Looked up late, so that listing needs no torch."""

COMPLETIONS: dict[str, tuple[str, str]] = {
    "syntax": ("syntax:syntax", "agreement, tense, plural, questions, negation: an instruction and one example"),
    "syntax-shots": ("syntax:syntax_shots", "the same by four examples, with no instruction"),
    "commonsense": ("commonsense:commonsense", "everyday questions with lettered choices"),
    "math": ("arithmetic:math", "arithmetic word problems, worked step by step"),
}
"""Tasks of prompts with a target response."""

_REGISTERED: dict[str, "Source | ItemSource"] = {}


def register_task(name: str, source: "Source | ItemSource") -> None:
    """Make a task of your own known by a name; `tasks/source.py` says what one of pairs has to say,
    `tasks/completions.py` what one of completions."""
    _REGISTERED[name] = source


def known_tasks() -> dict[str, tuple[str, str]]:
    """Name -> (kind, one line about it)."""
    from .known_sets import KNOWN_SETS

    return {
        **{name: ("pairs", about) for name, (_, about) in BUILT_IN.items()},
        **{name: ("completions", about) for name, (_, about) in COMPLETIONS.items()},
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
    from .completions import draw_completions
    from .examples import Task
    from .jsonl import read_examples
    from .known_sets import is_known_set, read_known_set
    from .source import Tokens

    if n < 2:
        raise HeadcountError(f"A task needs at least 2 examples, one to score on and one to measure on; n is {n}.")
    require_seed(seed)
    tokens = Tokens(model.encode, model.hf.config.get_text_config().vocab_size)
    limit, start = context_of(model), _start_token(model)
    text, rng = str(name), random.Random(f"{name} {seed}")
    if text.endswith(".jsonl") and not is_known_set(text):
        path = Path(name)
        train, test, metric = read_examples(path, tokens, n, seed, limit, start)
        made = Task(path.stem, path.stem.replace("-", " ").replace("_", " "), metric, train, test)
    elif text.startswith("lm-eval:"):
        from .lm_eval import read_lm_eval

        sides = draw_completions(read_lm_eval(text, rng), tokens, n // 2, text, limit, start)
        made = Task(text, text.removeprefix("lm-eval:"), "log_prob", *sides)
    elif is_known_set(text):
        sides = draw_completions(read_known_set(text, rng), tokens, n // 2, text, limit, start)
        made = Task(text, text.partition(":")[0], "log_prob", *sides)
    else:
        made = _made(text, _source(text), tokens, n // 2, rng, limit, start)
    _check_length(made, model)
    return made


def _made(
    name: str, source: "Source | ItemSource", tokens: "Tokens", n: int, rng: random.Random, limit: int | None,
    start: int | None,
) -> "Task":  # fmt: skip
    from .completions import draw_completions
    from .examples import Task
    from .source import draw_pairs

    if hasattr(source, "items"):
        return Task(name, source.title, "log_prob", *draw_completions(source.items(rng), tokens, n, name, limit, start))
    train, test = (draw_pairs(source, pool, tokens, n, rng, name) for pool in source.pools(tokens, rng))
    return Task(name, source.title, source.metric, train, test)


def _source(name: str) -> "Source | ItemSource":
    if name in _REGISTERED:
        return _REGISTERED[name]
    bundled = BUILT_IN | COMPLETIONS
    if name not in bundled:
        raise HeadcountError(
            f"There is no task {name!r}.{did_you_mean(name, [*known_tasks(), *_REGISTERED])} A file ends in .jsonl."
        )
    module, _, attribute = bundled[name][0].partition(":")
    source: Source | ItemSource = getattr(import_module(f".{module}", __package__), attribute)
    return source


def context_of(model: "Model") -> int | None:
    """How many tokens the model takes, where it says so."""
    limit: int | None = getattr(model.hf.config.get_text_config(), "max_position_embeddings", None)
    return limit


def _start_token(model: "Model") -> int | None:
    """What stands in for an empty prompt: the token that begins a text, else the one that ends it."""
    found = (getattr(model.tokenizer, name, None) for name in ("bos_token_id", "eos_token_id"))
    return next((token for token in found if token is not None), None)


def _check_length(made: "Task", model: "Model") -> None:
    limit = context_of(model)
    longest = max(len(example.ids) for side in made.sides for example in side)
    if limit and longest > limit:
        raise HeadcountError(
            f"The task {made.name!r} has a prompt of {longest} tokens, but {model.name} takes {limit} at most."
        )
