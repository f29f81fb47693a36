"""Examples of a task for people to read, with what the model itself makes of them."""

from collections.abc import Iterator, Sequence

import torch

from ..models import Model
from .pairs import Pair, collate


@torch.no_grad()
def describe_pairs(model: Model, pairs: Sequence[Pair]) -> Iterator[str]:
    """A block of text a pair: both prompts, and the probabilities of the answers after the clean one."""
    for pair in pairs:
        batch = collate([pair], model.device)
        probabilities = model.last_logits(batch.clean, batch.last)[0].float().softmax(-1)
        first = int(probabilities.argmax())
        lines = [
            f"clean    {_text(model, pair.clean)}",
            f"corrupt  {_text(model, pair.corrupt)}",
            f"answer   {_with_probabilities(model, pair.answers, probabilities)}",
            f"wrong    {_with_probabilities(model, pair.wrongs, probabilities)}",
            f"model    {_with_probabilities(model, [first], probabilities)} comes first; {len(pair.clean)} tokens",
        ]
        yield "\n".join(lines)


def _text(model: Model, ids: Sequence[int]) -> str:
    return str(model.tokenizer.decode(ids)).replace("\n", "\n         ")


def _with_probabilities(model: Model, ids: Sequence[int], probabilities: torch.Tensor) -> str:
    words = [f"{model.tokenizer.decode([i])!r} {float(probabilities[i]):.1%}" for i in ids]
    return ", ".join(words)
