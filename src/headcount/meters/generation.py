"""Answers that a model writes by itself, greedily, while its heads are changed.

Hugging Face's own `generate` does the work, inside the hooks of `edit`. Prompts are padded on the left, and many
changes of the same prompts share a batch. Where a change begins at the last prompt token, what comes before is read
once.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, cast, get_args

import torch
from torch import Tensor
from transformers import DynamicCache, GenerationConfig

from ..core.errors import HeadcountError
from ..core.words import WrittenPositions
from ..edit import Filling, cut_heads, push_heads
from ..models import Model
from ..models.attention import grouped_attention
from ..tasks import context_of
from .meter import Advance, silent

PROMPT_TOKENS = 16384
"""Prompt tokens in a batch, of all changes together: enough rows to keep a processor busy at every step."""


class Change(Protocol):
    """Something done to heads, in several variants."""

    @property
    def positions(self) -> WrittenPositions: ...

    def __len__(self) -> int: ...

    def part(self, first: int, last: int) -> Self: ...

    def applied(self, model: Model) -> AbstractContextManager[None]:
        """The rows of the batch are the same prompts once for each variant."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """Heads that are removed."""

    keeps: Tensor
    """[cut, layer, head], True for heads that are left alone."""
    filling: Filling = field(default_factory=Filling)
    positions: WrittenPositions = "generated"

    def __post_init__(self) -> None:
        _check_positions(self.positions)

    def __len__(self) -> int:
        return len(self.keeps)

    def part(self, first: int, last: int) -> "Cuts":
        return replace(self, keeps=self.keeps[first:last])

    def applied(self, model: Model) -> AbstractContextManager[None]:
        return cut_heads(model, self.keeps, self.filling, self.positions)


@dataclass(frozen=True, eq=False)
class Pushes:
    """Directions that are added to heads."""

    vectors: Tensor
    """[push, layer, head, head size]."""
    positions: WrittenPositions = "generated"

    def __post_init__(self) -> None:
        _check_positions(self.positions)

    def __len__(self) -> int:
        return len(self.vectors)

    def part(self, first: int, last: int) -> "Pushes":
        return replace(self, vectors=self.vectors[first:last])

    def applied(self, model: Model) -> AbstractContextManager[None]:
        return push_heads(model, self.vectors, self.positions)


def _check_positions(positions: str) -> None:
    if positions not in (known := get_args(WrittenPositions)):
        raise HeadcountError(f"While a model writes there are no positions {positions!r}. Known: {', '.join(known)}.")


def no_change(model: Model) -> Cuts:
    """The whole model."""
    return Cuts(torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool))


@torch.no_grad()
def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    change: Change | None = None,
    *,
    max_new_tokens: int = 24,
    stop: Sequence[str] = (),
    max_tokens: int = PROMPT_TOKENS,
    advance: Advance = silent,
) -> list[list[list[int]]]:
    """Token ids behind each prompt, [variant][prompt][token]; without the token that ends a text, and up to the first
    stop string. Plainly greedy: penalties and the like in the model's own generation config are left aside.

    **Arguments:**

    - `change`: `Cuts` or `Pushes`; None for the whole model, as one variant.
    - `max_tokens`: of prompts, in one batch.
    - `advance`: is told how many answers have been written.
    """
    asked: Change = no_change(model) if change is None else change
    _check_length(model, prompts, max_new_tokens)
    if stop:
        model.require_tokenizer()
    written: list[list[list[int]]] = [[[] for _ in prompts] for _ in range(len(asked))]
    for places in _batches(prompts, max_tokens):
        batch = _Prompts.of(model, [prompts[place] for place in places])
        at_once = max(max_tokens // batch.ids.numel(), 1)
        prefix = batch.read_prefix(model) if asked.positions == "generated" and len(asked) > 1 else None
        for first in range(0, len(asked), at_once):
            part = asked.part(first, first + at_once)
            past = None if prefix is None else model.repeated_prefix(prefix, len(part))
            rows = _write(model, batch, part, past, max_new_tokens, stop)
            for row, tokens in enumerate(rows):
                variant, place = divmod(row, len(places))
                written[first + variant][places[place]] = tokens
            advance(len(rows))
    return written


@dataclass(frozen=True)
class _Prompts:
    """A batch, padded on the left."""

    ids: Tensor
    mask: Tensor

    @classmethod
    def of(cls, model: Model, prompts: Sequence[Sequence[int]]) -> "_Prompts":
        width, pad = max(map(len, prompts)), pad_token(model)
        ids = [[pad] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        return cls(torch.tensor(ids, device=model.device), torch.tensor(mask, device=model.device))

    def read_prefix(self, model: Model) -> Any:
        """Keys and values of all but the last token of every prompt, which no variant can reach."""
        if self.ids.shape[1] == 1:
            return None
        cache, mask = DynamicCache(config=model.hf.config), self.mask[:, :-1]
        # As `generate` counts them: from 0 at the first real token. What padding gets is never looked at.
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        base = model.hf.base_model
        base(input_ids=self.ids[:, :-1], attention_mask=mask, position_ids=positions, past_key_values=cache)
        return cache


def _write(
    model: Model, batch: _Prompts, change: Change, past: Any, max_new_tokens: int, stop: Sequence[str]
) -> list[list[int]]:
    """The answers of one batch, variant by variant."""
    ends = end_tokens(model)
    config = GenerationConfig(
        do_sample=False,
        num_beams=1,
        max_new_tokens=max_new_tokens,
        eos_token_id=ends or None,
        pad_token_id=pad_token(model),
        stop_strings=list(stop) or None,
    )
    with change.applied(model), grouped_attention(model), _own_config(model, config):
        made: Tensor = cast(Any, model.hf).generate(
            input_ids=batch.ids.repeat(len(change), 1),
            attention_mask=batch.mask.repeat(len(change), 1),
            past_key_values=past,
            tokenizer=model.tokenizer if stop else None,
        )
    return [_trimmed(model, row, ends, stop) for row in made[:, batch.ids.shape[1] :].tolist()]


def _trimmed(model: Model, tokens: list[int], ends: Sequence[int], stop: Sequence[str]) -> list[int]:
    """Up to the token that ends a text, or to a stop string; the token that completes it stays where it also says
    something else."""
    tokens = tokens[: next((place for place, token in enumerate(tokens) if token in ends), len(tokens))]
    for count in range(1, len(tokens) + 1 if stop else 0):
        text = model.decode(tokens[:count])
        if any(word in text for word in stop):
            before = min(text.find(word) for word in stop if word in text)
            says_more = len(model.decode(tokens[: count - 1])) < len(text[:before].rstrip())
            return tokens[: count if says_more else count - 1]
    return tokens


@contextmanager
def _own_config(model: Model, config: GenerationConfig) -> Iterator[None]:
    """`generate` fills what a config leaves open from the model's own; a penalty there would not be greedy."""
    before = model.hf.generation_config
    model.hf.generation_config = config
    try:
        yield
    finally:
        model.hf.generation_config = before


def _check_length(model: Model, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
    limit, longest = context_of(model), max(map(len, prompts), default=0)
    if limit and longest + max_new_tokens > limit:
        raise HeadcountError(
            f"A prompt of {longest} tokens and an answer of {max_new_tokens} are more than the {limit} that"
            f" {model.name} takes. Ask shorter questions, or for shorter answers."
        )


def end_tokens(model: Model) -> list[int]:
    """The tokens that end a text, by the model's own generation config, else by its tokenizer."""
    ends = model.hf.generation_config.eos_token_id
    if ends is None:
        ends = getattr(model.tokenizer, "eos_token_id", None)
    return [] if ends is None else list(ends) if isinstance(ends, list | tuple) else [int(ends)]


def pad_token(model: Model) -> int:
    """Any will do: padding is masked."""
    return (end_tokens(model) or [0])[0]


def _batches(prompts: Sequence[Sequence[int]], max_tokens: int) -> list[list[int]]:
    """Prompts of about one length together, by their places."""
    made: list[list[int]] = []
    for place in sorted(range(len(prompts)), key=lambda i: len(prompts[i])):
        if not prompts[place]:
            raise HeadcountError(f"Prompt {place} is empty; a model needs at least one token to go on from.")
        if made and len(prompts[place]) * (len(made[-1]) + 1) <= max_tokens:
            made[-1].append(place)
        else:
            made.append([place])
    return made
