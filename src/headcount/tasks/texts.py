"""The prompts of a task as texts, and what the whole model says to them: what a reader needs beside the numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from ..core.saving import Saved
from ..models import Model
from .batches import batches
from .examples import Example, Pair

SAID = 3  # of the most probable next tokens
TOKENS_AT_ONCE = 2048
Said = list[tuple[str, float]]


@dataclass(frozen=True)
class PromptTexts(Saved):
    """A list entry an example. Of a completion there is no counterfactual, and wrong are its other choices."""

    FILE: ClassVar[str] = "prompts"

    texts: list[str] = field(repr=False)
    counterfactuals: list[str | None] = field(repr=False)
    answers: list[str] = field(repr=False)
    wrongs: list[str] = field(repr=False)
    tokens: list[list[str]] = field(repr=False)
    says: list[Said] = field(repr=False)
    """What the whole model would say next, most probable first."""
    says_counterfactual: list[Said] = field(repr=False)


@torch.no_grad()
def prompt_texts(
    model: Model, examples: Sequence[Example], advance: Callable[[int], None] = lambda count: None
) -> PromptTexts:
    """Two forward passes a pair, one a completion."""
    says: list[Said] = [[] for _ in examples]
    says_counterfactual: list[Said] = [[] for _ in examples]
    for indices, batch in batches(examples, model.device, TOKENS_AT_ONCE):
        sides = [(batch.clean, says), *([] if batch.other is None else [(batch.other, says_counterfactual)])]
        for ids, said in sides:
            chances = model.last_logits(ids, batch.last).float().softmax(-1)
            for index, row in zip(indices, chances, strict=True):
                said[index] = _said(model, row)
        advance(len(indices) * len(sides))
    words = [_words(model, example) for example in examples]
    texts, counterfactuals, answers, wrongs, tokens = (list(side) for side in zip(*words, strict=True))
    return PromptTexts(texts, counterfactuals, answers, wrongs, tokens, says, says_counterfactual)


def _said(model: Model, chances: Tensor) -> Said:
    best = chances.topk(min(SAID, len(chances)))
    return [(model.decode([int(i)]), float(f"{float(p):.4g}")) for p, i in zip(*best, strict=True)]


def _words(model: Model, example: Example) -> tuple[str, str | None, str, str, list[str]]:
    def listed(choices: Sequence[Sequence[int]]) -> str:
        return ", ".join(model.decode(choice) for choice in choices)

    if isinstance(example, Pair):
        tokens = [model.decode([i]) for i in example.clean]
        sides = listed([[i] for i in example.answers]), listed([[i] for i in example.wrongs])
        return model.decode(example.clean), model.decode(example.corrupt), *sides, tokens
    tokens = [model.decode([i]) for i in example.prompt]
    return model.decode(example.prompt), None, model.decode(example.target), listed(example.others), tokens
