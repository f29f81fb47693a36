"""Reading and replacing what heads carry."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from ..models import Model

Head = tuple[int, int]


def head_name(head: Head) -> str:
    """a3.h5: head 5 of layer 3, both counted from 0."""
    return f"a{head[0]}.h{head[1]}"


@contextmanager
def visit_heads(
    model: Model, visit: Callable[[int, Tensor], Tensor | None], layers: Iterable[int] | None = None
) -> Iterator[None]:
    """Call `visit(layer, z)` before each output projection, z being [batch, position, head, head size].

    What it returns takes z's place; None leaves it alone. The hooks are gone after the block, however it ends.
    """
    shape = (model.n_heads, model.anatomy.head_size)

    def hook(layer: int, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        changed = visit(layer, args[0].unflatten(-1, shape))
        return None if changed is None else (changed.flatten(-2), *args[1:])

    with ExitStack() as stack:
        for layer in range(model.n_layers) if layers is None else layers:
            projection = model.anatomy.out_projections[layer]
            stack.enter_context(projection.register_forward_pre_hook(partial(hook, layer)))
        yield


def head_values(model: Model, ids: Tensor) -> tuple[Tensor, ...]:
    """What every head carries on some prompts: one tensor a layer, [batch, position, head, head size]."""
    values: list[Tensor] = []
    with visit_heads(model, lambda layer, z: values.append(z)), torch.no_grad():
        model.run(ids)
    return tuple(values)


@contextmanager
def mix_inputs(model: Model, start: Tensor, end: Tensor, shares: Sequence[float]) -> Iterator[None]:
    """Token embeddings on the line between two prompts, e(start) + share · (e(end) - e(start)): the batch once for each
    share."""
    embedding: nn.Module = model.hf.get_input_embeddings()
    with torch.no_grad():
        ends = embedding(start), embedding(end)
        mixed = torch.cat([torch.lerp(*ends, share) for share in shares])
    with embedding.register_forward_hook(lambda module, args, output: mixed):
        yield
