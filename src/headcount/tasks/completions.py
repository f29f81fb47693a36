"""Prompts with a wanted response of any length: what a source of them has to say, and how text becomes tokens."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..core.errors import HeadcountError
from .examples import Completion
from .source import Tokens


@dataclass(frozen=True)
class Item:
    """A completion before tokenisation. The target is what follows the prompt, with its leading space or newline."""

    prompt: str
    target: str
    choices: tuple[str, ...] = ()
    """Where the target is one of several, all of them, the target among them, written as the target is."""


class ItemSource(Protocol):
    """A built-in task of completions: all its items, split so that train and test share no words."""

    title: str

    def items(self, rng: random.Random) -> tuple[Sequence[Item], Sequence[Item]]:
        """Train and test items in random order. The same state of `rng` gives the same items."""
        ...


def completion(item: Item, tokens: Tokens, limit: int | None, start: int | None = None) -> Completion:
    """The tokens of an item, checked: nothing empty, nothing longer than the model's context, and a prompt whose tokens
    do not change when the target is written behind it. An empty prompt becomes the token `start`."""
    if not item.target:
        raise HeadcountError("the target is empty; it must be the text that should follow the prompt.")
    if item.choices and item.target not in item.choices:
        raise HeadcountError(
            f"the target {item.target!r} must be one of the choices, {', '.join(map(repr, item.choices))}."
        )
    front = tokens.encode(item.prompt) or ([] if start is None else [start])
    if not front:
        raise HeadcountError("the prompt is empty, and this tokenizer has no token that begins a text.")
    others = dict.fromkeys(choice for choice in item.choices if choice != item.target)
    made = Completion(
        tuple(front), _behind(item.prompt, item.target, tokens), tuple(_behind(item.prompt, o, tokens) for o in others)
    )
    longest = len(made.prompt) + max(len(choice) for choice in (made.target, *made.others)) - 1
    if limit and longest > limit:
        raise HeadcountError(
            f"prompt and target have {longest + 1} tokens ({len(made.prompt)} and {longest - len(made.prompt) + 1}),"
            f" but the model takes {limit} at most. Shorten one of them."
        )
    return made


def _behind(prompt: str, target: str, tokens: Tokens) -> tuple[int, ...]:
    found = tokens.after(prompt, target)
    if found is None:
        raise HeadcountError(
            f"the target {target[:40]!r} tokenises across the boundary: written behind the prompt, it changes the"
            f" prompt's own last tokens ({prompt[-20:]!r}). Move a space from the end of the prompt to the start of the"
            " target."
        )
    if not found:
        raise HeadcountError(f"the target {target!r} adds no token to the prompt.")
    return tuple(found)


def draw_completions(
    items: tuple[Sequence[Item], Sequence[Item]],
    tokens: Tokens,
    n: int,
    name: str,
    limit: int | None,
    start: int | None,
) -> tuple[tuple[Completion, ...], tuple[Completion, ...]]:
    """The first n of each side that this tokenizer can write."""
    sides = []
    for side in items:
        found: list[Completion] = []
        reason = "the set is empty"
        for item in side:
            if len(found) == n:
                break
            try:
                found.append(completion(item, tokens, limit, start))
            except HeadcountError as error:
                reason = str(error)
        if not found:
            raise HeadcountError(
                f"The task {name!r} is empty with this model: all {len(side)} items were left out."
                f" The last one because {reason}"
            )
        sides.append(tuple(found))
    if (least := min(map(len, sides))) < n:
        raise HeadcountError(
            f"The task {name!r} has {len(sides[0])} train and {len(sides[1])} test items that this model can read, and"
            f" {n} of each were asked for. Ask for n={2 * least} or fewer."
        )
    return sides[0], sides[1]
