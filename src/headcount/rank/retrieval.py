"""Heads that fetch the answer from where it stands in the prompt: what a full KV cache is for.

The needle is where the answer stands in the prompt (its last occurrence). While the answer is written, token by token,
with the right tokens before it, a head

    copies    the share of the answer's tokens at which it looks most at the needle's place of that very token
              (the retrieval score of Wu et al. 2024, arXiv 2404.15574)
    attends   the mean attention weight that it gives to that place

and its score is the mean of the two, from 0 to 1. The second part tells heads apart that look there without looking
there most. Examples whose answer does not stand in their prompt have no needle and score 0; where none has one, there
is nothing to score.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..edit.attention import attention_weights
from ..models import Model
from ..tasks.batches import batches
from ..tasks.examples import Completion, Example
from .method import Request


@torch.no_grad()
def retrieval(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """[example, layer, head]."""
    asked = [_completion(example) for example in examples]
    needles = [needle_of(example.prompt, example.target) for example in asked]
    if not any(needles):
        raise HeadcountError(
            "retrieval scores heads that fetch an answer from the prompt, and no answer of this task stands in its"
            " prompt. Use the task needle."
        )
    scores = torch.zeros(len(asked), model.n_layers, model.n_heads, dtype=torch.float64)
    for places, batch in batches(asked, model.device, request.max_tokens):
        patterns = attention_weights(model, batch.clean)
        for row, place in enumerate(places):
            if needles[place]:
                spots, keys = batch.spots[batch.rows == row], torch.tensor(needles[place], device=model.device)
                scores[place] = torch.stack([_part(weights[row], spots, keys) for weights in patterns])
        request.advance(len(places))
    return scores


def _part(weights: Tensor, spots: Tensor, keys: Tensor) -> Tensor:
    """Of one layer, [head]; `weights` is [head, query, key], `spots` where each token is predicted, `keys` where it
    stands in the needle."""
    seen = weights[:, spots.to(weights.device)]
    wanted = keys.to(weights.device)
    copies = (seen.argmax(-1) == wanted).double().mean(-1)
    attends = seen.gather(-1, wanted.expand(len(seen), -1)[..., None])[..., 0].double().mean(-1)
    return ((copies + attends) / 2).cpu()


def needle_of(prompt: Sequence[int], target: Sequence[int]) -> list[int]:
    """The positions of the target's last occurrence in a prompt; none where it is not there."""
    size = len(target)
    starts = [start for start in range(len(prompt) - size + 1) if tuple(prompt[start : start + size]) == tuple(target)]
    return [*range(starts[-1], starts[-1] + size)] if starts else []


def _completion(example: Example) -> Completion:
    return example if isinstance(example, Completion) else Completion(example.clean, example.answers[:1])
