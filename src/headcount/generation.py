"""Answers that a model writes by itself, greedily, while heads are cut.

Hugging Face's own `generate` does the work, inside the hooks of `cuts`; prompts are padded on the left, and many cuts of
the same prompts share a batch. Positions of a cut:

    generated   from the last prompt token on: what the model read of the prompt is left alone (as published)
    all         the prompt too
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import GenerationConfig

from .cuts import Filling, cut_heads
from .errors import HeadcountError
from .measure import MAX_TOKENS, Advance, silent
from .models import Model

Where = Literal["generated", "all"]


@torch.no_grad()
def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    keeps: Tensor | None = None,
    filling: Filling | None = None,
    *,
    positions: Where = "generated",
    max_new_tokens: int = 32,
    stop: Sequence[str] = (),
    max_tokens: int = MAX_TOKENS,
    advance: Advance = silent,
) -> list[list[list[int]]]:
    """Tokens behind each prompt, [cut][prompt][token]; without the token that ends a text, and without what follows a
    stop string.

    **Arguments:**

    - `keeps`: [cut, layer, head], True for heads that are left alone; None for the whole model, as one cut.
    - `max_tokens`: of prompts, in one batch.
    """
    if keeps is None:
        keeps = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
    found: list[list[list[int]]] = [[[] for _ in prompts] for _ in keeps]
    for indices in _batches(prompts, max_tokens):
        at_once = max(max_tokens // (len(indices) * max(len(prompts[i]) for i in indices)), 1)
        for first in range(0, len(keeps), at_once):
            some = keeps[first : first + at_once]
            rows = _run(
                model, [prompts[i] for i in indices], some, filling or Filling(), positions, max_new_tokens, stop
            )
            for row, tokens in enumerate(rows):
                cut, place = divmod(row, len(indices))
                found[first + cut][indices[place]] = tokens
            advance(len(rows))
    return found


def _run(
    model: Model, prompts: Sequence[Sequence[int]], keeps: Tensor, filling: Filling, positions: Where,
    max_new_tokens: int, stop: Sequence[str],
) -> list[list[int]]:  # fmt: skip
    """The answers of one batch, cut by cut."""
    ends = _end_tokens(model)
    pad = ends[0] if ends else 0
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(p)) + list(p) for p in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    config = GenerationConfig(
        do_sample=False, num_beams=1, max_new_tokens=max_new_tokens, eos_token_id=ends or None, pad_token_id=pad
    )
    extra: dict[str, Any] = {"stop_strings": list(stop), "tokenizer": model.tokenizer} if stop else {}
    with cut_heads(model, keeps, filling, positions):
        made = model.hf.generate(
            input_ids=ids.repeat(len(keeps), 1), attention_mask=mask.repeat(len(keeps), 1), generation_config=config,
            **extra,
        )  # fmt: skip
    return [_trimmed(model, row, ends, stop) for row in made[:, width:].tolist()]


def _trimmed(model: Model, tokens: list[int], ends: Sequence[int], stop: Sequence[str]) -> list[int]:
    """Up to the end of the text, or to a stop string."""
    length = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
    tokens = tokens[:length]
    if stop:
        for count in range(1, len(tokens) + 1):
            if any(word in model.tokenizer.decode(tokens[:count]) for word in stop):
                return tokens[:count]
    return tokens


def _end_tokens(model: Model) -> list[int]:
    """The tokens that end a text, by the model's own generation config, else by its tokenizer."""
    ends = model.hf.generation_config.eos_token_id
    if ends is None:
        ends = getattr(model.tokenizer, "eos_token_id", None)
    return [] if ends is None else list(ends) if isinstance(ends, list | tuple) else [int(ends)]


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
