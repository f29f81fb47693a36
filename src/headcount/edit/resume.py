"""A run of a prompt that begins where something is changed.

The whole model reads a prompt once, and what leaves each of its layers is noted (`Reading`). When heads are then cut,
the layers before the first cut need not run again: what was noted stands in for them. From there on the same operations
run on the same tensors as in a run from the beginning, so the logits are the same bit for bit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..models import Model
from ..models.changes import changing
from .heads import visit_heads

Output = Tensor | tuple[Tensor, ...]
"""What a layer returns: the stream, in some families as the first of several."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Prompts of one length as the whole model reads them."""

    ids: Tensor  # [row, position]
    logits: Tensor  # at the last position, [row, vocabulary]
    outputs: tuple[Output, ...]  # of every layer
    values: tuple[Tensor, ...]  # what every head carries, one tensor a layer, [row, position, head, head size]

    @classmethod
    @torch.no_grad()
    def of(cls, model: Model, ids: Tensor) -> "Reading":
        outputs: list[Output] = []
        values: list[Tensor] = []

        def note(module: nn.Module, args: object, output: Output) -> None:
            outputs.append(output)

        with changing() as changes, visit_heads(model, lambda layer, z: values.append(z)):
            for layer in model.anatomy.layers:
                changes.after(layer, note)
            logits = model.last_logits(ids, last_of(ids))
        return cls(ids, logits, tuple(outputs), tuple(values))

    @property
    def bytes(self) -> int:
        """What is kept of it."""
        kept = [self.logits, *(_stream(output) for output in self.outputs), *self.values]
        return sum(tensor.numel() * tensor.element_size() for tensor in kept)


@contextmanager
def resumed(model: Model, reading: Reading, layer: int, start: int = 0) -> Iterator[None]:
    """While the block lasts, layers before `layer` give what was noted; from position `start` on, where the keys and
    values of what comes before are handed to the run."""

    def noted(output: Output, *args: object, **kwargs: object) -> Output:
        if isinstance(output, Tensor):
            return output[:, start:]
        return output[0][:, start:], *output[1:]

    with changing() as changes:
        for module, output in zip(model.anatomy.layers[:layer], reading.outputs, strict=False):
            changes.instead(module, partial(noted, output))
        yield


def last_of(ids: Tensor) -> Tensor:
    """The last position of every row."""
    return torch.full((len(ids),), ids.shape[1] - 1, device=ids.device)


def _stream(output: Output) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]
