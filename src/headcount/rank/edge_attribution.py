"""Edge attribution patching: exact edge patching to first order, for all edges from a few passes.

With u_f what writer f adds to the residual stream, and x_b the stream that reader b sees (each reader its own copy,
before its own norm),

    score(f, b) = sum over positions of (u_f,clean - u_f,corrupt) · dm/dx_b

positive where keeping the edge raises the metric. `eap` also knows the other fills of circuits: the mean of what f
writes, or nothing, in the place of u_f,corrupt. They differ in where the gradient is taken:

    eap                  at the clean prompt                             Syed et al. 2023, arXiv 2310.10348
    eap-ig               averaged over e_corrupt + k/S (e_clean - e_corrupt), k = 0 … S-1; e are the token embeddings
                                                                         Hanna et al. 2024, arXiv 2403.17806
    eap-eg               at one point of the path, drawn for each pair   Erion et al. 2021, arXiv 1906.10670
    eap-clean-corrupted  averaged over the two ends
    eap-attnlrp, eap-relp, eap-gim
                         at the clean prompt, by another backward pass   models/backward_rules.py

Why it is cheap. One backward pass gives t = dm/d(query, key, value) in head space; no copy of the stream for each head
is ever made. The reader's gradient is J^T W^T t, with J the norm's Jacobian at stream x:

    J^T y = (1/s) (g·y - mean(g·y) - x̂ (x̂ · g·y) / d),   x̂ = centred(x) / s     (RMSNorm has no mean term)

The first term is one matrix product for all (writer, reader) pairs of some layers, with g folded into W and 1/s into
t; the second centres g·W. The third is of rank one at each token, and x̂·g·W^T t is t · (query - its value at x̂ = 0),
which is in head space. For several gradient points t/s is summed first, so that the large product is done once, and the
points share a forward and a backward pass. Backward rules hold the scale of a norm, so that the third falls away.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor
from transformers import DynamicCache

from ..core.words import BackwardRule
from ..edit import Share, first_reached, mix_inputs
from ..edit.edge_fills import EdgeFiller
from ..edit.trace import Trace, Written, traced
from ..meters.memory import READERS_AT_ONCE, Sizes, plan_scores
from ..meters.metrics import batch_for, metric_named
from ..models import Model
from ..models.backward_rules import following
from ..models.norms import NormParts
from ..models.wiring import Projection, Wiring, find_graph, find_wiring
from ..tasks.batches import Batch, batches
from ..tasks.examples import Pair
from .gradients import Points, drawn, evenly
from .method import Request

Tensors = Sequence[Tensor]
Projections = Sequence[Projection | None]
ENDS = {0.0, 1.0}


def _attribute(
    model: Model, pairs: Sequence[Pair], request: Request, points: Points, rule: BackwardRule | None = None
) -> Tensor:
    """Mean over pairs, [writer, reader]."""
    shares = points(request, ())
    wiring, sizes = find_wiring(model, request.readers), Sizes.of_model(model, request.readers)
    scores = torch.zeros(wiring.graph.real.shape, dtype=torch.float64)
    forwards = 2 * len(shares) + len(ENDS - {share for share in shares if _is_end(share)})
    plan = plan_scores(sizes, pairs, len(shares), request.memory, model.device)
    filler = EdgeFiller.prepare(model, wiring, str(request.filler.fill), pairs, pairs, plan.tokens)
    with wiring.readied(), model.frozen(), following(model, rule, request.readers):
        for indices, batch in batches(pairs, model.device, plan.tokens):
            # Before the first token in which the prompts differ, writers write the same in both: nothing is scored
            # there with counterfactual fill.
            start = first_reached(batch, filler.fill, None)
            scored = (batch.length - start) * len(batch)
            at_once = sizes.points_at_once(scored, len(batch), len(shares), plan.budget)
            shares = points(request, [pairs[index] for index in indices])
            found = _score_batch(model, wiring, filler, batch, start, request.metric, shares, at_once, rule is not None)
            scores += found.cpu().double()
            request.advance(forwards * len(batch))
    return torch.from_numpy(find_graph(model, request.readers).summed_to_whole(scores.numpy() / len(pairs)))


def _clean(request: Request, pairs: Sequence[Pair]) -> list[Share]:
    return [1.0]


def _both_ends(request: Request, pairs: Sequence[Pair]) -> list[Share]:
    return [1.0, 0.0]


def _is_end(share: Share) -> bool:
    return isinstance(share, float) and share in ENDS


eap = partial(_attribute, points=_clean)
eap_ig = partial(_attribute, points=evenly)
eap_eg = partial(_attribute, points=drawn)
eap_clean_corrupted = partial(_attribute, points=_both_ends)
eap_attnlrp = partial(eap, rule="attnlrp")
eap_relp = partial(eap, rule="relp")
eap_gim = partial(eap, rule="gim")


def _score_batch(
    model: Model,
    wiring: Wiring,
    filler: EdgeFiller,
    batch: Batch,
    start: int,
    metric: str,
    points: list[Share],
    at_once: int,
    frozen_norms: bool,
) -> Tensor:
    """Summed over the pairs of a batch, [writer, reader], from position `start` on; `at_once` points share a pass."""
    clean, corrupt, last = batch.clean[:, start:], batch.corrupt[:, start:], batch.last - start
    ends = {0.0: batch.corrupt, 1.0: batch.clean} if filler.is_counterfactual else {1.0: batch.clean}
    taken = [share for share in points if _is_end(share)]
    apart = {share: ids for share, ids in ends.items() if share not in taken}
    written, prefix = _apart(model, wiring, batch, start, apart)
    readings: list[_Reading] = []
    for first in range(0, len(points), at_once):
        shares = points[first : first + at_once]
        copies = len(shares)
        past = None if prefix is None else model.repeated_prefix(prefix, copies)
        lasts = last.repeat(copies)
        with torch.enable_grad(), mix_inputs(model, corrupt, clean, shares), traced(model, wiring, lasts) as trace:
            tokens, aimed = batch_for(metric, batch)
            logits = model.last_logits(clean.repeat(copies, 1), lasts, past, tokens)
            total = metric_named(metric)(logits, aimed.repeated(copies)).sum() / len(points)
            gradients = torch.autograd.grad(total, trace.read())
        with torch.no_grad():
            found = _readings(wiring, trace, gradients, copies, frozen_norms)
            readings = [a.together(b) for a, b in zip(readings, found, strict=True)] if readings else found
            of_all = zip(shares, trace.written(wiring).chunk(copies), strict=True)
            written |= {share: wrote.clone() for share, wrote in of_all if _is_end(share)}
        del trace, gradients, logits, total, found, of_all
    with torch.no_grad():
        fill = written[0.0] if filler.is_counterfactual else filler.written(written[1.0], batch)
        delta = (written[1.0] - fill).expanded(model, wiring)
        answers = torch.arange(len(last), device=last.device) * clean.shape[1] + last
        return _contract(wiring, readings, delta, answers)


@torch.no_grad()
def _apart(
    model: Model, wiring: Wiring, batch: Batch, start: int, ends: dict[float, Tensor]
) -> tuple[dict[Share, Written], DynamicCache | None]:
    """What is written from position `start` on at the ends of the path that are no gradient points, and the keys and
    values of what comes before, which both prompts share: the ends read them on their way."""
    read = model.empty_cache() if start and ends else None
    if read is not None and any(read.is_sliding):
        read = None  # such layers forget what comes before their window
    written = dict[Share, Written]()
    if ends:
        with traced(model, wiring, batch.last.repeat(len(ends)), reads=False) as trace:
            model.run(torch.cat([*ends.values()]), read)
        of_ends = trace.written(wiring).chunk(len(ends))
        written |= {share: wrote.behind(start, len(batch)) for share, wrote in zip(ends, of_ends, strict=True)}
    if read is None:
        return written, model.read_prefix(batch.clean[:, :start]) if start else None
    read.crop(start - batch.length)
    return written, model.repeated_prefix(read, 1, len(batch))


@dataclass(frozen=True)
class _Role:
    """One role's gradients behind a norm, t/s summed over the points: of heads, or of a reader of the whole stream."""

    folded: Tensor  # [token, reader, head size or d]
    norm: NormParts | None
    projection: Projection | None

    @property
    def readers(self) -> int:
        return self.folded.shape[1]

    def pull(self, into: Tensor) -> None:
        """g W^T t/s in d_model, `into` [reader, token, d], centred where the norm centres."""
        folded = self.folded.transpose(0, 1)
        if self.projection is None:
            into.copy_(self._through_norm(folded))
        else:
            torch.bmm(folded, self._through_norm(self.projection.weight()), out=into)

    def _through_norm(self, rows: Tensor) -> Tensor:
        return rows if self.norm is None else self.norm.centred(rows * self.norm.gain)


@dataclass(frozen=True)
class _Reading:
    """The readers behind one norm, and the directions of the stream to which the norm makes them blind."""

    roles: list[_Role]
    directions: Tensor  # x̂ of each point, [point, token, d]; none where there is no norm, or it keeps its scale
    along: Tensor  # x̂ · g W^T t/s of each point, [point, token, reader]

    def together(self, other: "_Reading") -> "_Reading":
        """Of the points of both."""
        roles = [replace(a, folded=a.folded + b.folded) for a, b in zip(self.roles, other.roles, strict=True)]
        return _Reading(roles, torch.cat([self.directions, other.directions]), torch.cat([self.along, other.along]))

    @property
    def readers(self) -> int:
        return sum(role.readers for role in self.roles)

    def pull(self, into: Tensor) -> None:
        """J^T W^T t summed over the points, `into` [reader, token, d]."""
        for role, own in zip(self.roles, into.split([role.readers for role in self.roles]), strict=True):
            role.pull(own)
        if len(self.directions):
            by_token = self.along.permute(1, 2, 0), self.directions.transpose(0, 1)
            into.transpose(0, 1).baddbmm_(*by_token, alpha=-1 / into.shape[-1])


def _readings(wiring: Wiring, trace: Trace, gradients: Tensors, points: int, frozen: bool) -> list[_Reading]:
    """For each layer the attention's and the MLP's, last the logits', whose gradient is taken before its norm."""
    left = iter(gradients)
    found = []
    for index, layer in enumerate(wiring.layers):
        own, read, stream = [next(left) for _ in layer.modules], trace.projected[index], trace.attention_stream[index]
        found.append(
            _reading(layer.attention_norm, stream, own, read, list(layer.projections.values()), points, frozen)
        )
        own, read, stream = [next(left)], (trace.mlp_read[index],), trace.mlp_stream[index]
        found.append(_reading(layer.mlp_norm, stream, own, read, [None], points, frozen))
    return [*found, _reading(None, trace.final_stream[0], [next(left)], [], [None], points, frozen)]


def _reading(
    norm: NormParts | None,
    stream: Tensor,
    gradients: Tensors,
    read: Tensors,
    projections: Projections,
    points: int,
    frozen: bool,
) -> _Reading:
    """`stream` [row, position, d]; gradients at what was read, and what was read, [row, position, feature]: one for
    each module of the projections, or one where the stream is read as it is, without a projection. A norm that is
    `frozen` keeps its scale, whatever moves."""
    stream, *gradients = (tensor.flatten(0, -2) for tensor in (stream, *gradients))
    modules = list(dict.fromkeys(projection.module for projection in projections if projection))

    def by_role(found: Tensors) -> list[Tensor]:
        """[..., reader, size] of each role."""
        return [p.columns(found[modules.index(p.module)]) if p else found[0][..., None, :] for p in projections]

    def by_reader(found: Tensors) -> Tensor:
        return torch.cat([part.sum(-1) for part in by_role(found)], dim=-1)

    def by_point(found: Tensor) -> Tensor:
        split: Tensor = found.unflatten(0, (points, -1))
        return split

    if norm is not None:
        scale = norm.scale(stream)[:, None]
        gradients = [gradient / scale for gradient in gradients]
    folded = [by_point(gradient).sum(0) for gradient in gradients]
    roles = [_Role(t, norm, projection) for t, projection in zip(by_role(folded), projections, strict=True)]
    none = stream[:0, None]
    if norm is None or frozen:
        return _Reading(roles, directions=none, along=none)
    # What is read where x̂ = 0 is the norm's bias, projected.
    zero = [module(norm.bias) for module in modules] or [norm.bias]
    moved = [t * (value.flatten(0, -2) - at) for t, value, at in zip(gradients, read, zero, strict=True)]
    return _Reading(roles, directions=by_point(norm.centred(stream) / scale), along=by_point(by_reader(moved)))


def _contract(wiring: Wiring, readings: list[_Reading], delta: Tensor, answers: Tensor) -> Tensor:
    """Sum over tokens of Δu · J^T W^T t; `delta` is [writer, token, d], `answers` the tokens that are unembedded."""
    graph, (_, tokens, width) = wiring.graph, delta.shape

    def blocks(rows: Tensor) -> Tensor:
        """[row, token, d] -> [block, row, some tokens of d]: one product over all tokens at once is slow on a CPU."""
        size = next(size for size in (4, 2, 1) if rows.shape[1] % size == 0)
        cut: Tensor = rows.flatten(1).unflatten(1, (-1, size * width))
        return cut.transpose(0, 1)

    scores = delta.new_zeros(len(graph.writers), len(graph.readers))
    # Readers of some layers go together, though the first of them cannot see what the later ones do: Δu, which does not
    # fit the caches, is read so many times less often. Behind the last attention only the answers' tokens have a
    # gradient.
    step, last = 2 * max(READERS_AT_ONCE // graph.readers_a_layer, 1), len(readings) - 2
    groups = [readings[a:b] for a, b in pairwise([0, *range(step - 1, last, step), last, len(readings)])]
    counts = [[reading.readers for reading in group] for group in groups]
    room = delta.new_empty(max(map(sum, counts)), tokens, width)  # the same for all of them: new memory costs time
    end = reader = 0
    for group, readers in zip(groups, counts, strict=True):
        end += len(group)
        writers, where = (graph.writers_before(end // 2), slice(None)) if end <= last else (len(delta), answers)
        pulled = room[: sum(readers)]
        for reading, into in zip(group, pulled.split(readers), strict=True):
            reading.pull(into)
        found = torch.bmm(blocks(delta[:writers, where]), blocks(pulled[:, where]).transpose(1, 2)).sum(0)
        scores[:writers, reader : reader + len(pulled)] = found
        reader += len(pulled)
    return scores * torch.from_numpy(graph.real).to(scores.device)
