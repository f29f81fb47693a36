"""The residual stream under soft masks on edges, through which gradients flow back to the masks.

With m_fb from 0 to 1 and u_f what writer f writes in this very run, a reader b sees

    x_b = x_b,fill + Σ_f m_fb (u_f - v_f)

as in circuits (`stream.py`), where m is 0 or 1. Autograd would keep what every reader sees at every token.
Here one buffer holds u - v of all writers, and one the gradient at them; what readers see is made in blocks of tokens
and made again on the way back:

    dL/dm_fb = Σ_tokens (u_f - v_f) · dL/dx_b          dL/du_f = Σ_b m_fb dL/dx_b

A writer hands out a token of its own, an empty number that every later reader takes. Thereby autograd comes back to the
writer only when all of its readers have left their gradients in the buffer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..models import Model
from ..models.graph import INPUTS
from ..models.wiring import Wiring
from .edge_fills import BaseRun
from .stream import SEEN_BYTES, streamed


@contextmanager
def soft_edges(model: Model, wiring: Wiring, base: BaseRun, masks: Tensor) -> Iterator[None]:
    """Give every reader its own input while the block lasts; rows are the batch once for each of `masks`
    [mask, writer, reader], from 0 to 1, which gradients flow back to."""
    with streamed(model, wiring, SoftStream(model, wiring, base, masks)):
        yield


class SoftStream:
    """Rows are the batch once for each mask of `masks` [mask, writer, reader]."""

    def __init__(self, model: Model, wiring: Wiring, base: BaseRun, masks: Tensor) -> None:
        self.model, self.wiring, self.base, self.graph = model, wiring, base, wiring.graph
        self.copies = len(masks)
        tokens, width = base.input_change.shape
        self.more = base.input_change.new_empty(self.copies, tokens, len(self.graph.writers), width)
        """u - v, [mask, token, writer, d]."""
        self.more[:, :, 0] = base.input_change
        self.pulls: Tensor | None = None
        """dL/d(u - v), of the same shape."""
        heads = self.graph.readers_a_layer - 1
        sizes = [*(heads, 1) * self.graph.n_layers, 1]
        self.masks = masks.to(self.more).transpose(1, 2).split(sizes, dim=1)
        """[mask, reader, writer] of each layer's heads, its MLP, …, and the logits."""
        self.reads_mlp = [True] * self.graph.n_layers
        self.written: list[Tensor] = []
        self.projected: dict[nn.Module, Tensor] = {}

    # Reading

    def attention_readers(self, layer: int) -> Sequence[int]:
        return range(self.graph.reader_of(layer, "q"), self.graph.reader_of(layer, None))

    def project(self, index: int, module: nn.Module, *args: object, **kwargs: object) -> Tensor:
        if module not in self.projected:
            found = self._read(2 * index, _Heads(self, index))
            self.projected |= zip(self.wiring.layers[index].modules, found, strict=True)
        return self.projected.pop(module)

    def read_mlp(self, index: int, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self.stream_shape = args[0].shape  # OPT runs its MLPs on rows and positions in one dimension
        reader = _Whole(self, self.base.mlp_stream[index], self.graph.writers_before(index, mlp=True))
        (seen,) = self._read(2 * index + 1, reader)
        norm, seen = self.wiring.layers[index].mlp_norm, seen.flatten(0, 1)[None]
        return (seen if norm is None else norm.own(seen), *args[1:])

    def read_final(self, x: Tensor) -> Tensor:
        reader = _Whole(self, self.base.final_stream, len(self.graph.writers), self.base.answers)
        (seen,) = self._read(-1, reader)
        return self.wiring.final_norm.own(seen.flatten(0, 1)[:, None]).expand(x.shape)

    def _read(self, part: int, reader: "_Reader") -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = _Read.apply(self.masks[part], reader, *self.written)  # type: ignore[no-untyped-call]
        return found

    # Writing

    def write_heads(self, index: int, own: Callable[..., Tensor], z: Tensor) -> Tensor:
        norm = self.wiring.layers[index].heads_norm
        values = z.flatten(0, 1).unflatten(-1, (self.graph.n_heads, -1))
        if norm is not None:
            values = values / norm.scale(own(z).flatten(0, 1))[:, None, None]
        self.written.append(_WriteHeads.apply(values, self, index))  # type: ignore[no-untyped-call]
        return z.new_zeros(()).expand(*z.shape[:-1], self.wiring.width)

    def write_mlp(self, index: int, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        self.written.append(_WriteMlp.apply(output.flatten(0, -2), self, index))  # type: ignore[no-untyped-call]
        return output.new_zeros(()).expand(self.stream_shape)

    def leave_out_heads(self, index: int) -> None:
        raise AssertionError("all heads are there")

    def leave_out_mlp(self, index: int) -> None:
        raise AssertionError("all MLPs are there")

    def pulls_of(self, writers: slice) -> Tensor:
        """What readers have left for some writers, [mask · token, writer, d]."""
        assert self.pulls is not None
        return self.pulls[:, :, writers].flatten(0, 1)


class _Reader:
    """Some readers that see the same writers through masks of their own."""

    def __init__(self, stream: SoftStream, base: Tensor, writers: int, tokens: Tensor | None = None) -> None:
        self.stream, self.base, self.writers, self.tokens = stream, base, writers, tokens

    def outputs(self) -> list[Tensor]:
        """Room for what they make of it."""
        raise NotImplementedError

    def blocks(self, readers: int) -> Iterator[tuple[int, slice | Tensor]]:
        """(mask, some of the tokens), few enough for what the readers see there to be held at once."""
        more = self.stream.more
        at_once = max(SEEN_BYTES // (readers * more.shape[-1] * more.element_size()), 1)
        for copy in range(len(more)):
            if self.tokens is not None:
                yield copy, self.tokens
            else:
                yield from ((copy, slice(first, first + at_once)) for first in range(0, more.shape[1], at_once))

    def seen(self, mask: Tensor, copy: int, tokens: slice | Tensor) -> tuple[Tensor, Tensor]:
        """What the readers see, [token, reader, d], and the writers' part of the buffer, [token, writer, d]."""
        more = self.stream.more[copy, tokens, : self.writers]
        own = mask[copy, :, : self.writers].expand(len(more), -1, -1)
        return torch.baddbmm(self.base[tokens][:, None], own, more), more

    def into(self, outputs: list[Tensor], copy: int, tokens: slice | Tensor, seen: Tensor) -> None:
        """Put what they make of `seen` into the outputs."""
        raise NotImplementedError

    def back(self, gradients: tuple[Tensor, ...], copy: int, tokens: slice | Tensor, seen: Tensor) -> Tensor:
        """dL/dx, [token, reader, d]."""
        raise NotImplementedError


class _Whole(_Reader):
    """A reader that takes the stream as it is: an MLP or the logits."""

    def outputs(self) -> list[Tensor]:
        copies, tokens, _, width = self.stream.more.shape
        return [self.base.new_empty(copies, tokens if self.tokens is None else len(self.tokens), width)]

    def into(self, outputs: list[Tensor], copy: int, tokens: slice | Tensor, seen: Tensor) -> None:
        outputs[0][copy, tokens if self.tokens is None else slice(None)] = seen[:, 0]

    def back(self, gradients: tuple[Tensor, ...], copy: int, tokens: slice | Tensor, seen: Tensor) -> Tensor:
        return gradients[0][copy, tokens if self.tokens is None else slice(None)][:, None]


class _Heads(_Reader):
    """The queries, keys and values of a layer, each head's rows from what it sees itself."""

    def __init__(self, stream: SoftStream, index: int) -> None:
        super().__init__(stream, stream.base.attention_stream[index], stream.graph.writers_before(index))
        self.layer, self.projected = stream.wiring.layers[index], stream.base.projected[index]
        self.norm = self.layer.attention_norm

    def outputs(self) -> list[Tensor]:
        return [output.new_empty(self.stream.copies * len(output), *output.shape[1:]) for output in self.projected]

    def _roles(self, outputs: list[Tensor] | tuple[Tensor, ...]) -> Iterator[tuple[slice, Any, Tensor]]:
        """(its readers, its projection, its columns [mask, token, head, head size]) of each role."""
        first = 0
        for role in INPUTS:
            projection, heads = self.layer.projections[role], self.stream.graph.heads_of(role)
            output = outputs[self.layer.modules.index(projection.module)]
            columns = projection.columns(output.flatten(0, 1).unflatten(0, (self.stream.copies, -1)))
            yield slice(first, first + heads), projection, columns
            first += heads

    def into(self, outputs: list[Tensor], copy: int, tokens: slice | Tensor, seen: Tensor) -> None:
        normed = seen if self.norm is None else self.norm.own(seen)
        for own, projection, columns in self._roles(outputs):
            found = torch.bmm(normed[:, own].transpose(0, 1), projection.weight().transpose(1, 2)).transpose(0, 1)
            bias = projection.bias()
            columns[copy, tokens] = found if bias is None else found + bias

    def back(self, gradients: tuple[Tensor, ...], copy: int, tokens: slice | Tensor, seen: Tensor) -> Tensor:
        pulled = torch.empty_like(seen)
        for own, projection, columns in self._roles(gradients):
            torch.bmm(columns[copy, tokens].transpose(0, 1), projection.weight(), out=pulled[:, own].transpose(0, 1))
        return pulled if self.norm is None else self.norm.pull_back(pulled, seen)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mask: Tensor, reader: _Reader, *written: Tensor) -> tuple[Tensor, ...]:
        outputs = reader.outputs()
        for copy, tokens in reader.blocks(mask.shape[1]):
            reader.into(outputs, copy, tokens, reader.seen(mask, copy, tokens)[0])
        ctx.save_for_backward(mask)
        ctx.reader, ctx.written = reader, len(written)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        (mask,), reader, stream = ctx.saved_tensors, ctx.reader, ctx.reader.stream
        if stream.pulls is None:
            stream.pulls = torch.zeros_like(stream.more)
        by_mask = torch.zeros_like(mask)
        for copy, tokens in reader.blocks(mask.shape[1]):
            seen, more = reader.seen(mask, copy, tokens)
            pull = reader.back(gradients, copy, tokens, seen)
            by_mask[copy, :, : reader.writers] += torch.bmm(pull, more.transpose(1, 2)).sum(0)
            own = mask[copy, :, : reader.writers].T.expand(len(more), -1, -1)
            left = stream.pulls[copy, tokens, : reader.writers]
            stream.pulls[copy, tokens, : reader.writers] = torch.baddbmm(left, own, pull)
        return by_mask, None, *[mask.new_zeros(())] * ctx.written


class _WriteHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, stream: SoftStream, index: int) -> Tensor:
        graph, first = stream.graph, stream.graph.writers_before(index)
        change = values.unflatten(0, (stream.copies, -1)) - stream.base.fill.heads[index]
        wrote = torch.bmm(change.flatten(0, 1).transpose(0, 1), stream.model.anatomy.out_weight(index))
        norm = stream.wiring.layers[index].heads_norm
        if norm is not None:
            wrote = norm.gain * norm.centred(wrote)
        rows = stream.more[:, :, first : first + graph.n_heads]
        rows.copy_(wrote.unflatten(1, (stream.copies, -1)).permute(1, 2, 0, 3))
        ctx.stream, ctx.index = stream, index
        return values.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        stream, index = ctx.stream, ctx.index
        first = stream.graph.writers_before(index)
        pull = stream.pulls_of(slice(first, first + stream.graph.n_heads))
        norm = stream.wiring.layers[index].heads_norm
        if norm is not None:
            pull = norm.centred(norm.gain * pull)  # centring is its own transpose
        weight = stream.model.anatomy.out_weight(index)
        return torch.bmm(pull.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1), None, None


class _WriteMlp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, stream: SoftStream, index: int) -> Tensor:
        row = stream.graph.writers_before(index + 1) - 1
        stream.more[:, :, row] = output.unflatten(0, (stream.copies, -1)) - stream.base.fill.mlps[index]
        ctx.stream, ctx.row = stream, row
        return output.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return ctx.stream.pulls_of(slice(ctx.row, ctx.row + 1))[:, 0], None, None
