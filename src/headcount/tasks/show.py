"""Examples of a task for people to read, with what the model itself makes of them."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..models import Model
from .batches import collate
from .examples import Completion, Example, Pair


@torch.no_grad()
def describe_examples(model: Model, examples: Sequence[Example]) -> Iterator[str]:
    """A block of text an example: its prompt or prompts, and the probabilities of the answers."""
    for example in examples:
        batch = collate([example], model.device)
        logits = model.last_logits(batch.clean, batch.spots, rows=batch.rows)
        probabilities = logits.float().softmax(-1)
        lines = (
            _pair(model, example, probabilities)
            if isinstance(example, Pair)
            else _completion(model, example, probabilities)
        )
        yield "\n".join(lines)


def _pair(model: Model, pair: Pair, probabilities: Tensor) -> list[str]:
    first = int(probabilities[0].argmax())
    return [
        f"clean    {_text(model, pair.clean)}",
        f"corrupt  {_text(model, pair.corrupt)}",
        f"answer   {_with_probabilities(model, pair.answers, probabilities[0])}",
        f"wrong    {_with_probabilities(model, pair.wrongs, probabilities[0])}",
        f"model    {_with_probabilities(model, [first], probabilities[0])} comes first; {len(pair.clean)} tokens",
    ]


def _completion(model: Model, example: Completion, probabilities: Tensor) -> list[str]:
    target = torch.tensor(example.target, device=probabilities.device)
    by_token = probabilities.gather(1, target[:, None]).log()
    total, count = float(by_token.sum()), len(example.target)
    lines = [
        f"prompt   {_text(model, example.prompt)}",
        f"target   {_text(model, example.target)}",
        f"model    log-probability {total:.2f}, {total / count:.2f} a token; {len(example.prompt)} + {count} tokens",
    ]
    if example.others:
        lines.insert(2, f"others   {', '.join(repr(model.decode(other)) for other in example.others)}")
    return lines


def _text(model: Model, ids: Sequence[int]) -> str:
    return model.decode(ids).replace("\n", "\n         ")


def _with_probabilities(model: Model, ids: Sequence[int], probabilities: Tensor) -> str:
    words = [f"{model.decode([i])!r} {float(probabilities[i]):.1%}" for i in ids]
    return ", ".join(words)
