"""The residual stream under soft masks on edges, through which gradients flow back to the masks.

With m_fb from 0 to 1 and u_f what writer f writes in this very run, a reader b sees

    x_b = x_b,fill + Σ_f m_fb (u_f - v_f)

as in circuits (`stream.py`), where m is 0 or 1. Autograd would keep what every reader sees at every token.
Here one buffer holds u - v of all writers, and one the gradient at them; what readers see is made in blocks of tokens,
and, beyond what `KEPT_BYTES` hold, made again on the way back:

    dL/dm_fb = Σ_tokens (u_f - v_f) · dL/dx_b          dL/du_f = Σ_b m_fb dL/dx_b

A writer hands out a token of its own, an empty number that every later reader takes. Thereby autograd comes back to the
writer only when all of its readers have left their gradients in the buffer.

Where masks are 0 nothing is done: writers that nobody reads have no row, heads that read nothing are the base run's.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..models import Model
from ..models.graph import INPUTS
from ..models.wiring import Projection, Wiring
from .buffers import Buffers
from .edge_fills import BaseRun
from .stream import SEEN_BYTES, streamed

Tensors = tuple[Tensor, ...] | list[Tensor]
KEPT_BYTES = 2**28
"""Of what readers see, kept for the way back."""


@contextmanager
def soft_edges(model: Model, wiring: Wiring, base: BaseRun, masks: Tensor, buffers: Buffers) -> Iterator[None]:
    """Give every reader its own input while the block lasts; rows are the batch once for each of `masks`
    [mask, writer, reader], from 0 to 1, which gradients flow back to."""
    stream = SoftStream(model, wiring, base, masks, buffers)
    try:
        with streamed(model, wiring, stream):
            yield
    finally:
        # What autograd's nodes gave out leads back to them, and they hold the stream, for the way back: a circle that
        # Python cannot see, and would never free.
        stream.written.clear()
        stream.projected.clear()


class SoftStream:
    """Rows are the batch once for each mask of `masks` [mask, writer, reader]."""

    def __init__(self, model: Model, wiring: Wiring, base: BaseRun, masks: Tensor, buffers: Buffers) -> None:
        self.model, self.wiring, self.base, self.graph = model, wiring, base, wiring.graph
        self.copies = len(masks)
        kept = (masks.detach() != 0).any(0)
        read = kept.any(1)
        self.active: list[bool] = kept.any(0).tolist()  # readers
        self.row: list[int] = (read.cumsum(0) * read - 1).tolist()  # where a writer's row is; -1 where nobody reads it
        self.rows_before = [0, *read.cumsum(0).tolist()]
        tokens, width = base.input_change.shape
        shape = (2, self.copies, tokens, self.rows_before[-1], width)
        self.more, self.room_for_pulls = buffers.lend(math.prod(shape), base.input_change, self).view(shape)
        """u - v, [mask, token, row, d]; and as much room again."""
        if read[0]:
            self.more[:, :, 0] = base.input_change
        self.may_keep = KEPT_BYTES
        self.pulls: Tensor | None = None
        """dL/d(u - v), of the same shape."""
        self.masks = masks.to(self.more)[:, read].transpose(1, 2)  # [mask, reader, row]
        layers = range(self.graph.n_layers)
        self.reads_mlp = [self.active[self.graph.reader_of(layer, None)] for layer in layers]
        self.written: list[Tensor] = []
        self.projected: dict[nn.Module, Tensor] = {}

    # Reading

    def attention_readers(self, layer: int) -> list[int]:
        first, last = self.graph.reader_of(layer, "q"), self.graph.reader_of(layer, None)
        return [reader for reader in range(first, last) if self.active[reader]]

    def project(self, index: int, module: nn.Module, *args: object, **kwargs: object) -> Tensor:
        if module not in self.projected:
            readers = self.attention_readers(index)
            found = self._read(readers, _Heads(self, index, readers))
            self.projected |= zip(self.wiring.layers[index].modules, found, strict=True)
        return self.projected.pop(module)

    def read_mlp(self, index: int, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self.stream_shape = args[0].shape  # OPT runs its MLPs on rows and positions in one dimension
        reader = _Whole(self, self.base.mlp_stream[index], self.graph.writers_before(index, mlp=True))
        (seen,) = self._read([self.graph.reader_of(index, None)], reader)
        norm, seen = self.wiring.layers[index].mlp_norm, seen.flatten(0, 1)[None]
        return (seen if norm is None else norm.own(seen), *args[1:])

    def read_final(self, x: Tensor) -> Tensor:
        reader = _Whole(self, self.base.final_stream, len(self.graph.writers), self.base.answers)
        (seen,) = self._read([len(self.graph.readers) - 1], reader)
        return self.wiring.final_norm.own(seen.flatten(0, 1)[:, None]).expand(x.shape)

    def _read(self, readers: list[int], reader: "_Reader") -> tuple[Tensor, ...]:
        mask = self.masks[:, readers, : reader.rows]
        found: tuple[Tensor, ...] = _Read.apply(mask, reader, *self.written)  # type: ignore[no-untyped-call]
        return found

    # Writing

    def write_heads(self, index: int, own: Callable[..., Tensor], z: Tensor) -> Tensor:
        norm = self.wiring.layers[index].heads_norm
        values = z.flatten(0, 1).unflatten(-1, (self.graph.n_heads, -1))
        if norm is not None:
            values = values / norm.scale(own(z).flatten(0, 1))[:, None, None]
        if heads := self.heads_read(index):
            self.written.append(_WriteHeads.apply(values, self, index, heads))  # type: ignore[no-untyped-call]
        return z.new_zeros(()).expand(*z.shape[:-1], self.wiring.width)

    def leave_out_heads(self, index: int) -> None:
        if heads := self.heads_read(index):
            values = self.base.written.heads[index].repeat(self.copies, 1, 1)
            self.written.append(_WriteHeads.apply(values, self, index, heads))  # type: ignore[no-untyped-call]

    def write_mlp(self, index: int, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        if self.row[self.mlp_writer(index)] >= 0:
            self.written.append(_WriteMlp.apply(output.flatten(0, -2), self, index))  # type: ignore[no-untyped-call]
        return output.new_zeros(()).expand(self.stream_shape)

    def leave_out_mlp(self, index: int) -> None:
        if self.row[self.mlp_writer(index)] >= 0:
            output = self.base.written.mlps[index].repeat(self.copies, 1)
            self.written.append(_WriteMlp.apply(output, self, index))  # type: ignore[no-untyped-call]

    def heads_read(self, index: int) -> list[int]:
        """Heads of a layer that someone reads; their rows stand side by side."""
        first = self.graph.writers_before(index)
        return [head for head in range(self.graph.n_heads) if self.row[first + head] >= 0]

    def rows_of(self, index: int) -> slice:
        """Of the heads of a layer."""
        first = self.graph.writers_before(index)
        return slice(self.rows_before[first], self.rows_before[first + self.graph.n_heads])

    def mlp_writer(self, index: int) -> int:
        return self.graph.writers_before(index + 1) - 1

    def pulls_of(self, rows: slice) -> Tensor:
        """What readers have left for some writers, [mask · token, row, d]."""
        assert self.pulls is not None
        return self.pulls[:, :, rows].flatten(0, 1)


class _Reader(ABC):
    """Some readers that see the same writers through masks of their own."""

    def __init__(self, stream: SoftStream, base: Tensor, writers: int, tokens: Tensor | None = None) -> None:
        self.stream, self.base, self.tokens = stream, base, tokens
        self.rows = stream.rows_before[writers]
        self.seen_before: dict[tuple[int, int], Tensor] = {}

    @abstractmethod
    def outputs(self) -> list[Tensor]:
        """Room for what they make of it."""

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
        """What the readers see, [token, reader, d], and the writers' part of the buffer, [token, row, d]. First called
        on the way there, then once more on the way back."""
        more, place = self.stream.more[copy, tokens, : self.rows], (copy, getattr(tokens, "start", 0))
        if (seen := self.seen_before.pop(place, None)) is None:
            seen = torch.baddbmm(self.base[tokens][:, None], mask[copy].expand(len(more), -1, -1), more)
            if self.stream.may_keep >= seen.nbytes and self.stream.pulls is None:
                self.stream.may_keep -= seen.nbytes
                self.seen_before[place] = seen
        return seen, more

    @abstractmethod
    def into(self, outputs: list[Tensor], copy: int, tokens: slice | Tensor, seen: Tensor) -> None:
        """Put what they make of `seen` into the outputs."""

    @abstractmethod
    def back(self, gradients: Tensors, copy: int, tokens: slice | Tensor, seen: Tensor) -> Tensor:
        """dL/dx, [token, reader, d]."""


class _Whole(_Reader):
    """A reader that takes the stream as it is: an MLP or the logits."""

    def outputs(self) -> list[Tensor]:
        copies, tokens, _, width = self.stream.more.shape
        return [self.base.new_empty(copies, tokens if self.tokens is None else len(self.tokens), width)]

    def into(self, outputs: list[Tensor], copy: int, tokens: slice | Tensor, seen: Tensor) -> None:
        outputs[0][copy, tokens if self.tokens is None else slice(None)] = seen[:, 0]

    def back(self, gradients: Tensors, copy: int, tokens: slice | Tensor, seen: Tensor) -> Tensor:
        return gradients[0][copy, tokens if self.tokens is None else slice(None)][:, None]


class _Heads(_Reader):
    """The queries, keys and values of a layer, each head's rows from what it sees itself.

    With γ and β the norm's gain and bias and s its scale, y = (γW) x / s + W β + b for a centred x, and

        dL/dx = (γW)^T g / s - x (g · y') / (d s²)        y' = y - W β - b

    so that nothing but x itself is ever made in d_model."""

    def __init__(self, stream: SoftStream, index: int, readers: list[int]) -> None:
        super().__init__(stream, stream.base.attention_stream[index], stream.graph.writers_before(index))
        self.layer, self.projected, self.readers = stream.wiring.layers[index], stream.base.projected[index], readers
        self.norm, self.first = self.layer.attention_norm, stream.graph.reader_of(index, "q")
        self.kept: dict[tuple[int, int], tuple[Tensor, list[Tensor]]] = {}
        """Of each block its scales [token, reader], and y' [token, head, head size] of each role. (What the module
        hands out is not kept: OLMo clips it in place.)"""
        self.roles = list(self._folded())

    def outputs(self) -> list[Tensor]:
        return [output.repeat(self.stream.copies, 1, 1) for output in self.projected]

    def _folded(self) -> Iterator[tuple[Projection, slice, Tensor, Tensor, Tensor]]:
        """(the role's projection, its places among the readers, its heads, their weight [head, head size, d] and bias
        with the norm's folded in) of each role that is read."""
        start, place = self.first, 0
        for role in INPUTS:
            projection, count = self.layer.projections[role], self.stream.graph.heads_of(role)
            heads = [reader - start for reader in self.readers if start <= reader < start + count]
            start += count
            if not heads:
                continue
            weight, bias = projection.weight(), projection.bias()
            constant = weight.new_zeros(weight.shape[:2]) if bias is None else bias
            if len(heads) < count:
                weight, constant = weight[heads], constant[heads]
            if self.norm is not None:
                constant = constant + weight @ self.norm.bias
                weight = self.norm.centred(weight * self.norm.gain)  # centring is its own transpose
            own = slice(place, place + len(heads))
            yield projection, own, torch.tensor(heads, device=weight.device), weight, constant
            place = own.stop

    def _columns(self, projection: Projection, outputs: Tensors) -> Tensor:
        """A role's part of some outputs, [mask, token, head, head size]."""
        output = outputs[self.layer.modules.index(projection.module)]
        return projection.columns(output.flatten(0, 1).unflatten(0, (self.stream.copies, -1)))

    def into(self, outputs: list[Tensor], copy: int, tokens: slice | Tensor, seen: Tensor) -> None:
        assert isinstance(tokens, slice)
        scale = seen.new_ones(seen.shape[:2]) if self.norm is None else self.norm.scale(seen)
        made = list[Tensor]()
        for projection, own, heads, weight, constant in self.roles:
            found = torch.bmm(seen[:, own].transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1)
            made.append(found / scale[:, own, None])
            self._columns(projection, outputs)[copy, tokens, heads] = made[-1] + constant
        self.kept[copy, tokens.start] = scale, made

    def back(self, gradients: Tensors, copy: int, tokens: slice | Tensor, seen: Tensor) -> Tensor:
        assert isinstance(tokens, slice)
        pulled, (scale, made) = torch.empty_like(seen), self.kept.pop((copy, tokens.start))
        along = torch.empty_like(scale)
        for (projection, own, heads, weight, _), role in zip(self.roles, made, strict=True):
            slope = self._columns(projection, gradients)[copy, tokens, heads]
            along[:, own] = (slope * role).sum(-1)
            scaled = slope / scale[:, own, None]
            torch.bmm(scaled.transpose(0, 1), weight, out=pulled[:, own].transpose(0, 1))
        if self.norm is not None and self.norm.divides:
            pulled.addcmul_(self.norm.centred(seen), (along / (seen.shape[-1] * scale.square()))[..., None], value=-1)
        return pulled


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mask: Tensor, reader: _Reader, *written: Tensor) -> Tensors:
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
            stream.pulls = stream.room_for_pulls.zero_()
        by_mask = torch.zeros_like(mask)
        for copy, tokens in reader.blocks(mask.shape[1]):
            seen, more = reader.seen(mask, copy, tokens)
            pull = reader.back(gradients, copy, tokens, seen)
            by_mask[copy] += torch.bmm(pull, more.transpose(1, 2)).sum(0)
            own = mask[copy].T.expand(len(more), -1, -1)
            if isinstance(tokens, slice):
                stream.pulls[copy, tokens, : reader.rows].baddbmm_(own, pull)
            else:
                stream.pulls[copy, tokens, : reader.rows] += torch.bmm(own, pull)
        return by_mask, None, *[mask.new_zeros(())] * ctx.written


class _WriteHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, stream: SoftStream, index: int, heads: list[int]) -> Tensor:
        ctx.stream, ctx.index, ctx.heads, ctx.all = stream, index, heads, values.shape
        change = values.unflatten(0, (stream.copies, -1)) - stream.base.fill.heads[index]
        change, weight = change.flatten(0, 1), stream.model.anatomy.out_weight(index)
        if len(heads) < values.shape[1]:
            change, weight = change[:, heads], weight[heads]
        wrote = torch.bmm(change.transpose(0, 1), weight)
        norm = stream.wiring.layers[index].heads_norm
        if norm is not None:
            wrote = norm.gain * norm.centred(wrote)
        stream.more[:, :, stream.rows_of(index)] = wrote.unflatten(1, (stream.copies, -1)).permute(1, 2, 0, 3)
        return values.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        stream, index, heads = ctx.stream, ctx.index, ctx.heads
        pull, weight = stream.pulls_of(stream.rows_of(index)), stream.model.anatomy.out_weight(index)
        norm = stream.wiring.layers[index].heads_norm
        if norm is not None:
            pull = norm.centred(norm.gain * pull)  # centring is its own transpose
        if len(heads) == ctx.all[1]:
            return torch.bmm(pull.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1), None, None, None
        found = pull.new_zeros(ctx.all)
        found[:, heads] = torch.bmm(pull.transpose(0, 1), weight[heads].transpose(1, 2)).transpose(0, 1)
        return found, None, None, None


class _WriteMlp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, stream: SoftStream, index: int) -> Tensor:
        row = stream.row[stream.mlp_writer(index)]
        stream.more[:, :, row] = output.unflatten(0, (stream.copies, -1)) - stream.base.fill.mlps[index]
        ctx.stream, ctx.row = stream, row
        return output.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return ctx.stream.pulls_of(slice(ctx.row, ctx.row + 1))[:, 0], None, None
