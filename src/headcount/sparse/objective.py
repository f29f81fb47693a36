"""Few open edges under a bound on what is lost (GECO: Rezende and Viola 2018, arXiv 1810.00597).

    minimise  R  subject to  D_i ≤ tolerance_i        R: expected share of open edges, or its logarithm, or the
                                                      mean over heads of the logarithm of each head's
    by        R + Σ_i λ_i (D_i - tolerance_i)         over the weights and offsets,
    with      log λ_i = Σ_steps η · violation_i + κ · violation_i    smoothed; κ damps the swings that η alone has

D is what is lost against the dense model on the same tokens: loss - dense loss, KL(dense ‖ sparse) or a mix of both,
on average over all tokens or over those of each source, and on average over the tokens that lose most. A mean over
ordinary text hides what the text rarely asks for (a name from three lines above, once a page); the tail is made of just
that. A mean over all sources lets one pay for another, which bounds of their own do not.

On a ladder of twins the two change places: D is made small under a bound on the logarithm of the share of open edges,
as gates are in evaluation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .recipe import Recipe

LOWEST, HIGHEST = -3.0, 8.0  # between which the logarithm of a multiplier stays
DAMPING = 1.5
"""κ. A multiplier that only adds up answers late: edges go on being shut long after the bound is broken, then opened
long after it is kept again."""
IN_CACHE = 2**19
"""Logits that are looked at together."""
SHUT = 1e-4  # share of open edges below which a head counts as shut, and a smaller one is no longer worth much
LEAST_SCALE = 0.01  # violations of what is lost are relative to the tolerance, or to this where it is smaller
SLACK = 0.1  # how far the logarithm of a share is below its ceiling when nothing pulls it down any more
OPEN = "open"
"""The bound on the share of open edges."""


@dataclass
class Bound:
    """One bound with its multiplier, which grows while it is broken and shrinks while there is slack."""

    name: str
    tolerance: float
    speed: float
    smoothing: float
    log_multiplier: float
    scale: float  # violations are relative to it
    smoothed: float = 0.0
    updates: int = 0
    lost: float = 0.0  # what is bounded, when it was last seen

    @property
    def violation(self) -> float:
        """Smoothed, from -1 to 1."""
        return self.smoothed / (1 - self.smoothing**self.updates) if self.updates else 0.0

    @property
    def multiplier(self) -> float:
        return math.exp(min(max(self.log_multiplier + DAMPING * self.violation, LOWEST), HIGHEST))

    def update(self, lost: float) -> None:
        self.lost = lost
        violation = min(max((lost - self.tolerance) / self.scale, -1.0), 1.0)
        self.smoothed = self.smoothing * self.smoothed + (1 - self.smoothing) * violation
        self.updates += 1
        self.log_multiplier = min(max(self.log_multiplier + self.speed * self.violation, LOWEST), HIGHEST)


@dataclass
class Ceiling(Bound):
    """The bound on the share of open edges, whose multiplier ends where there is some slack: the logarithm of a share
    falls as readily at any share, and what is lost may hardly hold it up."""

    @property
    def multiplier(self) -> float:
        return super().multiplier * min(max(1 + self.violation / SLACK, 0.0), 1.0)


def bounds_of(recipe: Recipe, sources: Sequence[str]) -> list[Bound]:
    """On the mean, or on that of each source; then on the tail. On a ladder, on the share of open edges alone."""
    if recipe.target_open:
        first = math.log(recipe.target_open[0]), recipe.multiplier_speed, recipe.smoothing
        return [Ceiling(OPEN, *first, -math.log(recipe.first_multiplier), scale=1.0)]
    names = [f"source {name}" for name in sources] if recipe.by_source else ["mean"]
    tolerances = dict.fromkeys(names, recipe.tolerance) | ({"tail": recipe.tail_tolerance} if recipe.tail else {})
    same = recipe.multiplier_speed, recipe.smoothing, math.log(recipe.first_multiplier)
    return [Bound(name, at, *same, max(at, LEAST_SCALE)) for name, at in tolerances.items()]


class _Lost(torch.autograd.Function):
    """Loss and KL(dense ‖ sparse) of every token, with one softmax of each model.

    loss = lse(q) - q_y,    KL = Σ_v P_v (d_v - q_v) - lse(d) + lse(q)    for logits q (sparse) and d (dense)
    d loss / dq = Q - 1_y,  d KL / dq = Q - P                             Q = softmax(q), P = softmax(d)

    A few tokens at a time, so that what is as wide as the vocabulary stays in the cache; the logits themselves are all
    that is kept in between.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, dense_logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        loss, dense, divergence = (torch.empty(len(logits), device=logits.device) for _ in range(3))
        for few in _few_tokens(logits):
            q, d, y = logits[few].float(), dense_logits[few].float(), targets[few, None]
            lse, dense_lse = q.logsumexp(-1), d.logsumexp(-1)
            loss[few], dense[few] = lse - q.gather(1, y)[:, 0], dense_lse - d.gather(1, y)[:, 0]
            apart = d - q
            divergence[few] = torch.linalg.vecdot((d - dense_lse[:, None]).exp_(), apart) - dense_lse + lse
        ctx.save_for_backward(logits, dense_logits, targets)
        ctx.mark_non_differentiable(dense)
        return loss, dense, divergence

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        loss_grad, _, divergence_grad = grads
        logits, dense_logits, targets = ctx.saved_tensors
        found = torch.empty_like(logits)
        for few in _few_tokens(logits):
            by_loss, by_divergence = loss_grad[few, None], divergence_grad[few, None]
            grad = logits[few].float().softmax(-1).mul_(by_loss + by_divergence)
            grad.addcmul_(dense_logits[few].float().softmax(-1), by_divergence, value=-1)
            found[few] = grad.scatter_add_(1, targets[few, None], -by_loss)
        return found, None, None


def _few_tokens(logits: Tensor) -> list[slice]:
    few = max(IN_CACHE // logits.shape[1], 1)
    return [slice(at, at + few) for at in range(0, len(logits), few)]


@dataclass(frozen=True)
class Losses:
    """Of one batch; the first two are means over tokens, the last is one number per token, with gradients."""

    loss: Tensor
    dense: Tensor
    lost: Tensor  # [sequence, token]

    @classmethod
    def of(cls, logits: Tensor, dense_logits: Tensor, ids: Tensor, kl: float) -> "Losses":
        """From logits at every position of `ids`; what the last position says of each row has no token to meet."""
        targets = ids.roll(-1, dims=1).flatten()
        lost: Any = _Lost
        found: tuple[Tensor, ...] = lost.apply(logits.flatten(0, 1), dense_logits.flatten(0, 1), targets)
        loss, dense, divergence = (each.view(ids.shape)[:, :-1].contiguous() for each in found)
        return cls(loss.mean(), dense.mean(), (1 - kl) * (loss - dense) + kl * divergence)

    def tail(self, share: float) -> Tensor:
        """The mean over the tokens that lose most."""
        return self.lost.flatten().topk(max(round(share * self.lost.numel()), 1)).values.mean()

    def bounded(self, recipe: Recipe, source: Tensor, sources: int) -> list[tuple[Tensor, float]]:
        """What each of `bounds_of` bounds, and of which share of the batch it is the mean: of nothing for a source that
        is not in the batch. `source`: of each sequence."""
        tail = [(self.tail(recipe.tail), 1.0)] if recipe.tail else []
        if not recipe.by_source:
            return [(self.lost.mean(), 1.0), *tail]
        by_sequence, counts = self.lost.mean(1), torch.bincount(source, minlength=sources).tolist()
        means = [by_sequence[source == at].sum() / max(count, 1) for at, count in enumerate(counts)]
        return [*((mean, count / len(source)) for mean, count in zip(means, counts, strict=True)), *tail]


def regulariser(expected: list[Tensor], recipe: Recipe) -> Tensor:
    """From the expected shares of the heads of each layer."""
    shares = torch.stack([layer.to(expected[0].device) for layer in expected])
    if recipe.regulariser == "log-heads":
        return (shares + SHUT).log().mean()
    return shares.mean().log() if recipe.regulariser == "log" else shares.mean()
