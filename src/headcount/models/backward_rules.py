"""Other backward passes through the same forward: rules by which a nonlinearity hands gradients on.

    norm        gain · centred(x) / stopgrad(scale(x)) + bias                                  attnlrp, relp, gim
    gated MLP   the two factors of act(g) · u get half of their gradient each                  attnlrp, relp, gim
    activation  x · stopgrad(act(x) / x); at x = 0 it hands on nothing                         attnlrp, relp
    attention   the two factors of a product get half each, of p · v and of q · k,
                so that a value gets 1/2, a query and a key 1/4                                attnlrp, gim
    softmax     of scores s: τ (g - Σ g τ) in the place of p (g - Σ g p), τ = softmax(s / 2)   gim

AttnLRP is Achtibat et al. 2024 (arXiv 2402.05602), RelP is Rezaei Jafari et al. 2025 (arXiv 2508.21258; as its authors
run it, with nothing special for attention), GIM is Edin et al. 2025 (arXiv 2505.17630). Whatever has no rule, softmax
and capped logits included, has its true derivative.

Hooks hand on what modules give as it is, so that the forward pass stays the same bit for bit, and change gradients on
their way back. Those of norms and activations run before all other hooks of their modules.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers.activations import ACT2CLS

from ..core.errors import HeadcountError, require_known
from ..core.words import BackwardRule, Readers
from .changes import EndingMode, changing, own_block
from .families import FAMILIES
from .gates import gated_weights, mixed
from .model import Model
from .norms import NormParts
from .wiring import LayerWiring, find_wiring, has_edges

Rule = Callable[..., tuple[Tensor | None, ...]]
"""(gradient of the output, *inputs) -> a gradient for each input, or none."""
SHARES = {"q": 0.25, "k": 0.25, "v": 0.5}  # of its gradient, what each role of an attention gets
ACTIVATIONS = tuple(cast(type, entry[0] if isinstance(entry, tuple) else entry) for entry in ACT2CLS.values())
SOFTMAXES = (nn.functional.softmax, torch.softmax, Tensor.softmax)


@dataclass(frozen=True)
class _Rules:
    """Beside frozen norms and halved gates, which all have."""

    activations: bool  # whether they count as linear
    attention: bool  # whether its two products are halved
    temperature: float | None = None  # of the softmax, backward


RULES: dict[BackwardRule, _Rules] = {
    "attnlrp": _Rules(activations=True, attention=True),
    "relp": _Rules(activations=True, attention=False),
    "gim": _Rules(activations=False, attention=True, temperature=2.0),
}


def no_edges(model: Model) -> HeadcountError:
    """What to say of a family that no rule can be followed in."""
    return HeadcountError(
        f"Backward rules must know the MLPs and projections of a model, and the family {model.anatomy.model_type!r}"
        " is registered without edges. Use 'attribution', or register it with headcount.Family(edges=…)."
    )


@own_block
def backward_rules(model: Model, rule: BackwardRule, readers: Readers = "kv-heads") -> Iterator[None]:
    """Let gradients of activations follow a rule while the block lasts; those of weights are not meant. `readers` are
    those for which the model has been made ready, where it has been."""
    require_known(rule, RULES, "backward rule")
    if not has_edges(model):
        raise no_edges(model)
    rules, wiring = RULES[rule], find_wiring(model, readers, readied=True)
    family = FAMILIES[model.anatomy.model_type]
    like, known = cast(Tensor, model.unembedding.weight), {norm.module: norm for norm in wiring.norms()}
    with changing() as changes:
        after = changes.after
        for module in (*model.hf.get_submodule(family.layers).modules(), wiring.final_norm.module):
            if type(module).__name__.endswith("Norm"):
                after(module, partial(_freeze, known.get(module) or NormParts.probe(module, like)), first=True)
            elif rules.activations and isinstance(module, ACTIVATIONS):
                after(module, _make_linear, first=True)
        for layer in wiring.layers:
            if family.edges is not None and family.edges.gated:
                # Behind the product all is linear, norms included: half of what comes in there is half at the product.
                after(layer.mlp_out, partial(_scale_gradient, torch.tensor(0.5)), first=False)
            for module in layer.modules if rules.attention else ():
                after(module, partial(_scale_gradient, _shares(layer, module)), first=False)
            if rules.temperature is not None:
                own = layer.attention.forward
                changes.instead(layer.attention, partial(_attend, own, rules.temperature))
        yield


def following(model: Model, rule: BackwardRule | None, readers: Readers = "kv-heads") -> AbstractContextManager[None]:
    """The same, or plain gradients where there is no rule."""
    return nullcontext() if rule is None else backward_rules(model, rule, readers)


# ---------------------------------------------------------------------------------------------------------------------
# One backward pass in another's place


class _Instead(torch.autograd.Function):
    """Hands on an output as it is, with a rule for the gradients of its inputs."""

    @staticmethod
    def forward(ctx: Any, rule: Rule, output: Tensor, *inputs: Tensor) -> Tensor:
        ctx.rule = rule
        ctx.save_for_backward(*inputs)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.rule(*gradients, *ctx.saved_tensors)


def _instead(rule: Rule, output: Tensor, *inputs: Tensor) -> Tensor:
    """The output, leading back to its inputs by a rule; as it was where no gradient leads back to them."""
    if not output.requires_grad or not any(value.requires_grad for value in inputs):
        return output
    return cast(Tensor, _Instead.apply(rule, output.detach(), *inputs))  # type: ignore[no-untyped-call]


def _freeze(norm: NormParts, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return _instead(lambda gradient, x: (norm.pull_back(gradient, x, held=True),), output, args[0])


def _make_linear(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    def rule(gradient: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor | None, ...]:
        return gradient * (y / x).masked_fill_(x == 0, 0), None

    return _instead(rule, output, args[0], output.detach())


# ---------------------------------------------------------------------------------------------------------------------
# Products


def _scale_gradient(share: Tensor, module: nn.Module, args: object, output: Tensor) -> Tensor:
    """The model goes on with a copy, whose gradient is scaled on its way back: OLMo clips queries in place."""
    if not output.requires_grad:
        return output
    copy = output.clone()
    copy.register_hook(lambda gradient: gradient * share.to(gradient))
    return copy


def _shares(layer: LayerWiring, module: nn.Module) -> Tensor:
    """What each output feature of a projection gets of its gradient, [feature]."""
    own = {role: projection.rows.index for role, projection in layer.projections.items() if projection.module is module}
    shares = torch.empty(sum(index.numel() for index in own.values()))
    for role, index in own.items():
        shares[index] = SHARES[role]
    return shares


# ---------------------------------------------------------------------------------------------------------------------
# Softmax


def _attend(own: Callable[..., object], temperature: float, *args: Any, **kwargs: Any) -> object:
    """In an attention's place: its own forward, with another softmax backward."""
    with _Tempered(temperature):
        return own(*args, **kwargs)


class _Tempered(EndingMode):
    """Catches every softmax, written out or inside of torch's attention kernels, however a family calls it."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        output = func(*args, **options)
        if self.over:
            return output
        if func in SOFTMAXES:
            return _instead(self._softmax, output, args[0])
        if func is nn.functional.scaled_dot_product_attention:
            rule = partial(self._attention, options.get("attn_mask"), options.get("scale"))
            return _instead(rule, output, *args[:3])
        return output

    def _softmax(self, gradient: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
        weights = (scores.to(gradient) / self.temperature).softmax(-1)
        return ((weights * (gradient - (gradient * weights).sum(-1, keepdim=True))).to(scores),)

    def _attention(
        self, mask: Tensor | None, scale: float | None, gradient: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        """A kernel does not show its softmax: the same attention again, written out."""
        query, key, value = again = [tensor.detach().requires_grad_() for tensor in inputs]
        with torch.enable_grad(), _Tempered(self.temperature):
            z = mixed(gated_weights(nn.Module(), query, key, mask, scaling=scale), value).transpose(1, 2)
        return torch.autograd.grad(z, again, gradient)
