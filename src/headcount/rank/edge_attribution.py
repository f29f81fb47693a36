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

The first term is one matrix product a layer for all (writer, reader) pairs, with g folded into W and 1/s into t. The
others are rank one: they need Δu·x̂ and Δu·1, which one batched product gives for all norms at once, and x̂·g·W^T t,
which is t · (query - its value at x̂ = 0), all in head space. For several gradient points t/s is summed first, so that
the large product is done once, and the points share a forward and a backward pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..edit import Fill, first_reached, mix_inputs
from ..edit.trace import Trace, Written, traced
from ..meters.memory import Sizes, plan_scores
from ..meters.metrics import batch_for, metric_named
from ..models import Model
from ..models.norms import NormParts
from ..models.wiring import Projection, Wiring, find_wiring
from ..tasks.batches import Batch, batches
from ..tasks.examples import Pair
from .method import Request

Together = Callable[[int, int], list[list[float]]]
"""(tokens, prompts) of a batch -> the gradient points of each pass."""


def eap(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    return _attribute(model, pairs, request, [1.0])


def eap_ig(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    return _attribute(model, pairs, request, [step / request.steps for step in range(request.steps)])


def eap_clean_corrupted(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    return _attribute(model, pairs, request, [1.0, 0.0])


def _attribute(model: Model, pairs: Sequence[Pair], request: Request, shares: list[float]) -> Tensor:
    """Mean over pairs, [writer, reader]; `shares` are the points between corrupt (0) and clean (1)."""
    wiring = find_wiring(model, request.readers)
    scores = torch.zeros(len(wiring.graph.writers), len(wiring.graph.readers), dtype=torch.float64)
    forwards = 2 * len(shares) + len({0.0, 1.0} - set(shares))
    sizes = Sizes.of_model(model, request.readers)
    plan = plan_scores(sizes, pairs, len(shares), request.memory, model.device)

    def together(tokens: int, prompts: int) -> list[list[float]]:
        """The points of each pass."""
        at_once = sizes.points_at_once(tokens, prompts, len(shares), plan.budget)
        return [shares[first : first + at_once] for first in range(0, len(shares), at_once)]

    for _, batch in batches(pairs, model.device, plan.tokens):
        with wiring.readied(), model.frozen():
            scores += _score_batch(model, wiring, batch, request.metric, together).cpu().double()
        request.advance(forwards * len(batch))
    return scores / len(pairs)


def _score_batch(model: Model, wiring: Wiring, batch: Batch, metric: str, together: Together) -> Tensor:
    """Summed over the pairs of a batch, [writer, reader]; `together` says which points share a pass."""
    # Before the first token in which the prompts differ, writers write the same in both, so nothing is scored there.
    start = first_reached(batch, Fill.parse("counterfactual"), None)
    prefix = model.read_prefix(batch.clean[:, :start]) if start else None
    clean, corrupt, last = batch.clean[:, start:], batch.corrupt[:, start:], batch.last - start
    passes = together(clean.numel(), len(batch))
    points = sum(map(len, passes))
    written: dict[float, Written] = {}
    readings: list[_Reading] = []
    for shares in passes:
        copies = len(shares)
        past = None if prefix is None else model.repeated_prefix(prefix, copies)
        with (
            torch.enable_grad(),
            mix_inputs(model, corrupt, clean, shares),
            traced(model, wiring, last.repeat(copies)) as trace,
        ):
            tokens, aimed = batch_for(metric, batch)
            logits = model.last_logits(clean.repeat(copies, 1), last.repeat(copies), past, tokens)
            total = metric_named(metric)(logits, aimed.repeated(copies)).sum() / points
            gradients = torch.autograd.grad(total, trace.read())
        with torch.no_grad():
            found = _readings(wiring, trace, gradients, copies)
            readings = [a.together(b) for a, b in zip(readings, found, strict=True)] if readings else found
            of_all = trace.written(wiring)
            for copy, share in enumerate(shares):
                if share in (0.0, 1.0):
                    written[share] = Written.of_parts([part.chunk(copies)[copy].clone() for part in of_all.parts()])
        del trace, gradients, logits, total, found, of_all
    for share, ids in ((0.0, corrupt), (1.0, clean)):
        if share not in written:
            past = None if prefix is None else model.repeated_prefix(prefix, 1)
            with torch.no_grad(), traced(model, wiring, last) as trace:
                model.run(ids, past)
            written[share] = trace.written(wiring)
    with torch.no_grad():
        delta = (written[1.0] - written[0.0]).expanded(model, wiring)
        answers = torch.arange(len(last), device=last.device) * clean.shape[1] + last
        return _contract(wiring, readings, delta, answers)


@dataclass(frozen=True)
class _Role:
    """One role's gradients behind a norm, t/s summed over the points: of heads, or of a reader of the whole stream."""

    folded: Tensor
    """[token, reader, head size or d]."""
    gain: Tensor
    projection: Projection | None

    @property
    def readers(self) -> int:
        return self.folded.shape[1]

    def pull(self, into: Tensor) -> None:
        """g W^T t/s in d_model, `into` [reader, token, d]."""
        folded = self.folded.transpose(0, 1)
        if self.projection is None:
            torch.mul(folded, self.gain, out=into)
        else:
            torch.bmm(folded, self.projection.weight() * self.gain, out=into)


@dataclass(frozen=True)
class _Reading:
    """The readers behind one norm, and the directions of the stream to which the norm makes them blind."""

    roles: list[_Role]
    directions: Tensor
    """x̂ of each point, [point, token, d]; none where there is no norm."""
    along: Tensor
    """x̂ · g W^T t/s of each point, [point, token, reader]."""
    summed: Tensor | None
    """1 · g W^T t/s, [token, reader], where the norm centres."""

    def together(self, other: "_Reading") -> "_Reading":
        """Of the points of both."""
        return _Reading(
            [replace(a, folded=a.folded + b.folded) for a, b in zip(self.roles, other.roles, strict=True)],
            torch.cat([self.directions, other.directions]), torch.cat([self.along, other.along]),
            None if self.summed is None or other.summed is None else self.summed + other.summed,
        )  # fmt: skip

    @property
    def readers(self) -> int:
        return sum(role.readers for role in self.roles)


def _readings(wiring: Wiring, trace: Trace, gradients: Sequence[Tensor], points: int) -> list[_Reading]:
    """For each layer the attention's and the MLP's, last the logits', whose gradient is taken before its norm."""
    left = iter(gradients)
    found = []
    for index, layer in enumerate(wiring.layers):
        own = [next(left).flatten(0, -2) for _ in layer.modules]
        values = [value.flatten(0, -2) for value in trace.projected[index]]
        projections = list(layer.projections.values())
        found.append(_reading(layer.attention_norm, trace.attention_stream[index], own, values, projections, points))
        own, values = [next(left).flatten(0, -2)], [trace.mlp_read[index].flatten(0, -2)]
        found.append(_reading(layer.mlp_norm, trace.mlp_stream[index], own, values, [], points))
    return [*found, _reading(None, trace.final_stream[0], [next(left).flatten(0, -2)], [], [], points)]


def _reading(
    norm: NormParts | None, stream: Tensor, gradients: list[Tensor], values: list[Tensor],
    projections: list[Projection], points: int,
) -> _Reading:  # fmt: skip
    """`stream` [row, position, d]; gradients at what was read, and what was read, [token, feature]: one for each module
    of the projections, or one where the stream is read as it is."""
    stream = stream.flatten(0, -2)
    modules = list(dict.fromkeys(projection.module for projection in projections))

    def by_role(found: list[Tensor]) -> list[Tensor]:
        """[..., reader, size] of each role."""
        if not projections:
            return [found[0][..., None, :]]
        return [projection.columns(found[modules.index(projection.module)]) for projection in projections]

    def by_reader(found: list[Tensor]) -> Tensor:
        return torch.cat([part.sum(-1) for part in by_role(found)], dim=-1)

    if norm is not None:
        scale = norm.scale(stream)[:, None]
        gradients = [gradient / scale for gradient in gradients]
    folded = [gradient.unflatten(0, (points, -1)).sum(0) for gradient in gradients]
    gain = torch.ones_like(stream[0]) if norm is None else norm.gain
    behind: Sequence[Projection | None] = projections or [None]
    roles = [_Role(t, gain, projection) for t, projection in zip(by_role(folded), behind, strict=True)]
    if norm is None:
        return _Reading(roles, directions=stream[:0, None], along=stream[:0, None], summed=None)
    # What is read where x̂ = 0 is the norm's bias, projected; what a stream of ones adds to that, its gain.
    ends = torch.stack([norm.bias, norm.bias + norm.gain])
    zero, one = zip(*[module(ends) for module in modules] or [ends], strict=True)
    along = by_reader([t * (value - at) for t, value, at in zip(gradients, values, zero, strict=True)])
    ones = [t * (up - at) for t, up, at in zip(folded, one, zero, strict=True)] if norm.centres else None
    return _Reading(
        roles, directions=(norm.centred(stream) / scale).unflatten(0, (points, -1)),
        along=along.unflatten(0, (points, -1)), summed=None if ones is None else by_reader(ones),
    )  # fmt: skip


def _contract(wiring: Wiring, readings: list[_Reading], delta: Tensor, answers: Tensor) -> Tensor:
    """Sum over tokens of Δu · J^T W^T t; `delta` is [writer, token, d], `answers` the tokens that are unembedded."""
    graph, (_, tokens, width) = wiring.graph, delta.shape
    scores = delta.new_zeros(len(graph.writers), len(graph.readers))
    # Δu·x̂ of every norm and point, and Δu·1, in one product that reads Δu once: [token, writer, column].
    columns = [direction for reading in readings for direction in reading.directions]
    products = torch.bmm(delta.transpose(0, 1), torch.stack([*columns, torch.ones_like(delta[0])], dim=-1))

    def blocks(rows: Tensor) -> Tensor:
        """[row, token, d] -> [block, row, some tokens of d]: one product over all tokens at once is slow on a CPU."""
        size = next(size for size in (4, 2, 1) if rows.shape[1] % size == 0)
        cut: Tensor = rows.flatten(1).unflatten(1, (-1, size * width))
        return cut.transpose(0, 1)

    pulled = delta.new_empty(graph.readers_a_layer, tokens, width)
    column, reader = 0, 0
    # An MLP and the attention after it see nearly the same writers: one product for both, and Δu is read half as often.
    for index in range(0, len(readings) + 1, 2):
        together = readings[max(index - 1, 0) : index + 1]
        writers = len(graph.writers) if index >= len(readings) else graph.writers_before(index // 2)
        first = 0
        for reading in together:
            for role in reading.roles:
                role.pull(pulled[first : first + role.readers])
                first += role.readers
        # Behind the last attention only the answers' tokens have a gradient.
        where = answers if index > 2 * (graph.n_layers - 1) else slice(None)
        found = torch.bmm(blocks(delta[:writers, where]), blocks(pulled[:first, where]).transpose(1, 2)).sum(0)
        first = 0
        for reading in together:
            own = found[:, first : first + reading.readers]
            for along in reading.along:
                own -= products[:, :writers, column].T @ along / width
                column += 1
            if reading.summed is not None:
                own -= products[:, :writers, -1].T @ reading.summed / width
            first += reading.readers
        scores[:writers, reader : reader + first] = found
        reader += first
    return scores * torch.from_numpy(graph.real).to(scores.device)
