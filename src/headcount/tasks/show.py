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
        chances = logits.float().softmax(-1)
        lines = _pair(model, example, chances) if isinstance(example, Pair) else _completion(model, example, chances)
        yield "\n".join(f"{name:<9}{text}".replace("\n", "\n         ") for name, text in lines.items())


def _pair(model: Model, pair: Pair, probabilities: Tensor) -> dict[str, str]:
    def with_probabilities(ids: Sequence[int]) -> str:
        return ", ".join(f"{model.decode([i])!r} {float(probabilities[0, i]):.1%}" for i in ids)

    first = int(probabilities[0].argmax())
    return {
        "clean": model.decode(pair.clean),
        "corrupt": model.decode(pair.corrupt),
        "answer": with_probabilities(pair.answers),
        "wrong": with_probabilities(pair.wrongs),
        "model": f"{with_probabilities([first])} comes first; {len(pair.clean)} tokens",
    }


def _completion(model: Model, example: Completion, probabilities: Tensor) -> dict[str, str]:
    target = torch.tensor(example.target, device=probabilities.device)
    total, count = float(probabilities.gather(1, target[:, None]).log().sum()), len(example.target)
    others = {"others": ", ".join(repr(model.decode(other)) for other in example.others)} if example.others else {}
    return {
        "prompt": model.decode(example.prompt),
        "target": model.decode(example.target),
        **others,
        "model": f"log-probability {total:.2f}, {total / count:.2f} per token; {len(example.prompt)} + {count} tokens",
    }
