"""Edge attribution patching: exact edge patching to first order, for all edges from a few passes.

With u_f what writer f adds to the residual stream, and x_b the stream that reader b sees (each reader its own copy,
before its own norm),

    score(f, b) = sum over positions of (u_f,clean - u_f,corrupt) · dm/dx_b

positive where keeping the edge raises the metric. They differ in where the gradient is taken:

    eap                  at the clean prompt                             Syed et al. 2023, arXiv 2310.10348
    eap-ig               averaged over e_corrupt + k/S (e_clean - e_corrupt), k = 0 … S-1; e are the token embeddings
                                                                         Hanna et al. 2024, arXiv 2403.17806
    eap-clean-corrupted  averaged over the two ends

Why it is cheap. One backward pass gives t = dm/d(query, key, value) in head space; no copy of the stream for each head
is ever made. The reader's gradient is J^T W^T t, with J the norm's Jacobian at stream x:

    J^T y = (1/s) (g·y - mean(g·y) - x̂ (x̂ · g·y) / d),   x̂ = centred(x) / s     (RMSNorm has no mean term)

The first term is one matrix product a layer for all (writer, reader) pairs, with g/s folded into t and W. The other two
are rank one in d_model: they need Δu·1 and Δu·x̂, which one batched product gives for all norms at once, and W·1 and
W·x̂ in head space. For several gradient points t/s is summed first, so the large product is done once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..cuts import Fill, mix_inputs
from ..edge_trace import Trace, traced
from ..measure import first_reached
from ..metrics import metric_named
from ..models import Model
from ..models.norms import NormParts
from ..models.wiring import Wiring, find_wiring
from ..tasks.pairs import Batch, Pair, batches
from .method import Settings


def eap(model: Model, pairs: Sequence[Pair], settings: Settings) -> Tensor:
    return _attribute(model, pairs, settings, [1.0])


def eap_ig(model: Model, pairs: Sequence[Pair], settings: Settings) -> Tensor:
    return _attribute(model, pairs, settings, [step / settings.steps for step in range(settings.steps)])


def eap_clean_corrupted(model: Model, pairs: Sequence[Pair], settings: Settings) -> Tensor:
    return _attribute(model, pairs, settings, [1.0, 0.0])


def _attribute(model: Model, pairs: Sequence[Pair], settings: Settings, shares: list[float]) -> Tensor:
    """Mean over pairs, [writer, reader]; `shares` are the points between corrupt (0) and clean (1)."""
    wiring = find_wiring(model)
    scores = torch.zeros(len(wiring.graph.writers), len(wiring.graph.readers), dtype=torch.float64)
    forwards = 2 * len(shares) + len({0.0, 1.0} - set(shares))
    for _, batch in batches(pairs, model.device, max(settings.max_tokens // 2, 1)):
        scores += _score_batch(model, wiring, batch, settings.metric, shares).cpu().double()
        settings.advance(forwards * len(batch))
    return scores / len(pairs)


def _score_batch(model: Model, wiring: Wiring, batch: Batch, metric: str, shares: list[float]) -> Tensor:
    """Summed over the pairs of a batch, [writer, reader]."""
    # Before the first token in which the prompts differ, writers write the same in both, so nothing is scored there.
    start = first_reached(batch, Fill.parse("counterfactual"), None)
    prefix = model.read_prefix(batch.clean[:, :start]) if start else None
    points = _Points.of(wiring)
    written: dict[float, Tensor] = {}
    for share in dict.fromkeys([*shares, 0.0, 1.0]):
        past = None if prefix is None else model.repeated_prefix(prefix, 1)
        wanted = share in shares
        with (
            torch.set_grad_enabled(wanted),
            model.frozen(),
            mix_inputs(model, batch.corrupt[:, start:], batch.clean[:, start:], share),
            traced(model, wiring) as trace,
        ):
            logits = model.last_logits(batch.clean[:, start:], batch.last - start, past)
            if wanted:
                total = metric_named(metric)(logits, batch).sum()
                gradients = torch.autograd.grad(total, trace.read())
        with torch.no_grad():
            if wanted:
                points.add(wiring, trace, gradients, 1 / len(shares))
            if share in (0.0, 1.0):
                written[share] = trace.written(model, wiring)
    with torch.no_grad():
        return points.contract(wiring, written[1.0] - written[0.0])


@dataclass(frozen=True)
class _Role:
    """How readers read the normed stream: by heads, through g·W [head, head size, d], or as it is, through g [d]."""

    weight: Tensor

    def pull(self, t: Tensor) -> Tensor:
        """W^T t in d_model, [reader, token, d]; t is [reader, token, head size or d]."""
        return torch.bmm(t, self.weight) if self.weight.dim() == 3 else t * self.weight

    def along(self, t: Tensor, direction: Tensor) -> Tensor:
        """direction · W^T t, [token, reader], computed in head space; direction is [token, d]."""
        if self.weight.dim() == 1:
            return torch.einsum("htd,td->th", t, direction * self.weight)
        return torch.einsum("hts,hts->th", t, torch.einsum("td,hsd->hts", direction, self.weight))

    def summed(self, t: Tensor) -> Tensor:
        """1 · W^T t, [token, reader]."""
        return (
            torch.einsum("htd,d->th", t, self.weight)
            if self.weight.dim() == 1
            else torch.einsum("hts,hs->th", t, self.weight.sum(-1))
        )


@dataclass
class _Reading:
    """The readers behind one norm, summed over gradient points."""

    norm: NormParts | None
    roles: list[_Role]
    folded: list[Tensor] = field(default_factory=list)
    """t/s of each role, [reader, token, head size or d]."""
    directions: list[Tensor] = field(default_factory=list)
    """x̂ of each point, [token, d]."""
    along: list[Tensor] = field(default_factory=list)
    """x̂ · W^T t/s of each point, [token, reader]."""

    def add(self, stream: Tensor, gradients: list[Tensor], weight: float) -> None:
        """`stream`: what the norm saw, [token, d]; `gradients`: dm/d(what each role read), [token, reader, size]."""
        scale = torch.ones_like(stream[:, 0]) if self.norm is None else self.norm.scale(stream)
        folded = [(t * (weight / scale)[:, None, None]).transpose(0, 1) for t in gradients]
        self.folded = [a + b for a, b in zip(self.folded, folded, strict=True)] if self.folded else folded
        if self.norm is not None:
            direction = self.norm.centred(stream) / scale[:, None]
            along = [role.along(t, direction) for role, t in zip(self.roles, folded, strict=True)]
            self.directions.append(direction)
            self.along.append(torch.cat(along, dim=1))

    def gradients(self) -> Tensor:
        """W^T t/s of every reader, [reader, token, d]."""
        return torch.cat([role.pull(t) for role, t in zip(self.roles, self.folded, strict=True)])

    def summed(self) -> Tensor:
        """1 · W^T t/s, [token, reader]."""
        return torch.cat([role.summed(t) for role, t in zip(self.roles, self.folded, strict=True)], dim=1)


@dataclass
class _Points:
    """All readings of a model: for each layer the attention's and the MLP's, last the logits'."""

    readings: list[_Reading]

    @classmethod
    def of(cls, wiring: Wiring) -> "_Points":
        readings, like = [], wiring.final_norm.gain
        for layer in wiring.layers:
            gain = _gain(layer.attention_norm, like)
            roles = [_Role(projection.weight() * gain) for projection in layer.projections.values()]
            readings.append(_Reading(layer.attention_norm, roles))
            readings.append(_Reading(layer.mlp_norm, [_Role(_gain(layer.mlp_norm, like))]))
        # The gradient at the final stream is taken before its norm.
        readings.append(_Reading(None, [_Role(_gain(None, like))]))
        return cls(readings)

    def add(self, wiring: Wiring, trace: Trace, gradients: Sequence[Tensor], weight: float) -> None:
        for reading, stream, found in zip(self.readings, *trace.readings(wiring, gradients), strict=True):
            reading.add(stream, found, weight)

    def contract(self, wiring: Wiring, delta: Tensor) -> Tensor:
        """Sum over tokens of Δu · J^T W^T t; `delta` is [writer, token, d]."""
        graph, width = wiring.graph, delta.shape[-1]
        scores = delta.new_zeros(len(graph.writers), len(graph.readers))
        columns = [direction for reading in self.readings for direction in reading.directions]
        columns.append(torch.ones_like(delta[0]))
        # Δu·x̂ of every norm and point, and Δu·1, in one product that reads Δu once: [token, writer, column].
        products = torch.bmm(delta.transpose(0, 1), torch.stack(columns, dim=-1))
        column, reader = 0, 0
        for index, reading in enumerate(self.readings):
            layer, mlp = divmod(index, 2)
            writers = len(graph.writers) if layer == graph.n_layers else graph.writers_before(layer, mlp=bool(mlp))
            gradients = reading.gradients()
            found = delta[:writers].flatten(1) @ gradients.flatten(1).T
            if reading.norm is not None and reading.norm.centres:
                found -= products[:, :writers, -1].T @ reading.summed() / width
            for along in reading.along:
                found -= products[:, :writers, column].T @ along / width
                column += 1
            scores[:writers, reader : reader + len(gradients)] = found
            reader += len(gradients)
        return scores


def _gain(norm: NormParts | None, like: Tensor) -> Tensor:
    return torch.ones_like(like) if norm is None else norm.gain
