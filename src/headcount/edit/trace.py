"""What a run writes into the residual stream and where it reads it, caught by hooks inside a `with` block."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..models import Model
from ..models.changes import changing
from ..models.wiring import Wiring


@dataclass(frozen=True)
class Written:
    """What every writer added to the stream, kept small: for a head its value z, not what the output projection makes
    of it. In post-norm blocks z is divided by the norm's scale. All is linear from there, so differences and means of
    this are differences and means of what was written."""

    input: Tensor  # [token, d]; the stream before the first layer, without position embeddings
    heads: list[Tensor]  # one entry a layer, [token, head, head size]
    mlps: list[Tensor]  # one entry a layer, [token, d]

    def parts(self) -> list[Tensor]:
        return [self.input, *self.heads, *self.mlps]

    @classmethod
    def of_parts(cls, parts: Sequence[Tensor]) -> "Written":
        layers = len(parts) // 2
        return cls(parts[0], list(parts[1 : layers + 1]), list(parts[layers + 1 :]))

    def chunk(self, copies: int) -> list["Written"]:
        """Of a batch that ran several times over, each of the times."""
        return [Written.of_parts(parts) for parts in zip(*(part.chunk(copies) for part in self.parts()), strict=True)]

    def behind(self, start: int, rows: int) -> "Written":
        """From a position on; of so many rows of one length."""
        return Written.of_parts([part.unflatten(0, (rows, -1))[:, start:].flatten(0, 1) for part in self.parts()])

    def clone(self) -> "Written":
        return Written.of_parts([part.clone() for part in self.parts()])

    def __sub__(self, other: "Written") -> "Written":
        return Written.of_parts([a - b for a, b in zip(self.parts(), other.parts(), strict=True)])

    def expanded(self, model: Model, wiring: Wiring) -> Tensor:
        """In full, [writer, token, d]."""
        graph = wiring.graph
        rows = self.input.new_empty(len(graph.writers), *self.input.shape)
        rows[0] = self.input
        for layer, (values, mlp) in enumerate(zip(self.heads, self.mlps, strict=True)):
            first = graph.writers_before(layer)
            write_heads(model, wiring, layer, values, range(graph.n_heads), rows[first : first + graph.n_heads])
            rows[first + graph.n_heads] = mlp
        return rows


def write_heads(model: Model, wiring: Wiring, layer: int, values: Tensor, heads: Sequence[int], into: Tensor) -> None:
    """What some heads of a layer write, `into` [head, token, d], from their `values` [token, head, head size]."""
    weight = model.anatomy.out_weight(layer)
    some = weight if len(heads) == len(weight) else weight[torch.tensor(heads, device=weight.device)]
    torch.bmm(values.transpose(0, 1), some, out=into)
    _through_norm(wiring, layer, into)


def summed_heads(model: Model, wiring: Wiring, layer: int, values: Tensor) -> Tensor:
    """What all heads of a layer write together, [token, d]."""
    return _through_norm(wiring, layer, values.flatten(1) @ model.anatomy.out_weight(layer).flatten(0, 1))


def _through_norm(wiring: Wiring, layer: int, sums: Tensor) -> Tensor:
    """The linear part of a post-norm block's norm, in place."""
    norm = wiring.layers[layer].heads_norm
    return sums if norm is None else sums.copy_(norm.gain * norm.centred(sums))


@dataclass
class Trace:
    """One entry a layer, [row, position, …]; filled while the model runs."""

    embedded: list[Tensor] = field(default_factory=list)  # what the token embedding gives
    z: list[Tensor] = field(default_factory=list)
    heads_sum: list[Tensor] = field(default_factory=list)
    """What the output projection gives, before a norm of its own."""
    attention_stream: list[Tensor] = field(default_factory=list)
    projected: list[tuple[Tensor, ...]] = field(default_factory=list)
    """Outputs of the query, key and value modules; one tensor where they are one module."""
    mlp_stream: list[Tensor] = field(default_factory=list)
    mlp_read: list[Tensor] = field(default_factory=list)
    mlp_written: list[Tensor] = field(default_factory=list)
    final_stream: list[Tensor] = field(default_factory=list)

    def read(self) -> list[Tensor]:
        """The tensors at which gradients are taken: projections and MLP input of every layer, and the final stream."""
        by_layer = zip(self.projected, self.mlp_read, strict=True)
        return [tensor for projected, mlp in by_layer for tensor in (*projected, mlp)] + self.final_stream

    @torch.no_grad()
    def written(self, wiring: Wiring) -> Written:
        heads = [z.detach().flatten(0, -3) for z in self.z]
        for index, norm in enumerate(layer.heads_norm for layer in wiring.layers):
            if norm is not None:
                heads[index] = heads[index] / norm.scale(self.heads_sum[index].flatten(0, -2))[:, None, None]
        mlps = [mlp.detach().flatten(0, -2) for mlp in self.mlp_written]
        begins = self.embedded[0] if wiring.learned_positions else self.attention_stream[0]
        return Written(begins.detach().flatten(0, -2), heads, mlps)


@contextmanager
def traced(model: Model, wiring: Wiring, last: Tensor | None = None, reads: bool = True) -> Iterator[Trace]:
    """Catch what the model reads and writes while the block lasts. Gradients, where on, begin at the embedding. With
    `last` [row], the position of each row's answer, the MLP of the last layer runs there alone: nothing else that it
    writes is ever read. It then counts as having written nothing at the other positions. Without `reads` what is read
    is not kept, which `written` does not need."""
    trace, caught, whole = Trace(), list[Tensor](), list[torch.Size]()
    shape = (model.n_heads, model.anatomy.head_size)

    def begin(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        begun = output.detach().requires_grad_() if torch.is_grad_enabled() else output
        trace.embedded.append(begun)
        return begun

    def project(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        """The model goes on with a copy: OLMo clips in place, and the gradient is wanted before that."""
        caught.append(output)
        return output.clone()

    def close(module: nn.Module, args: Any) -> None:
        trace.projected.append(tuple(caught))
        caught.clear()
        trace.z.append(args[0].unflatten(-1, shape))

    def split_off(module: nn.Module, args: Any) -> Any:
        """The MLP's own copy: without a norm in front, the same tensor goes on along the stream."""
        trace.mlp_read.append(args[0].view_as(args[0]))
        return (trace.mlp_read[-1], *args[1:])

    def answers(x: Tensor) -> Tensor:
        """Where they are among all tokens of x."""
        assert last is not None  # or nobody asks
        return torch.arange(len(last), device=last.device) * (math.prod(x.shape[:-1]) // len(last)) + last

    def gather(module: nn.Module, args: Any) -> Any:
        whole.append(args[0].shape)
        return (args[0].flatten(0, -2)[answers(args[0])][None], *args[1:])

    def spread(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        full = output.new_zeros(whole.pop())
        return full.flatten(0, -2).index_copy(0, answers(full), output.flatten(0, -2)).view(full.shape)

    with changing() as changes:
        before, after = changes.before, changes.after

        def enters(module: nn.Module, into: list[Tensor]) -> None:
            before(module, lambda module, args: into.append(args[0]))

        def leaves(module: nn.Module, into: list[Tensor]) -> None:
            after(module, lambda module, args, output: into.append(output))

        after(model.hf.get_input_embeddings(), begin)
        for layer, projection in zip(wiring.layers, model.anatomy.out_projections, strict=True):
            if reads or layer is wiring.layers[0]:  # the stream begins there
                enters(
                    layer.attention_norm.module if layer.attention_norm else layer.modules[0], trace.attention_stream
                )
            for module in layer.modules if reads else ():
                # Before other hooks, which may change the gradient that is wanted.
                after(module, project, first=True)
            before(projection, close)
            if layer.heads_norm:
                leaves(projection, trace.heads_sum)
            if reads:
                enters(layer.mlp_norm.module if layer.mlp_norm else layer.mlp_in, trace.mlp_stream)
                before(layer.mlp_in, split_off)
            if last is not None and layer is wiring.layers[-1]:
                before(layer.mlp_in, gather)
                after(layer.mlp_out, spread)
            leaves(layer.mlp_out, trace.mlp_written)
        if reads:
            enters(wiring.final_norm.module, trace.final_stream)
        yield trace
