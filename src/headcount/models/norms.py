"""LayerNorm and RMSNorm taken apart, whatever a family calls their parameters.

    norm(x) = gain * centred(x) / scale(x) + bias,    scale(x)² = mean of centred(x)² + eps

where RMSNorm does not centre and has no bias. Given the scale, a norm is linear, so a term of a sum has a share in the
norm of the sum. An `nn.Identity` in a norm's place (compiled programs have no norms) is one that divides by 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from ..core.errors import HeadcountError

SAME = 0.02
"""How far a norm may be from its parts: bfloat16 rounds to 1 in 256, and gains are found by a difference."""


@dataclass(frozen=True)
class NormParts:
    """The linear part of a norm, found by trying it out."""

    module: nn.Module
    gain: Tensor
    bias: Tensor
    eps: float
    centres: bool
    forward: Callable[[Tensor], Tensor]
    """Its own, or what a user has put in the place of it on this module alone."""
    divides: bool = True  # False of an identity, whose scale is 1

    @classmethod
    @torch.no_grad()
    def probe(cls, module: nn.Module, like: Tensor) -> "NormParts":
        """±1 in turn has mean 0 and variance 1, so a norm answers with ±gain + bias. `like` is the unembedding."""
        forward = module.forward
        if isinstance(module, nn.Identity):
            gain = torch.ones_like(like[0])
            return cls(module, gain, torch.zeros_like(gain), eps=0.0, centres=False, forward=forward, divides=False)
        like = next(module.parameters(), like)  # OLMo's norm has no parameters of its own
        signs = torch.ones(_width(module), dtype=like.dtype, device=like.device)
        signs[1::2] = -1
        big, small = 1e4, 1e-3  # large and small against the norm's epsilon
        # Ones are small too: in half precision a large constant drowns in its own square.
        tried = torch.stack([big * signs, -big * signs, torch.ones_like(signs), small * signs])
        up, down, constant, shrinking = module(tried)
        gain, bias = (up - down) / 2 * signs, (up + down) / 2
        centres = bool((constant - bias).norm() < 0.5 * gain.norm())  # 0 if it centres, else the norm of the gain
        # At ±δ the norm divides by sqrt(δ² + eps).
        shrunk = float((shrinking - bias).norm() / gain.norm())
        eps = max(small**2 * (1 / shrunk**2 - 1), 0.0) if shrunk > 0 else 0.0
        found = cls(module, gain, bias, eps=eps, centres=centres, forward=forward)
        found._require_whole(signs)
        return found

    def own(self, x: Tensor) -> Tensor:
        """The norm itself, also while something else stands in for the module."""
        return self.forward(x)

    def _require_whole(self, signs: Tensor) -> None:
        """Refuse a function that is more than its parts say: edges would be scored and cut as if it were a norm."""
        x = 3 * signs.cumsum(0).add(wave(len(signs)).to(signs)) + 1
        by_parts = self.gain * self.centred(x) / self.scale(x) + self.bias
        if not all(nearly(by_parts, own) for own in (self.module(x), self.own(x))):  # with its hooks, and without
            raise HeadcountError(
                f"Edges need norms that are LayerNorm or RMSNorm, and a {type(self.module).__name__} of this model is"
                " neither: was its forward changed? Heads work."
            )

    def share(self, part: Tensor, whole: Tensor) -> Tensor:
        """What `part` [..., term, d_model] becomes in the norm of `whole` [..., d_model], of which it is a term."""
        return torch.div(self.gain * self.centred(part), self.scale(whole)[..., None, None])

    def pull_back(self, gradient: Tensor, x: Tensor, held: bool = False) -> Tensor:
        """J^T g, J being the Jacobian at x: (1/s) (γ·g - mean(γ·g) - x̂ (x̂ · γ·g) / d), with no mean in RMSNorm;
        where the scale is `held`, without the last term. (Centring is its own transpose.)"""
        scale = self.scale(x)[..., None]
        pulled = self.centred(self.gain * gradient)
        if self.divides and not held:
            unit = self.centred(x) / scale
            pulled = pulled - unit * ((unit * pulled).sum(-1, keepdim=True) / x.shape[-1])
        return pulled / scale

    def scale(self, x: Tensor) -> Tensor:
        """What the norm divides by, [...]."""
        if not self.divides:
            return x.new_ones(x.shape[:-1])
        squares = torch.linalg.vector_norm(self.centred(x), dim=-1).square()
        return torch.sqrt(squares / x.shape[-1] + self.eps)

    def centred(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if self.centres else x


@cache
def wave(width: int) -> Tensor:
    """Numbers to try things out on, made once: a sine costs as much as a small layer."""
    return torch.arange(width, device="cpu").mul(0.7).sin()


def nearly(wanted: Tensor, found: Tensor) -> bool:
    wanted, found = wanted.float(), found.float()
    return wanted.shape == found.shape and bool((wanted - found).abs().max() <= SAME * wanted.abs().max())


def _width(module: nn.Module) -> int:
    shape = getattr(getattr(module, "weight", None), "shape", None) or getattr(module, "normalized_shape", None)
    if not shape:
        raise HeadcountError(f"The width of the norm {type(module).__name__} was not found.")
    return int(shape[-1])
