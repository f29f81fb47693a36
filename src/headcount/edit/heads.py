"""Reading and replacing what heads carry, and adding to it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from ..core.words import WrittenPositions
from ..models import Model
from ..models.changes import changing

Head = tuple[int, int]
Visit = Callable[[int, Tensor], Tensor | None]
Share = float | Tensor
"""A point on the way from one prompt (0) to another (1): the same for all rows, or one for each, [row]."""


def head_name(head: Head) -> str:
    """a3.h5: head 5 of layer 3, both counted from 0."""
    return f"a{head[0]}.h{head[1]}"


@contextmanager
def visit_heads(model: Model, visit: Visit, layers: Iterable[int] | None = None) -> Iterator[None]:
    """Call `visit(layer, z)` before each output projection, z being [batch, position, head, head size]. What it returns
    takes z's place; None leaves it alone. The hooks are gone after the block, however it ends."""
    shape = (model.n_heads, model.anatomy.head_size)

    def hook(layer: int, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        changed = visit(layer, args[0].unflatten(-1, shape))
        return None if changed is None else (changed.flatten(-2), *args[1:])

    with changing() as changes:
        for layer in range(model.n_layers) if layers is None else layers:
            changes.before(model.anatomy.out_projections[layer], partial(hook, layer))
        yield


def head_values(model: Model, ids: Tensor, past_key_values: DynamicCache | None = None) -> tuple[Tensor, ...]:
    """What every head carries on some prompts: one tensor a layer, [batch, position, head, head size]; of the positions
    behind a prefix that was read."""
    values: list[Tensor] = []
    with visit_heads(model, lambda layer, z: values.append(z)), torch.no_grad():
        model.run(ids, past_key_values)
    return tuple(values)


@contextmanager
def mix_inputs(model: Model, start: Tensor, end: Tensor, shares: Sequence[Share]) -> Iterator[None]:
    """Token embeddings on the line between two prompts, e(start) + share · (e(end) - e(start)), once for each share."""
    embedding: nn.Module = model.hf.get_input_embeddings()
    with torch.no_grad():
        ends = embedding(start), embedding(end)
        by_row = [share.to(ends[0])[:, None, None] if isinstance(share, Tensor) else share for share in shares]
        mixed = torch.cat([torch.lerp(*ends, share) for share in by_row])
    with changing() as changes:
        changes.after(embedding, lambda module, args, output: mixed)
        yield


@contextmanager
def push_heads(model: Model, vectors: Tensor, positions: WrittenPositions = "generated") -> Iterator[None]:
    """Add `vectors` [push, layer, head, head size] to what heads carry while the block lasts, z <- z + v, as
    inference-time intervention does (Li et al. 2023, arXiv 2306.03341): the opposite of a cut, to see whether more of
    it helps. It applies everywhere, or from the last prompt token on. With several pushes, the rows of the batch are
    the same prompts once for each of them."""
    touched = [layer for layer in range(model.n_layers) if bool(vectors[:, layer].any())]

    def visit(layer: int, z: Tensor) -> Tensor:
        added = vectors[:, layer].to(z)[:, None, None]
        if positions == "generated":
            at_last = torch.arange(z.shape[1], device=z.device) == z.shape[1] - 1
            added = added * at_last[:, None, None]
        return torch.add(z.unflatten(0, (len(vectors), -1)), added).flatten(0, 1)

    with visit_heads(model, visit, touched):
        yield
