"""Backward rules as papers write them, with stopgrad inside the forward: what `backward_rules` is held against.

Nothing here knows of hooks on projections or of autograd functions. Norms and activations are written out, products are
halved where they are made, and attention is the eager one, whose matrix products and softmax are torch's own.
"""

from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import nn
from transformers.activations import ACT2CLS

from headcount.models.attention import attending_by
from headcount.models.changes import stand_in

ACTIVATIONS = tuple(entry[0] if isinstance(entry, tuple) else entry for entry in ACT2CLS.values())


def half(product):
    """Both factors of a product get half of their gradient."""
    return product / 2 + (product / 2).detach()


def frozen_norm(module, x):
    name = type(module).__name__
    centred = x - x.mean(-1, keepdim=True) if "LayerNorm" in name else x
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", 1e-5))
    scale = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    weight, bias = getattr(module, "weight", torch.ones(())), getattr(module, "bias", None)
    normed = centred / scale.detach() * (1 + weight if "Gemma" in name else weight)
    return normed if bias is None else normed + bias


def linear(activation, x):
    return x * (activation(x) / x).detach()


def softmax_at_two(softmax, x, dim=-1, dtype=None):
    """2 softmax(x / 2) has the gradient that GIM gives a softmax."""
    surrogate = 2 * softmax(x / 2, dim=dim, dtype=dtype)
    return softmax(x, dim=dim, dtype=dtype).detach() + surrogate - surrogate.detach()


@contextmanager
def stop_gradients(model, rule, monkeypatch):
    with ExitStack() as stack, monkeypatch.context() as patch:
        for module in model.hf.modules():
            if type(module).__name__.endswith("Norm"):
                stack.enter_context(stand_in(module, partial(frozen_norm, module)))
            elif isinstance(module, ACTIVATIONS) and rule != "gim":
                stack.enter_context(stand_in(module, partial(linear, module.forward)))
            if hasattr(module, "down_proj"):
                down = module.down_proj
                stack.enter_context(stand_in(down, lambda product, own=down.forward: own(half(product))))
        if model.hf.config.model_type != "gptj":  # it is always eager
            stack.enter_context(attending_by(model, "eager"))
        if rule != "relp":
            matmul = torch.matmul
            patch.setattr(torch, "matmul", lambda a, b: half(matmul(a, b)))
        if rule == "gim":
            patch.setattr(nn.functional, "softmax", partial(softmax_at_two, nn.functional.softmax))
        yield
