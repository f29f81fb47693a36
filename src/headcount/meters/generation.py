"""Answers that a model writes by itself, greedily, while its heads are changed.

Hugging Face's own `generate` does the work, inside the hooks of `edit`. Prompts are padded on the left, and many
changes of the same prompts share a batch. Where a change begins at the last prompt token, what comes before is read
once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, GenerationConfig

from ..core.errors import HeadcountError
from ..core.words import WrittenPositions
from ..edit import Filling, cut_heads, push_heads
from ..models import Model
from ..models.attention import grouped_attention
from ..models.changes import changing, leaves_no_trace
from .meter import Advance, silent

PROMPT_TOKENS = 16384
"""Prompt tokens in a batch, of all changes together: enough rows to keep a processor busy at every step."""


class Change(ABC):
    """Something done to heads, in several variants."""

    positions: WrittenPositions

    def __post_init__(self) -> None:
        if self.positions not in (known := get_args(WrittenPositions)):
            raise HeadcountError(
                f"While a model writes there are no positions {self.positions!r}. Known: {', '.join(known)}."
            )

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def applied(self, model: Model, some: slice) -> AbstractContextManager[None]:
        """The rows of the batch are the same prompts once for each of these variants."""


@dataclass(frozen=True, eq=False)
class Cuts(Change):
    """Heads that are removed."""

    keeps: Tensor
    """[cut, layer, head], True for heads that are left alone."""
    filling: Filling = field(default_factory=Filling)
    positions: WrittenPositions = "generated"

    def __len__(self) -> int:
        return len(self.keeps)

    def applied(self, model: Model, some: slice) -> AbstractContextManager[None]:
        return cut_heads(model, self.keeps[some], self.filling, self.positions)


@dataclass(frozen=True, eq=False)
class Pushes(Change):
    """Directions that are added to heads."""

    vectors: Tensor
    """[push, layer, head, head size]."""
    positions: WrittenPositions = "generated"

    def __len__(self) -> int:
        return len(self.vectors)

    def applied(self, model: Model, some: slice) -> AbstractContextManager[None]:
        return push_heads(model, self.vectors[some], self.positions)


@leaves_no_trace
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
    if max_new_tokens < 1:
        raise HeadcountError(f"An answer has at least 1 token; max_new_tokens is {max_new_tokens}.")
    if change is None:
        change = Cuts(torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool))
    limit, longest = model.context, max(map(len, prompts), default=0)
    if limit and longest + max_new_tokens > limit:
        raise HeadcountError(
            f"A prompt of {longest} tokens and an answer of {max_new_tokens} are more than the {limit} that"
            f" {model.name} takes. Ask shorter questions, or for shorter answers."
        )
    for prompt in filter(len, prompts):
        model.prompt_ids(prompt)
    tokenizer = model.require_tokenizer() if stop else None
    ends = end_tokens(model)
    padding = (ends or [0])[0]  # any will do, as it is masked
    ending = {"eos_token_id": ends or None, "pad_token_id": padding, "stop_strings": list(stop) or None}
    config = GenerationConfig(do_sample=False, num_beams=1, max_new_tokens=max_new_tokens, **ending)
    written = [[list[int]() for _ in prompts] for _ in range(len(change))]
    for places in _batches(prompts, max_tokens):
        rows = [torch.tensor(prompts[place]) for place in places]
        ids = pad_sequence(rows, True, padding, "left").to(model.device)
        mask = pad_sequence([torch.ones_like(row) for row in rows], True, 0, "left").to(model.device)
        at_once = max(max_tokens // ids.numel(), 1)
        prefix = _read_prefix(model, ids, mask) if change.positions == "generated" and len(change) > 1 else None
        for first in range(0, len(change), at_once):
            some = slice(first, min(first + at_once, len(change)))
            copies = some.stop - first
            past = None if prefix is None else model.repeated_prefix(prefix, copies)
            asked = {"input_ids": ids.repeat(copies, 1), "attention_mask": mask.repeat(copies, 1)}
            with change.applied(model, some), grouped_attention(model), _own_config(model, config):
                made = cast(Any, model.hf).generate(**asked, past_key_values=past, tokenizer=tokenizer)
            for row, tokens in enumerate(made[:, ids.shape[1] :].tolist()):
                variant, place = divmod(row, len(places))
                written[first + variant][places[place]] = _trimmed(model, tokens, ends, stop)
            advance(len(made))
    return written


def _read_prefix(model: Model, ids: Tensor, mask: Tensor) -> Any:
    """Keys and values of all but the last token of every prompt, which no variant can reach."""
    if ids.shape[1] == 1:
        return None
    cache, mask = DynamicCache(config=model.hf.config), mask[:, :-1]
    # As `generate` counts them: from 0 at the first real token. What padding gets is never looked at.
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    model.hf.base_model(input_ids=ids[:, :-1], attention_mask=mask, position_ids=positions, past_key_values=cache)
    return cache


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
    with changing() as changes:
        changes.set(model.hf, "generation_config", config)
        yield


def end_tokens(model: Model) -> list[int]:
    """The tokens that end a text, by the model's own generation config, else by its tokenizer."""
    ends = model.hf.generation_config.eos_token_id
    if ends is None:
        ends = getattr(model.tokenizer, "eos_token_id", None)
    if ends is None:
        return []
    return list(ends) if isinstance(ends, list | tuple) else [int(ends)]


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
