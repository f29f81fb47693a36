"""Prompts with a wanted response of any length: what a source of them has to say, and how text becomes tokens."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Generic, Protocol, TypeVar

from ..core.errors import HeadcountError
from .examples import Completion, Examples
from .source import Tokens

W = TypeVar("W")


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


@dataclass(frozen=True)
class TwoSides(Generic[W]):
    """A source whose words are split first; each side is then made from its own."""

    title: str
    split: Callable[[random.Random], tuple[W, W]]
    side: Callable[[W, random.Random], list[Item]]

    def items(self, rng: random.Random) -> tuple[list[Item], list[Item]]:
        train, test = self.split(rng)
        return self.side(train, rng), self.side(test, rng)


def lettered(question: str, options: Sequence[str]) -> str:
    """A question with its choices, up to where the letter of the right one follows."""
    lines = [f"{letter}. {option}" for letter, option in zip(ascii_uppercase, options, strict=False)]
    return "\n".join([f"Question: {question}", *lines, "Answer:"])


def completion(item: Item, tokens: Tokens) -> Completion:
    """The tokens of an item, checked: nothing empty, nothing longer than the model's context, and a prompt whose tokens
    do not change when the target is written behind it. An empty prompt becomes the token `tokens.start`."""
    if not item.target:
        raise HeadcountError("the target is empty; it must be the text that should follow the prompt.")
    if item.choices and item.target not in item.choices:
        raise HeadcountError(
            f"the target {item.target!r} must be one of the choices, {', '.join(map(repr, item.choices))}."
        )
    front = tokens.encode(item.prompt) or ([] if tokens.start is None else [tokens.start])
    if not front:
        raise HeadcountError("the prompt is empty, and this tokenizer has no token that begins a text.")
    target, *others = (_behind(item.prompt, text, tokens) for text in dict.fromkeys([item.target, *item.choices]))
    made = Completion(tuple(front), target, tuple(others))
    prompt, longest = len(front), max(map(len, (target, *others)))
    if tokens.limit and prompt + longest - 1 > tokens.limit:
        raise HeadcountError(
            f"prompt and target have {prompt + longest} tokens ({prompt} and {longest}),"
            f" but the model takes {tokens.limit} at most. Shorten one of them."
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


def draw_completions(sides: Sequence[Sequence[Item]], tokens: Tokens, n: int, name: str) -> list[Examples]:
    """The first n of each side that this tokenizer can write."""
    drawn: list[Examples] = []
    for side in sides:
        found: list[Completion] = []
        reason = "the set is empty"
        for item in side:
            if len(found) == n:
                break
            try:
                found.append(completion(item, tokens))
            except HeadcountError as error:
                reason = str(error)
        if not found:
            raise HeadcountError(
                f"The task {name!r} is empty with this model: all {len(side)} items were left out."
                f" The last one because {reason}"
            )
        drawn.append(tuple(found))
    train, test = map(len, drawn)
    if min(train, test) < n:
        raise HeadcountError(
            f"The task {name!r} has {train} train and {test} test items that this model can read, and"
            f" {n} of each were asked for. Ask for n={2 * min(train, test)} or fewer."
        )
    return drawn
