"""What a source of examples has to say, and how its text becomes tokens that are checked: drafts become pairs, items
become completions."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Generic, Protocol, TypeVar, runtime_checkable

from ..core.errors import HeadcountError, listed
from ..core.files import read_toml
from ..core.plain import quoted
from ..core.words import SplitBy
from .examples import Completion, Examples, Pair

WORDS = Path(__file__).parent / "words"
"""The words of the built-in tasks, a TOML each."""

MOST_PAIRS = 50_000
"""Of a split: so many take a minute to draw."""
P = TypeVar("P")
Texts = Sequence[str]
Prompt = str | Sequence[int]
"""Text, or token ids where the cut between prompt and answer falls inside what text can say."""


def read_words(task: str) -> dict[str, list[str]]:
    """The words of a built-in task by their kind; a paragraph of them word by word."""
    found = read_toml(WORDS / f"{task}.toml", dict[str, str | list[str]])
    return {kind: words.split() if isinstance(words, str) else words for kind, words in found.items()}


@dataclass(frozen=True)
class Draft:
    """A pair before tokenisation. Answers are what follows the prompt, with their leading space."""

    clean: Prompt
    corrupt: Prompt
    answers: Sequence[str | int]
    wrongs: Sequence[str | int]


class AnySource(Protocol):
    """What sources of pairs and of completions share."""

    title: str


class Source(AnySource, Protocol[P]):
    """A built-in task: its words, split so that train and test share none, and one random draft."""

    metric: str

    def pools(self, tokens: "Tokens", rng: random.Random) -> tuple[P, P]:
        """Words for train and words for test, of which this tokenizer makes what the task needs."""

    def draft(self, pool: P, rng: random.Random) -> Draft:
        """One example from a pool."""


class SplitSource(Source[P], Protocol[P]):
    """One that can also be split by templates."""

    def by_templates(self) -> Source[P]:
        """The source of which train and test share neither templates nor what fills them."""


@dataclass(frozen=True)
class Item:
    """A completion before tokenisation. The target is what follows the prompt, with its leading space or newline."""

    prompt: str
    target: str
    choices: tuple[str, ...] = ()
    """Where the target is one of several, all of them, the target among them, written as the target is."""


@runtime_checkable
class ItemSource(AnySource, Protocol):
    """A built-in task of completions: all its items, split so that train and test share no words."""

    def items(self, rng: random.Random) -> tuple[Sequence[Item], Sequence[Item]]:
        """Train and test items in random order. The same state of `rng` gives the same items."""


@dataclass(frozen=True)
class TwoSides(Generic[P]):
    """A source whose words are split first; each side is then made from its own."""

    title: str
    split: Callable[[random.Random], tuple[P, P]]
    side: Callable[[P, random.Random], list[Item]]

    def items(self, rng: random.Random) -> tuple[list[Item], list[Item]]:
        train, test = self.split(rng)
        return self.side(train, rng), self.side(test, rng)


@dataclass(frozen=True)
class Tokens:
    """Questions about a tokenizer and its model that the tasks ask."""

    encode: Callable[[str], list[int]]
    vocabulary: int | None = None  # how many tokens the model knows, to check ids that are given as such
    limit: int | None = None  # how many tokens the model takes at once
    start: int | None = None  # what stands in for an empty prompt

    def after(self, prompt: str, continuation: str) -> list[int] | None:
        """Ids that `continuation` adds to `prompt`, or None where it changes how the prompt itself is split."""
        before, whole = self.encode(prompt), self.encode(prompt + continuation)
        return whole[len(before) :] if whole[: len(before)] == before else None

    def single(self, words: Sequence[str], prompt: str = "This is for") -> list[str]:
        """The words that are one token when they follow a space."""
        return [word for word in words if len(self.after(prompt, f" {word}") or ()) == 1]

    def next_id(self, prompt: Prompt, answer: str | int) -> int:
        """The one token that `answer` adds to `prompt`."""
        if isinstance(answer, int):
            return answer
        if not isinstance(prompt, str):
            raise HeadcountError(f"A prompt of token ids takes answers of token ids; got {quoted(answer)}.")
        ids = self.after(prompt, answer)
        if ids is None or len(ids) != 1:
            count = "merges with the prompt's last token" if ids is None else f"is {len(ids)} tokens"
            cure = "Choose another word."
            if not answer[:1].isspace() and len(self.after(prompt, f" {answer}") or ()) == 1:
                cure = "With a space in front it is one: 'headcount tasks check FILE --fix-space' writes it so."
            raise HeadcountError(
                f"An answer must be one token after its prompt, but {quoted(answer)} {count} in this tokenizer. {cure}"
            )
        return ids[0]

    def pair(self, draft: Draft) -> Pair:
        """The pair that a draft stands for. Raises `HeadcountError` where the tokenizer does not allow it."""
        clean, corrupt = (self.encode(text) if isinstance(text, str) else text for text in (draft.clean, draft.corrupt))
        right, wrong = ([self.next_id(draft.clean, word) for word in words] for words in (draft.answers, draft.wrongs))
        if both := [word for word, token in zip(draft.answers, right, strict=True) if token in wrong]:
            raise HeadcountError(f"An answer cannot be right and wrong at once; {quoted(both[0])} is both.")
        made = Pair(tuple(clean), tuple(corrupt), tuple(right), tuple(wrong))
        for token in (*made.clean, *made.corrupt, *made.answers, *made.wrongs):
            if self.vocabulary is not None and not 0 <= token < self.vocabulary:
                raise HeadcountError(f"Token ids must lie between 0 and {self.vocabulary - 1}; {token} does not.")
        return made


def completion(item: Item, tokens: Tokens) -> Completion:
    """The tokens of an item, checked: nothing empty, nothing longer than the model's context, and a prompt whose tokens
    do not change when the target is written behind it. An empty prompt becomes the token `tokens.start`."""
    if not item.target:
        raise HeadcountError("the target is empty; it must be the text that should follow the prompt.")
    if item.choices and item.target not in item.choices:
        choices = listed(map(quoted, item.choices))
        raise HeadcountError(f"the target {quoted(item.target)} must be one of the choices, {choices}.")
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
            f"the target {quoted(target, 40)} tokenises across the boundary: written behind the prompt, it changes the"
            f" prompt's own last tokens ({prompt[-20:]!r}). Move a space from the end of the prompt to the start of the"
            " target."
        )
    if not found:
        raise HeadcountError(f"the target {quoted(target)} adds no token to the prompt.")
    return tuple(found)


def draw_pairs(source: Source[P], pool: P, tokens: Tokens, n: int, rng: random.Random, name: str) -> tuple[Pair, ...]:
    """`n` different pairs from one pool; drafts that the tokenizer splits unevenly are left out."""
    if n > MOST_PAIRS:
        raise HeadcountError(f"A built-in task has {2 * MOST_PAIRS:,} examples at most, and n is {quoted(2 * n)}.")
    found: dict[tuple[int, ...], Pair] = {}
    left_out, reason, in_vain = 0, "every draft was drawn before", 0
    for _ in range(50 * n + 200):
        if len(found) == n or in_vain > 10 * (len(found) + 200):  # by then the last one would have come
            break
        in_vain += 1
        try:
            pair = tokens.pair(source.draft(pool, rng))
            if pair.clean not in found:
                found[pair.clean], in_vain = pair, 0
        except HeadcountError as error:
            left_out, reason = left_out + 1, str(error)
    if not found:
        raise HeadcountError(
            f"The task {name!r} is empty with this tokenizer: all {left_out} drafts were left out."
            f" The last one because: {reason}"
        )
    if len(found) < n:
        raise HeadcountError(
            f"The task {name!r} has only {len(found)} different pairs a split with this tokenizer, and {n} were asked"
            f" for. Ask for n={2 * len(found)} or fewer."
        )
    return tuple(found.values())


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


def halves(words: Sequence[str], rng: random.Random, least: int, what: str) -> tuple[list[str], list[str]]:
    """Words of one token each, shuffled and cut in two, for train and for test."""
    if len(words) < 2 * least:
        raise HeadcountError(
            f"This task needs {2 * least} {what} that are one token each, and this tokenizer has {len(words)} of ours."
            " Use a JSONL of your own with words that it knows."
        )
    return in_two(words, rng)


def in_two(texts: Sequence[str], rng: random.Random) -> tuple[list[str], list[str]]:
    """Shuffled and cut in two, for train and for test."""
    shuffled = rng.sample(list(texts), len(texts))
    return shuffled[::2], shuffled[1::2]


def wordings(kinds: Sequence[Texts], split: SplitBy, rng: random.Random) -> tuple[Sequence[Texts], Sequence[Texts]]:
    """Templates, and kinds of words that fill them, for train and for test: all of them for both, or each kind cut in
    two."""
    if split == "words":
        return kinds, kinds
    cut = [in_two(kind, rng) for kind in kinds]
    return [train for train, _ in cut], [test for _, test in cut]


def lettered(question: str, options: Sequence[str]) -> str:
    """A question with its choices, up to where the letter of the right one follows."""
    lines = [f"{letter}. {option}" for letter, option in zip(ascii_uppercase, options, strict=False)]
    return "\n".join([f"Question: {question}", *lines, "Answer:"])
