"""What the switchboard is asked: a state, which stands in the page's address, and its prompts as tokens, checked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

from pydantic import Field

from ...core.errors import HeadcountError, require_known
from ...core.settings import Listed, Settings
from ...core.words import POSITIONS, Positions
from ...edit import Fill, Head, head_name
from ...edit.cut import keep_mask
from ...models import Model
from ...tasks import TASKS, tokens_of
from ...tasks.examples import first_difference

MAX_TOKENS = 1024
"""Of a prompt. A click should be answered while one still looks at it."""
FILLS = ("zero", "mean", "mean-global", "counterfactual", "resample", "scale")
"""Kinds of fills, those of `headcount.cut`."""
OF_TASK = ("mean", "mean-global", "resample")
"""Fills that come from the train prompts of a task."""
Words = str | Listed[int]
"""A prompt: text, or token ids where no text says the same tokens."""


class State(Settings):
    """All that an answer of the switchboard depends on."""

    prompt: Words
    """What the model reads."""
    other: Words = ""
    """The counterfactual prompt, as long in tokens; empty for none."""
    answers: Listed[str | int] = ()
    """Next tokens that are right: texts as they follow the prompt, or token ids."""
    wrongs: Listed[str | int] = ()
    """Next tokens that are wrong."""
    cut: Listed[str] = ()
    """Names of the heads that are removed: a3.h5 is head 5 of layer 3."""
    fill: str = "zero"
    """What they carry instead: zero, mean, mean-global, counterfactual, resample, scale(0.1)."""
    positions: Positions = "all"
    """Where they are removed."""
    reference: str = ""
    """The task over whose train prompts a mean is taken, or among which another prompt is drawn."""
    seed: Annotated[int, Field(ge=0, le=10**6)] = 0
    """Of that draw."""
    new_tokens: Annotated[int, Field(ge=0, le=64)] = 12
    """How many tokens the model writes on."""
    model: str = ""
    """Of which model this is; empty for the one that is served."""


@dataclass(frozen=True)
class Asked:
    """A state whose words have become tokens and heads that are there."""

    ids: tuple[int, ...]
    other: tuple[int, ...]  # empty for none
    answers: tuple[int, ...]
    wrongs: tuple[int, ...]
    heads: tuple[Head, ...]  # that are removed
    fill: Fill
    positions: Positions
    reference: str
    seed: int
    new_tokens: int

    @classmethod
    def of(cls, model: Model, state: State) -> "Asked":
        if state.model not in ("", model.name):
            raise HeadcountError(
                f"This switchboard is of {model.name}, and a state of {state.model[:60]!r} was asked for. Start it:"
                f" headcount play MODEL."
            )
        require_known(state.positions, POSITIONS, "positions")
        ids, other = (prompt_ids(model, words) for words in (state.prompt, state.other))
        if not ids:
            raise HeadcountError("The prompt is empty; write at least one word for the model to go on from.")
        removed = ~keep_mask(model, state.cut)
        heads = tuple((layer, head) for layer, head in removed.nonzero().tolist())
        answers, wrongs = (tuple(_next(model, state, word) for word in side) for side in (state.answers, state.wrongs))
        if both := set(answers) & set(wrongs):
            raise HeadcountError(f"A token cannot be right and wrong at once; {shown(model, min(both))!r} is both.")
        asked = cls(
            ids, other, answers, wrongs, heads, Fill.parse(state.fill), state.positions, state.reference,
            state.seed, state.new_tokens,
        )  # fmt: skip
        asked._check_fill()
        return asked

    def _check_fill(self) -> None:
        if self.fill.kind == "counterfactual" and len(self.other) != len(self.ids):
            came = f"it has {len(self.other)} tokens" if self.other else "there is none"
            raise HeadcountError(
                f"The fill counterfactual needs a counterfactual prompt of {len(self.ids)} tokens, as many as the"
                f" prompt has, and {came}. Change words until both counts agree."
            )
        if self.fill.kind in OF_TASK and self.reference not in TASKS:
            raise HeadcountError(
                f"The fill {self.fill} takes prompts of a task, and there is no task {self.reference[:40]!r}."
                " Choose one, such as ioi."
            )

    def without(self, heads: Sequence[Head]) -> "Asked":
        """The same with these heads removed."""
        return replace(self, heads=tuple(heads))

    @cached_property
    def filling_key(self) -> tuple[object, ...]:
        """What the values of removed heads depend on."""
        mean = self.reference, ()
        sources = {"mean": mean, "mean-global": mean, "resample": (self.reference, (self.seed, len(self.ids)))}
        return str(self.fill), sources.get(self.fill.kind, self.other if self.fill.kind == "counterfactual" else ())

    @cached_property
    def cut_key(self) -> tuple[object, ...]:
        """What the cut run depends on."""
        return self.ids, self.heads, self.positions, self.filling_key

    @property
    def first_layer(self) -> int:
        """Of the cut; what lies before it is as in the whole model."""
        return min(layer for layer, _ in self.heads)

    @property
    def first_position(self) -> int:
        """At which the cut can change anything: before the first token in which the two prompts differ heads carry the
        same in both, and what comes before never depends on what comes after."""
        last = len(self.ids) - 1
        if self.positions != "all":
            return last
        return min(first_difference(self.ids, self.other), last) if self.fill.kind == "counterfactual" else 0


def prompt_ids(model: Model, words: str | Sequence[int]) -> tuple[int, ...]:
    """The tokens of a prompt, refused where the model or the switchboard cannot take them."""
    tokens = tokens_of(model)
    if isinstance(words, str):
        _require_text(words)
        # A token is a character at least, so nothing that is far too long need be tokenised.
        ids = tuple(model.encode(words)) if words and len(words) <= 64 * MAX_TOKENS else (0,) * len(words)
    else:
        ids = tuple(words)
    for token in ids:
        if tokens.vocabulary is not None and not 0 <= token < tokens.vocabulary:
            raise HeadcountError(f"Token ids must lie between 0 and {tokens.vocabulary - 1}; {token} does not.")
    most = min(MAX_TOKENS, tokens.limit or MAX_TOKENS)
    if len(ids) > most:
        raise HeadcountError(f"A prompt may have {most} tokens here, and this one has {len(ids)} or more. Shorten it.")
    return ids


def _require_text(words: str) -> None:
    """JSON can hold half a letter of two parts, which no tokenizer can read."""
    try:
        words.encode()
    except UnicodeEncodeError as error:
        raise HeadcountError(f"The text has half a letter at place {error.start}, which is no text.") from error


def _next(model: Model, state: State, word: str | int) -> int:
    """The token of an answer. A prompt of token ids takes text too, where it is one token by itself."""
    if isinstance(word, int):
        return prompt_ids(model, [word])[0]
    if not word:
        raise HeadcountError("An answer is empty; write the word that should follow the prompt, its space in front.")
    _require_text(word)
    if isinstance(state.prompt, str):
        return tokens_of(model).next_id(state.prompt, word)
    return tokens_of(model).next_id("", word)


HEAD = re.compile(r"\(?\s*[aL]?(\d+)\s*[.,:]?\s*[hH]?(\d+)\s*\)?")
WORD = re.compile(r"\(\s*\d+\s*,\s*\d+\s*\)|[^\s,;\[\]'\"]+")


def parse_heads(model: Model, text: str) -> list[str]:
    """Names of the heads in a pasted list: a3.h5, (3, 5), 3.5, L3H5, with commas, spaces or lines between them."""
    named = []
    for word in WORD.findall(text):
        parts = HEAD.fullmatch(word)
        if parts is None or word.isdigit():
            raise HeadcountError(
                f"A list of heads has names such as a3.h5, (3, 5), 3.5 or L3H5; {word[:40]!r} is none of them."
            )
        named.append((int(parts[1]), int(parts[2])))
    if not named:
        raise HeadcountError(f"There are no heads in {text[:40]!r}. Write names such as a3.h5.")
    keep_mask(model, named)  # refuses heads that are not there
    return [head_name(head) for head in dict.fromkeys(named)]


def shown(model: Model, token: int) -> str:
    """A token as text; its number where the model has no tokenizer."""
    return f"<{token}>" if model.tokenizer is None else model.decode([token])


def as_words(model: Model, ids: Sequence[int]) -> str | list[int]:
    """A prompt as text, where the text gives the same tokens again; else its token ids."""
    if model.tokenizer is None:
        return list(ids)
    text = model.decode(ids, skip_special_tokens=True)
    return text if model.encode(text) == list(ids) else list(ids)


def as_answer(model: Model, prompt: str | list[int], token: int) -> str | int:
    """A next token as text, where the text behind the prompt gives that token; else its id."""
    if isinstance(prompt, str):
        text = model.decode([token])
        if text and tokens_of(model).after(prompt, text) == [token]:
            return text
    return token
