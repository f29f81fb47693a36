"""The residual stream of circuits while the model runs: what each writer writes more than the fill, and what each
reader therefore sees.

Only what a circuit holds is computed: readers with kept edges, writers that someone reads, and both only where it
matters. A key or a value is read at every token; a query or an MLP is read where what it leads to is read, and the
logits are read at the answers alone.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..models import Model
from ..models.changes import changing
from ..models.graph import INPUTS, Graph
from ..models.wiring import LayerWiring, Projection, Wiring
from .edge_fills import BaseRun
from .trace import write_heads

SEEN_BYTES = 2**24
"""What the readers of a layer see is held for as many tokens at a time as fit into this: small enough for a CPU's
cache, and for the allocator to use the same memory again and again."""
Tokens = slice | Tensor


@contextmanager
def only_kept_edges(
    model: Model, wiring: Wiring, base: BaseRun, keep: Tensor, room: Tensor | None = None
) -> Iterator[None]:
    """Give every reader its own input while the block lasts; rows are the batch once for each circuit of `keep`
    [circuit, writer, reader]. `room` is memory for what writers wrote, which many runs can use one after the other."""
    with streamed(model, wiring, _Stream(model, wiring, base, keep, room)):
        yield


class Stream(Protocol):
    """What each reader sees and each writer writes, layer by layer, while the model runs."""

    def attention_readers(self, layer: int) -> Sequence[int]:
        """Readers among the heads of a layer; where there is none, its attention is left out."""

    @property
    def reads_mlp(self) -> Sequence[bool]: ...

    def project(self, index: int, module: nn.Module, *args: object, **kwargs: object) -> Tensor:
        """In the place of a projection: each head's rows from what it sees itself."""

    def read_mlp(self, index: int, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """What the MLP sees, in a hook before it."""

    def read_final(self, x: Tensor) -> Tensor:
        """In the place of the final norm: that of what the logits see at the answer, at every position of a row."""

    def write_heads(self, index: int, own: Callable[..., Tensor], z: Tensor) -> Tensor:
        """In the place of the output projection, whose sum nobody needs."""

    def write_mlp(self, index: int, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor: ...

    def leave_out_heads(self, index: int) -> None:
        """No head of the layer is in a circuit: they write what they do in the base run."""

    def leave_out_mlp(self, index: int) -> None: ...


@contextmanager
def streamed(model: Model, wiring: Wiring, stream: Stream) -> Iterator[None]:
    """Put a stream in the place of the model's own while the block lasts."""
    with changing() as changes:

        def instead(module: nn.Module, forward: Callable[..., Any], *given: Any) -> None:
            changes.instead(module, partial(forward, *given))

        for index, layer in enumerate(wiring.layers):
            # Norms are applied to what each reader sees, not to the model's own stream.
            for norm in (layer.attention_norm, layer.mlp_norm):
                if norm is not None:
                    instead(norm.module, _first_argument)
            if stream.attention_readers(index):
                for module in layer.modules:
                    instead(module, stream.project, index, module)
                projection = model.anatomy.out_projections[index]
                instead(projection, stream.write_heads, index, projection.forward)
            else:
                stream.leave_out_heads(index)
                instead(layer.attention, _no_attention)
            if stream.reads_mlp[index]:
                changes.before(layer.mlp_in, partial(stream.read_mlp, index))
                changes.after(layer.mlp_out, partial(stream.write_mlp, index))
            else:
                stream.leave_out_mlp(index)
                for module in {layer.mlp_in, layer.mlp_out}:
                    instead(module, _first_argument)
        instead(wiring.final_norm.module, stream.read_final)
        yield


def _first_argument(x: Tensor, *args: object, **kwargs: object) -> Tensor:
    """The cheapest stand-in: hand on what came."""
    return x


def _no_attention(*args: Any, **kwargs: Any) -> Any:
    return (args[0] if args else kwargs["hidden_states"]), None


class _Stream:
    def __init__(self, model: Model, wiring: Wiring, base: BaseRun, keep: Tensor, room: Tensor | None) -> None:
        self.model, self.wiring, self.base, self.graph = model, wiring, base, wiring.graph
        self.copies, layers = len(keep), range(self.graph.n_layers)
        union = keep.any(0)
        self.active = union.any(0).tolist()  # readers with a kept edge in any of the circuits
        self.reads_mlp = [self.active[self.graph.reader_of(layer, None)] for layer in layers]
        # Where the heads and the MLP of each layer are computed.
        everywhere = _writers_read_everywhere(self.graph, union.numpy())[1:].reshape(len(layers), -1)
        self.heads_tokens = [self._tokens(bool(layer[:-1].any())) for layer in everywhere]
        self.mlp_tokens = [self._tokens(bool(layer[-1])) for layer in everywhere]
        read = union.any(1)
        self.row = (read.cumsum(0) * read).tolist()  # where a writer's row is; 0 where nobody reads it
        # How many rows come before a writer's. Row 0 is the fill, as if it were a writer that everybody keeps.
        self.rows_before = [1, *(1 + read.cumsum(0)).tolist()]
        tokens, width = base.input_change.shape
        shape = (self.rows_before[-1], self.copies, tokens, width)
        # [row, circuit, token, d]
        self.more = base.input_change.new_empty(shape) if room is None else room[: math.prod(shape)].view(shape)
        if read[0]:
            self.more[1] = base.input_change
        weights = keep[:, read].to(base.input_change)
        weights = torch.cat([weights.new_ones(self.copies, 1, weights.shape[2]), weights], dim=1)
        self.weights = weights.transpose(1, 2).contiguous()  # [circuit, reader, row]
        # Of the layer at hand, until each module has been asked for its own.
        self.projected: dict[nn.Module, Tensor] = {}
        # What the MLP of the layer at hand sees of the writers before its attention, [circuit, token, d].
        self.begun: Tensor | None = None

    def _tokens(self, everywhere: bool) -> Tokens:
        return slice(None) if everywhere else self.base.answers

    # Reading

    def _kept(self, circuit: int, rows: slice, readers: list[int], tokens: Tokens) -> Tensor:
        """Sum over some rows of those that each reader keeps, [token, reader, d]; [token, 1, d] if all keep alike."""
        wanted = self.weights[circuit, readers, rows]
        if len(readers) > 1 and bool((wanted == wanted[:1]).all()):
            wanted = wanted[:1]
        more = self.more[rows, circuit, tokens].transpose(0, 1)
        # Token by token, which a CPU does faster than one product with all tokens side by side.
        return torch.bmm(wanted.expand(len(more), -1, -1), more)

    def _blocks(self, readers: int, tokens: Tokens) -> Iterator[tuple[int, Tokens]]:
        """(circuit, some of its tokens), few enough for what the readers see there to be held at once."""
        at_once = max(SEEN_BYTES // (readers * self.wiring.width * self.more.element_size()), 1)
        blocks: list[Tokens] = [slice(first, first + at_once) for first in range(0, self.more.shape[2], at_once)]
        if isinstance(tokens, Tensor):
            blocks = [*tokens.split(at_once)]
        return ((circuit, block) for circuit in range(self.copies) for block in blocks)

    def attention_readers(self, layer: int) -> list[int]:
        first, last = self.graph.reader_of(layer, "q"), self.graph.reader_of(layer, None)
        return [reader for reader in range(first, last) if self.active[reader]]

    def project(self, index: int, module: nn.Module, *args: object, **kwargs: object) -> Tensor:
        # The rows of heads that are not in a circuit are those of the base run. The first of a layer's modules to be
        # called does the work for all.
        if module not in self.projected:
            self._project_all(index)
        return self.projected.pop(module)

    def _project_all(self, index: int) -> None:
        layer, answers = self.wiring.layers[index], self.base.answers
        self.more[0] = self.base.attention_stream[index]
        results = [output.repeat(self.copies, 1, 1) for output in self.base.projected[index]]
        projections = _Projections(layer, self.graph, index, results, self.copies)
        rows = slice(0, self.rows_before[self.graph.writers_before(index)])
        readers, first_key = self.attention_readers(index), self.graph.reader_of(index, "k")
        # Queries matter where their heads are read, keys and values everywhere.
        groups: list[tuple[list[int], Tokens]] = [(readers, slice(None))]
        if isinstance(self.heads_tokens[index], Tensor):
            queries, others = [r for r in readers if r < first_key], [r for r in readers if r >= first_key]
            groups = [(queries, answers), (others, slice(None))]
        for some, where in groups:
            if not some:
                continue
            # The layer's MLP reads the same writers and a few more: its sum begins here.
            begins = self.reads_mlp[index] and isinstance(where, slice) and isinstance(self.mlp_tokens[index], slice)
            mlp = [self.graph.reader_of(index, None)] if begins else []
            if mlp and self.begun is None:
                self.begun = torch.empty_like(self.more[0])
            for circuit, tokens in self._blocks(len(some) + len(mlp), where):
                seen = self._kept(circuit, rows, some + mlp, tokens)
                if mlp and self.begun is not None:
                    self.begun[circuit, tokens] = seen[:, -1]
                projections.fill(circuit, tokens, some, seen)
        self.projected |= zip(layer.modules, results, strict=True)

    def read_mlp(self, index: int, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self.stream_shape = args[0].shape  # OPT runs its MLPs on rows and positions in one dimension
        norm, stream = self.wiring.layers[index].mlp_norm, self.base.mlp_stream[index]
        first, last = (self.rows_before[self.graph.writers_before(index, mlp=mlp)] for mlp in (False, True))
        if self.begun is None:
            self.more[0], first = stream, 0
        reader, blocks = [self.graph.reader_of(index, None)], self._blocks(1, self.mlp_tokens[index])
        seen = torch.cat([self._kept(c, slice(first, last), reader, tokens)[:, 0] for c, tokens in blocks])[None]
        if self.begun is not None:
            begun = self.begun + (stream - self.base.attention_stream[index])
            seen, self.begun = seen + begun.flatten(0, 1), None
        return (seen if norm is None else norm.own(seen), *args[1:])

    def read_final(self, x: Tensor) -> Tensor:
        self.more[0] = self.base.final_stream
        rows = slice(0, self.rows_before[-1])
        seen = torch.cat([self._kept(c, rows, [-1], self.base.answers) for c in range(self.copies)])
        return self.wiring.final_norm.own(seen).expand(x.shape)

    # Writing

    def write_heads(self, index: int, own: Callable[..., Tensor], z: Tensor) -> Tensor:
        norm = self.wiring.layers[index].heads_norm
        values = z.flatten(0, 1).unflatten(-1, (self.graph.n_heads, -1)).unflatten(0, (self.copies, -1))
        if norm is not None:
            values = values / norm.scale(own(z).flatten(0, 1)).view(*values.shape[:2], 1, 1)
        self._write_changes(index, values)
        return z.new_zeros(()).expand(*z.shape[:-1], self.wiring.width)

    def leave_out_heads(self, index: int) -> None:
        self._write_changes(index, self.base.written.heads[index].expand(self.copies, -1, -1, -1))

    def _write_changes(self, index: int, values: Tensor) -> None:
        """What each head that is read writes more than the fill; `values` is [circuit, token, head, head size]."""
        first, tokens = self.graph.writers_before(index), self.heads_tokens[index]
        heads = [head for head in range(self.graph.n_heads) if self.row[first + head]]
        if not heads:
            return
        change = values[:, tokens] - self.base.fill.heads[index][tokens]
        if len(heads) < self.graph.n_heads:
            change = change[:, :, heads]
        rows = self.more[self.row[first + heads[0]] : self.row[first + heads[-1]] + 1]
        wrote = rows if isinstance(tokens, slice) else rows[:, :, tokens]
        into = wrote.view(len(heads), -1, self.wiring.width)  # never a copy, which nobody would see
        write_heads(self.model, self.wiring, index, change.flatten(0, 1), heads, into)
        if wrote is not rows:
            rows.zero_()  # Nobody keeps it elsewhere, but everybody adds it, times zero.
            rows[:, :, tokens] = wrote

    def write_mlp(self, index: int, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        self._write_mlp_change(index, output.flatten(0, -2))
        return output.new_zeros(()).expand(self.stream_shape)

    def leave_out_mlp(self, index: int) -> None:
        written = self.base.written.mlps[index][self.mlp_tokens[index]]
        self._write_mlp_change(index, written.repeat(self.copies, 1))

    def _write_mlp_change(self, index: int, output: Tensor) -> None:
        row, tokens = self.row[self.graph.writers_before(index + 1) - 1], self.mlp_tokens[index]
        if row:
            change = output.unflatten(0, (self.copies, -1)) - self.base.fill.mlps[index][tokens]
            if not isinstance(tokens, slice):
                self.more[row].zero_()
            self.more[row, :, tokens] = change


def _writers_read_everywhere(graph: Graph, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Writers whose output matters at every token, and not only at the answers."""
    reads = np.zeros(len(graph.readers), dtype=bool)
    writes = np.zeros(len(graph.writers), dtype=bool)
    for layer in reversed(range(graph.n_layers)):
        first = graph.writers_before(layer)
        mlp, heads = first + graph.n_heads, slice(first, first + graph.n_heads)
        writes[mlp] = keep[mlp, reads].any()
        reads[graph.reader_of(layer, None)] = writes[mlp]
        writes[heads] = keep[heads][:, reads].any(1)
        first_query, first_key = graph.reader_of(layer, "q"), graph.reader_of(layer, "k")
        reads[first_query:first_key] = writes[heads].any()  # queries of a layer are computed together
        reads[first_key : graph.reader_of(layer, None)] = True
    return writes


class _Projections:
    """The queries, keys and values of a layer, head by head from what each of them sees."""

    def __init__(self, layer: LayerWiring, graph: Graph, index: int, results: list[Tensor], copies: int) -> None:
        self.norm = layer.attention_norm
        # An RMSNorm is not applied: its gain goes into the weight, and its scale is divided by afterwards.
        self.folded = None if self.norm is None or self.norm.centres else self.norm
        self.roles = []
        for role in INPUTS:
            projection, first = layer.projections[role], graph.reader_of(index, role)
            result = results[layer.modules.index(projection.module)].flatten(0, 1)
            columns = projection.columns(result).unflatten(0, (copies, -1))
            self.roles.append((range(first, first + graph.heads_of(role)), projection, columns))
        self.weights: dict[tuple[int, ...], list[Tensor] | Tensor] = {}

    def fill(self, circuit: int, tokens: Tokens, readers: list[int], seen: Tensor) -> None:
        """Put in what readers project at some tokens; `seen` is [token, reader, d], or [token, 1, d] for all alike."""
        scale = None if self.folded is None else self.folded.scale(seen)[..., None]
        if self.norm is not None and self.folded is None:
            seen = self.norm.own(seen)
        for own, projection, columns in self.roles:
            places = [place for place, reader in enumerate(readers) if reader in own]
            if not places:
                continue
            heads = [readers[place] - own.start for place in places]
            mine = slice(0, 1) if seen.shape[1] == 1 else slice(places[0], places[-1] + 1)
            found = self._project(projection, heads, seen[:, mine])
            found = found if scale is None else found / scale[:, mine]
            bias = projection.bias()
            if len(heads) == len(own):
                columns[circuit, tokens] = found if bias is None else found + bias
            else:
                index = torch.tensor(heads, device=found.device)
                rows = tokens if isinstance(tokens, slice) else tokens[:, None]
                columns[circuit, rows, index] = found if bias is None else found + bias[index]

    def _project(self, projection: Projection, heads: list[int], seen: Tensor) -> Tensor:
        """[token, head, head size], without scale and bias."""
        weight = self._weight(projection, heads)
        if isinstance(weight, list):  # one by one, so that no part of the weight is copied
            each = seen.expand(-1, len(heads), -1).unbind(1)
            return torch.stack([own @ rows.T for own, rows in zip(each, weight, strict=True)], dim=1)
        if seen.shape[1] == 1:
            return torch.mm(seen[:, 0], weight.flatten(0, 1).T).view(-1, *weight.shape[:2])
        return torch.bmm(seen.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1)

    def _weight(self, projection: Projection, heads: list[int]) -> list[Tensor] | Tensor:
        """Of all heads together, or of some one by one; kept for the blocks of tokens to come."""
        key = (id(projection), *heads)
        if key not in self.weights:
            weight = projection.weight()
            parts = [weight] if len(heads) == len(weight) else [weight[head] for head in heads]
            parts = parts if self.folded is None else [part * self.folded.gain for part in parts]
            self.weights[key] = parts[0] if len(heads) == len(weight) else parts
        return self.weights[key]
