"""Gates while they are trained: drawn from their probabilities, with a gradient through what was drawn.

    g_ij = 1[u_ij < p_ij],  u uniform           forward, a gate is 0 or 1
    ∂g_ij = ∂p_ij                               backward, straight through: unbiased wherever the loss is linear in
                                                the gate (`expected`); or with the slope of sigmoid(logit p + noise)
                                                (`relaxed`: the paper's kernel)
    C_h  = Σ_ij c_ij p_ij + ρ Σ_i (1 - Π_j (1 - p_ij))      what open edges are expected to cost: c for each,
                                                            ρ more for a row that opens at all

The gradient is written out, because a step spends most of its time here, and autograd would keep and read a dozen
tensors of the size of all edges where three do. With w = a g, D = ∂L/∂w and L's slope in C as λ_h,

    t_ij = β p (1 - p) (D a + λ (c + ρ Π_{k≠j} (1 - p_ik)))     what comes back to log a / θ, or to the logit
    v_ij = D w + t                      (`log-prob`)            to log a
    ∂L/∂s_ij = v - a Σ_k v_ik                                   through the softmax, a sink's share included
    ∂L/∂ log θ_h = -Σ_ij t,             ∂L/∂z_h = -Σ_i (1 - Σ_j a_ij) Σ_k v_ik
    `logit`: v = D w, and t goes to s itself and to the bias.

On a CPU a few sequences are taken at a time, so that what belongs to them stays in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .gates import Gates

IN_CACHE = 2**18
"""Edges that are looked at together on a CPU."""
CERTAIN = 1 - 1e-6  # a gate that is open for sure, as far as its logarithm goes


def drawn_weights(gates: Gates, scores: Tensor, allowed: Tensor, padded: bool) -> Tensor:
    """a_ij g_ij, [batch, head, query, key], from logits that are hopelessly low where no edge is `allowed`; the gates'
    ledger is told what they cost."""
    ledger = gates.ledger
    price = allowed.to(gates.offset)
    if ledger is not None and ledger.distance_power is not None:
        queries, keys = scores.shape[-2:]
        at = torch.arange(keys, device=scores.device)
        price = price * ((at[keys - queries :, None] - at).clamp(min=0) + 1).to(price).pow(ledger.distance_power)
    row_cost = ledger.row_cost if ledger is not None else 0.0
    drawn: Any = _Drawn
    found: tuple[Tensor, ...] = drawn.apply(scores, gates.offset, gates.sink, gates, price, row_cost, padded)
    weights, cost, opened, surely = found
    if ledger is not None:
        copies, there = len(scores) // len(allowed), allowed.any(-1).sum()
        most = (price.sum() + row_cost * there) * copies
        ledger.enter(opened, allowed, cost / most, surely)
    return weights


class _Drawn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        offset: Tensor,
        sink: Tensor | None,
        gates: Gates,
        price: Tensor,
        row_cost: float,
        padded: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        weights = torch.empty_like(scores)
        a, p = (torch.empty_like(scores, dtype=offset.dtype) for _ in range(2))
        relaxed = torch.empty_like(p) if gates.gradient == "relaxed" else None
        opened = torch.empty(scores.shape[:-1], dtype=offset.dtype, device=scores.device)
        cost, surely = torch.zeros_like(offset), torch.zeros((), dtype=torch.long, device=scores.device)
        for one in _few_sequences(scores):
            s, c = scores[one].to(offset.dtype), _of(price, one)
            plain = s.softmax(-1)
            if padded:
                plain *= c > 0
            a[one] = gates.beside_sink(s, plain)
            p[one] = gates.probability(s, a[one])
            if padded:
                p[one] *= c > 0
            u = gates.noise(p[one])
            g = u < p[one]
            weights[one] = a[one] * g
            opened[one] = g.sum(-1)
            surely += (p[one] > 0.5).sum()
            cost += (p[one] * c).sum((0, 2, 3))
            if row_cost:
                cost += row_cost * -torch.expm1(_log_shut(p[one]).sum(-1)).sum((0, 2))
            if relaxed is not None:
                limits = {"min": 1e-6, "max": 1 - 1e-6}
                relaxed[one] = torch.sigmoid(torch.logit(p[one], eps=1e-7) - torch.logit(u.clamp(**limits)))
        ctx.gates, ctx.row_cost = gates, row_cost
        ctx.save_for_backward(weights, a, p, price, relaxed)
        ctx.mark_non_differentiable(opened, surely)
        return weights, cost, opened, surely

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        by_weights, by_cost = grads[:2]
        weights, a, p, price, relaxed = ctx.saved_tensors
        gates: Gates = ctx.gates
        by_scores = torch.empty_like(weights)
        by_offset, by_sink = torch.zeros_like(gates.offset), torch.zeros_like(gates.offset)
        slope = by_cost.view(1, -1, 1, 1)
        for one in _few_sequences(weights):
            d, q = by_weights[one].to(a.dtype), p[one]
            to_cost = slope * _of(price, one)
            if ctx.row_cost:
                shut = _log_shut(q)
                to_cost = to_cost + (ctx.row_cost * slope) * (shut.sum(-1, keepdim=True) - shut).exp()
            spread = q - q.square()
            if relaxed is None:
                t = torch.addcmul(to_cost, d, a[one]).mul_(spread)
            else:
                t = torch.addcmul(spread * to_cost, d * a[one], relaxed[one] - relaxed[one].square())
            t *= gates.sharpness
            by_offset += t.sum((0, 2, 3))
            v = d * weights[one]
            if gates.form == "log-prob":
                v += t
            total = v.sum(-1, keepdim=True)
            if gates.sink is not None:
                by_sink -= ((1 - a[one].sum(-1, keepdim=True)) * total).sum((0, 2, 3))
            found = torch.addcmul(v, a[one], total, value=-1)
            by_scores[one] = found if gates.form == "log-prob" else found + t
        if gates.form == "log-prob":
            by_offset = -by_offset  # a threshold
        return by_scores, by_offset, None if gates.sink is None else by_sink, None, None, None, None


def _few_sequences(scores: Tensor) -> list[slice]:
    few = max(IN_CACHE // scores[0].numel(), 1) if scores.device.type == "cpu" else len(scores)
    return [slice(at, at + few) for at in range(0, len(scores), few)]


def _of(each: Tensor, some: slice) -> Tensor:
    """What belongs to some sequences, of something that all may share."""
    return each[some] if len(each) > 1 else each


def _log_shut(p: Tensor) -> Tensor:
    return torch.log1p(-p.clamp(max=CERTAIN))
