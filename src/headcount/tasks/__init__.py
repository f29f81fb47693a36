"""Tasks: named sources of clean and counterfactual prompts, for any tokenizer."""

import random
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HeadcountError, did_you_mean, require_seed

if TYPE_CHECKING:
    from ..models import Model
    from .pairs import Pair as Pair
    from .pairs import Task as Task
    from .source import Source

BUILT_IN: dict[str, tuple[str, str]] = {
    "ioi": ("ioi:ioi", "two people, one gives something to the other: who receives it?"),
    "ioi-long": ("ioi:ioi_long", "the same in longer stories with a few sentences in front"),
    "greater-than": ("greater_than:greater_than", "something began in one year: in which did it end?"),
    "docstring": ("docstring:docstring", "the next argument to be documented is the next in the signature"),
}
"""Name -> (file and object, one line about it). Looked up late, so that listing them needs no torch."""

_REGISTERED: dict[str, "Source"] = {}


def register_task(name: str, source: "Source") -> None:
    """Make a task of your own known by a name; see `tasks/source.py` for what it has to say."""
    _REGISTERED[name] = source


def task(name: str | Path, model: "Model", *, n: int = 200, seed: int = 0) -> "Task":
    """Pairs for a model: half of them to score on (`train`), half to measure on (`test`), with no shared words.

    **Arguments:**

    - `name`: a built-in or registered task, or the path of a JSONL file.
    - `model`: its tokenizer decides which words can be used.
    - `n`: how many pairs in all. A JSONL file gives at most that many.
    - `seed`: the same seed gives the same pairs.
    """
    from .jsonl import read_pairs
    from .pairs import Task
    from .source import Tokens, draw_pairs

    if n < 2:
        raise HeadcountError(f"A task needs at least 2 pairs, one to score on and one to measure on; n is {n}.")
    require_seed(seed)
    tokens = Tokens(model.encode, model.hf.config.get_text_config().vocab_size)
    if str(name).endswith(".jsonl"):
        path = Path(name)
        train, test = read_pairs(path, tokens, n, seed)
        made = Task(path.stem, path.stem.replace("-", " ").replace("_", " "), "logit_diff", train, test)
    else:
        source = _source(str(name))
        rng = random.Random(f"{name} {seed}")
        pools = source.pools(tokens, rng)
        sides = [draw_pairs(source, pool, tokens, n // 2, rng, str(name)) for pool in pools]
        made = Task(str(name), source.title, source.metric, *sides)
    _check_length(made, model)
    return made


def _source(name: str) -> "Source":
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in BUILT_IN:
        raise HeadcountError(
            f"There is no task {name!r}.{did_you_mean(name, [*BUILT_IN, *_REGISTERED])} A file ends in .jsonl."
        )
    module, _, attribute = BUILT_IN[name][0].partition(":")
    source: Source = getattr(import_module(f".{module}", __package__), attribute)
    return source


def _check_length(made: "Task", model: "Model") -> None:
    limit = getattr(model.hf.config.get_text_config(), "max_position_embeddings", None)
    longest = max(len(pair.clean) for side in made.sides for pair in side)
    if limit and longest > limit:
        raise HeadcountError(
            f"The task {made.name!r} has a prompt of {longest} tokens, but {model.name} takes {limit} at most."
        )
