"""Evaluate circuits: any set of edges kept, all others carrying what they carry in the counterfactual run.

The run is on the clean prompts. A reader b sees

    x_b = x_b,cf + sum over its kept writers f of (u_f - u_f,cf)

then its own norm and its own rows of the projection; Hugging Face does the rest (rotary positions, QK norms, clipping,
windows, the attention itself, the MLP). So every reader's input is replaced, and what flows along the model's own
stream does not matter. Readers without a kept edge keep their counterfactual value and are not computed.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .cuts import Fill
from .edge_trace import Trace, traced
from .graph import ROLES
from .measure import Advance, Values, first_reached, silent
from .metrics import MEASURED, measure_all
from .models import Model
from .models.wiring import LayerWiring, Wiring, find_wiring
from .tasks.pairs import Batch, Pair, batches

MAX_BYTES = 2**28
"""What writers wrote may take so much memory in one forward pass. Fixed, so that runs can be repeated bit for bit."""


class CircuitMeter:
    """Pairs made ready to be measured in any number of circuits."""

    def __init__(self, model: Model, pairs: Sequence[Pair], *, max_bytes: int = MAX_BYTES, advance: Advance = silent):
        self.model, self.pairs, self.advance = model, pairs, advance
        self.wiring = find_wiring(model)
        width = len(self.wiring.final_norm.gain)
        token_bytes = len(self.wiring.graph.writers) * width * model.hf.dtype.itemsize
        self.max_tokens = max(max_bytes // token_bytes, 1)

    @torch.no_grad()
    def measure(self, keeps: Tensor) -> Values:
        """Metric -> [circuit, pair]; `keeps` is [circuit, writer, reader], True for edges in the circuit."""
        real = torch.from_numpy(self.wiring.graph.real)
        keeps = (keeps & real).to(self.model.device)
        values = {name: np.empty((len(keeps), len(self.pairs))) for name in MEASURED}
        for indices, batch in batches(self.pairs, self.model.device, self.max_tokens):
            ready = _ReadyBatch.of(self.model, self.wiring, batch)
            at_once = max(self.max_tokens // ready.ids.numel(), 1)
            for first in range(0, len(keeps), at_once):
                keep = keeps[first : first + at_once]
                for name, value in ready.measure(self.model, self.wiring, keep).items():
                    values[name][first : first + len(keep), indices] = value.cpu().double().numpy()
                self.advance(len(keep) * len(batch))
        return values


@dataclass(frozen=True)
class _ReadyBatch:
    """A batch with its counterfactual run, both behind the prefix that the two prompts share."""

    batch: Batch
    ids: Tensor
    last: Tensor
    prefix: Any
    other: Trace
    """The counterfactual run."""
    other_written: Tensor
    """[writer, token, d]."""
    input_change: Tensor
    """What the embedding writes more in the clean run, [token, d]."""
    uncut: Tensor

    @classmethod
    def of(cls, model: Model, wiring: Wiring, batch: Batch) -> "_ReadyBatch":
        start = first_reached(batch, Fill.parse("counterfactual"), None)
        prefix = model.read_prefix(batch.clean[:, :start]) if start else None
        last = batch.last - start
        traces = []
        for ids in (batch.corrupt, batch.clean):
            with traced(model, wiring) as trace:
                past = None if prefix is None else model.repeated_prefix(prefix, 1)
                logits = model.last_logits(ids[:, start:], last, past)
            traces.append(trace)
        other, clean = traces
        change = clean.attention_stream[0] - other.attention_stream[0]
        return cls(
            batch, batch.clean[:, start:], last, prefix, other, other.written(model, wiring),
            input_change=change.flatten(0, -2), uncut=logits,
        )  # fmt: skip

    def measure(self, model: Model, wiring: Wiring, keep: Tensor) -> dict[str, Tensor]:
        copies = len(keep)
        past = None if self.prefix is None else model.repeated_prefix(self.prefix, copies)
        with _only_kept_edges(model, wiring, self, keep):
            logits = model.last_logits(self.ids.repeat(copies, 1), self.last.repeat(copies), past)
        measured = measure_all(logits, self.batch.repeated(copies), self.uncut.repeat(copies, 1))
        return {name: value.view(copies, -1) for name, value in measured.items()}


@contextmanager
def _only_kept_edges(model: Model, wiring: Wiring, ready: _ReadyBatch, keep: Tensor) -> Iterator[None]:
    """Give every reader its own input while the block lasts; rows are the batch once for each circuit."""
    stream = _Stream(model, wiring, ready, keep)
    with ExitStack() as stack:

        def before(module: nn.Module, hook: Any) -> None:
            stack.callback(module.register_forward_pre_hook(hook).remove)

        def after(module: nn.Module, hook: Any) -> None:
            stack.callback(module.register_forward_hook(hook).remove)

        for index, layer in enumerate(wiring.layers):
            for module in dict.fromkeys(projection.module for projection in layer.projections.values()):
                after(module, stream.project(index, layer, module))
            projection = model.anatomy.out_projections[index]
            before(projection, stream.take_values(index))
            after(projection, stream.write_heads(index, layer))
            before(layer.mlp_in, stream.read_mlp(index, layer))
            after(layer.mlp_out, stream.write_mlp(index))
        before(wiring.final_norm.module, stream.read_final())
        yield


class _Stream:
    """What each writer has written more than in the counterfactual run, and what each reader therefore sees."""

    def __init__(self, model: Model, wiring: Wiring, ready: _ReadyBatch, keep: Tensor) -> None:
        self.model, self.graph, self.ready, self.keep = model, wiring.graph, ready, keep
        self.other, self.weights = ready.other, keep.to(ready.input_change.dtype)
        shape = (len(keep), *ready.other_written.shape)
        self.more = ready.input_change.new_zeros(shape)
        """[circuit, writer, token, d]."""
        self.more[:, 0] = ready.input_change
        self.used = keep.any(0).any(1)
        """Writers with an edge in any circuit; what the others write is never read."""

    def seen(self, stream: Tensor, writers: int, readers: Tensor) -> Tensor:
        """What some readers see before their norm, [circuit, reader, token, d]."""
        wanted = self.weights[:, :writers, readers].transpose(1, 2)
        added = torch.bmm(wanted, self.more[:, :writers].flatten(2))
        seen: Tensor = added.unflatten(2, stream.shape) + stream
        return seen

    def project(self, index: int, layer: LayerWiring, module: nn.Module) -> Any:
        """Each head's rows of a projection, from its own stream."""
        writers = self.graph.writers_before(index)
        column = index * self.graph.readers_a_layer
        mine = []
        for role in ROLES:
            heads = self.graph.heads_of(role)
            active = self.keep[:, :writers, column : column + heads].any(0).any(0).nonzero()[:, 0]
            if layer.projections[role].module is module and len(active):
                mine.append((layer.projections[role], active, column + active))
            column += heads

        def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            """Rows whose reader has no kept edge stay as they were in the counterfactual run."""
            modules = list(dict.fromkeys(p.module for p in layer.projections.values()))
            result = self.other.projected[index][modules.index(module)].repeat(len(self.keep), 1, 1)
            stream = self.other.attention_stream[index].flatten(0, -2)
            for projection, heads, readers in mine:
                seen = self.seen(stream, writers, readers)
                normed = seen if layer.attention_norm is None else layer.attention_norm.module(seen)
                weight = projection.weight()[heads]
                found = torch.einsum("cntd,nsd->ctns", normed, weight)
                rows = projection.rows[heads]
                bias = getattr(module, "bias", None)
                if bias is not None:
                    found = found + bias[rows]
                result[..., rows.flatten()] = found.flatten(2).view(*result.shape[:-1], -1)
            return result

        return hook

    def take_values(self, index: int) -> Any:
        def hook(module: nn.Module, args: Any) -> None:
            self.z = args[0].unflatten(-1, (self.graph.n_heads, -1))

        return hook

    def write_heads(self, index: int, layer: LayerWiring) -> Any:
        """What the heads write, less what they wrote in the counterfactual run."""
        first = self.graph.writers_before(index)
        writers = slice(first, first + self.graph.n_heads)

        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            if not bool(self.used[writers].any()):
                return
            written = torch.einsum("bphs,hsd->bphd", self.z, self.model.anatomy.out_weight(index))
            if layer.heads_norm is not None:
                written = layer.heads_norm.share(written, output)
            by_circuit = written.flatten(0, 1).unflatten(0, (len(self.keep), -1)).transpose(1, 2)
            self.more[:, writers] = by_circuit - self.ready.other_written[writers]

        return hook

    def read_mlp(self, index: int, layer: LayerWiring) -> Any:
        writers = self.graph.writers_before(index, mlp=True)
        reader = torch.tensor([(index + 1) * self.graph.readers_a_layer - 1], device=self.keep.device)

        def hook(module: nn.Module, args: Any) -> Any:
            seen = self.seen(self.other.mlp_stream[index].flatten(0, -2), writers, reader)
            normed = seen if layer.mlp_norm is None else layer.mlp_norm.module(seen)
            return (normed.view_as(args[0]), *args[1:])

        return hook

    def write_mlp(self, index: int) -> Any:
        writer = self.graph.writers_before(index + 1) - 1

        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            by_circuit = output.reshape(len(self.keep), -1, output.shape[-1])
            self.more[:, writer] = by_circuit - self.ready.other_written[writer]

        return hook

    def read_final(self) -> Any:
        reader = torch.tensor([len(self.graph.readers) - 1], device=self.keep.device)

        def hook(module: nn.Module, args: Any) -> Any:
            seen = self.seen(self.other.final_stream[0].flatten(0, -2), len(self.graph.writers), reader)
            return (seen.view_as(args[0]), *args[1:])

        return hook
