"""A soft choice of the top k: every unit gets a share from 0 to 1, the shares add up to k, larger scores get more.

    m_i = σ((s_i - τ) / T)        τ such that Σ m_i = k

τ is found by bisection, and the gradient goes through it by implicit differentiation: with w_i = m_i (1 - m_i), more of
one unit means less of the others,

    dL/ds_j = w_j / T · (g_j - Σ g_i w_i / Σ w_i)        g = dL/dm

(the mask of Matryoshka attribution, Arora 2026). As T falls, the shares become the hard top k.
"""

from typing import Any

import torch
from torch import Tensor

TEMPERATURE = 0.5
STEPS = 60
"""Of the bisection: enough for the last bit of float64 over any spread of scores that can occur."""


def soft_top(scores: Tensor, k: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Shares of the units, [row, unit], for scores [row, unit] and one k a row."""
    shares: Tensor = _SoftTop.apply(scores, k, temperature)  # type: ignore[no-untyped-call]
    return shares


class _SoftTop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, k: Tensor, temperature: float) -> Tensor:
        exact, wanted = scores.double(), k.double()[:, None]
        # Beyond these ends all shares are 0 or 1 to the last bit.
        low = exact.amin(1, keepdim=True) - 40 * temperature
        high = exact.amax(1, keepdim=True) + 40 * temperature
        for _ in range(STEPS):
            middle = (low + high) / 2
            too_many = ((exact - middle) / temperature).sigmoid().sum(1, keepdim=True) > wanted
            low, high = torch.where(too_many, middle, low), torch.where(too_many, high, middle)
        shares = ((exact - (low + high) / 2) / temperature).sigmoid()
        ctx.save_for_backward(shares)
        ctx.temperature = temperature
        return shares.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (shares,) = ctx.saved_tensors
        (gradient,) = gradients
        weights = shares * (1 - shares)
        exact = gradient.double()
        mean = (exact * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp(min=1e-12)
        return (weights / ctx.temperature * (exact - mean)).to(gradient.dtype), None, None
