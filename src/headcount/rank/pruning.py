"""Edge Pruning (Bhaskar et al. 2024, arXiv 2406.16778): edges learn to be closed until a target share of them is.

Every edge has a hard-concrete gate (Louizos et al. 2018), which is drawn anew in every update,

    z = clamp(1.2 σ((ln u - ln(1 - u) + a) / (2/3)) - 0.1, 0, 1)        u ~ U(0, 1), a = θ, open at first

and the loss is the divergence from the whole model's prediction, with the share s of closed edges held to a target t
that rises, by two multipliers that climb while θ descends:

    loss = KL(whole || circuit) + λ₁ (s - t) + λ₂ (s - t)²        s = mean over edges of P(z = 0)

One run gives one circuit of about the target's size; as a ranking, a is best there and weak far from it.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..models import Model
from ..tasks.examples import Pair
from .fit import Pruning, fit_for
from .learned import edge_examples
from .method import Request
from .training import Training

TEMPERATURE, STRETCH, LOWEST = 2 / 3, 1.2, -0.1
SHIFT = TEMPERATURE * math.log(-LOWEST / (STRETCH + LOWEST))
"""A gate is 0 with probability σ(SHIFT - a)."""
OPEN = 2.0
"""The first a: most gates are open, and many of them have a gradient. (The paper's 10 leaves one of thousands a
gradient, and takes thousands of updates.)"""
PAPER_UPDATES = 3000
"""In fewer updates the multipliers climb as far, by larger steps."""
RISING = 5 / 6
"""Of the updates, in which the target rises; in the others it stays."""


def edge_pruning(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    """a of the edges, mean over seeds, [writer, reader]; the lowest is 0."""
    fit = fit_for("edge-pruning", request.fit)
    assert isinstance(fit, Pruning)
    examples = edge_examples(model, pairs, request, fit)
    places = examples.real.flatten().nonzero()[:, 0]
    start = torch.full((fit.seeds, len(places) + 2), OPEN, device=model.device)
    start[:, -2:] = 0  # λ₁ and λ₂
    found = _HardConcrete(model, examples, request, fit, places).run(start)[:, :-2].mean(0)
    return torch.zeros(examples.real.numel()).index_copy(0, places, found - found.min()).view(examples.real.shape)


class _HardConcrete(Training[Pruning]):
    """θ are the gates' a, and the two multipliers behind them."""

    name = "edge-pruning"

    def masks(self, theta: Tensor, update: int) -> Tensor:
        rng = torch.Generator().manual_seed((self.request.seed << 32) + update)
        drawn = torch.rand(theta[:, :-2].shape, generator=rng, dtype=torch.float64).clamp(1e-6, 1 - 1e-6)
        noise = drawn.logit().to(theta)
        gates = (STRETCH * ((noise + theta[:, :-2]) / TEMPERATURE).sigmoid() + LOWEST).clamp(0, 1)
        return self.spread(gates)

    def penalty(self, theta: Tensor, masks: Tensor, update: int) -> Tensor:
        closed = (SHIFT - theta[:, :-2]).sigmoid().mean(1)
        more = closed - self.fit.target * min((update + 1) / (RISING * self.fit.updates), 1)
        climbing = theta[:, -2:] * (PAPER_UPDATES / self.fit.updates)
        climbing = 2 * climbing.detach() - climbing  # the same numbers, with the gradient turned round
        return climbing[:, 0] * more + climbing[:, 1] * more.square()
