"""Attention with a gate on every edge from a key to a query (Draye et al. 2025, arXiv 2512.05865).

    s_ij = q_i · k_j · scale                            the ordinary attention logit
    a_ij = softmax_j(s_i)_j                             the ordinary attention weight
    p_ij = sigmoid(β (s_ij + b_h))          `logit`     how likely a gate is open: by the logit and a bias a head,
         = sigmoid(β (log a_ij - log θ_h))  `log-prob`  or by the weight and a threshold a head
    g_ij ~ Bernoulli(p_ij)                  `noisy`     in training, with a straight-through gradient
         = 1[p_ij > 1/2]                    `hard`      in evaluation
         = 1                                `open`      the dense model
    o_i  = Σ_j a_ij g_ij v_j                            after the softmax, with no renormalisation

A row whose gates are all shut gives exactly zero. β = 1 in the paper. The `log-prob` form does not depend on a row's
offset, which q and k of a pretrained model leave free; its probability is a^β / (a^β + θ^β).

A softmax has to put its weight somewhere, so a head with nothing to move keeps a key open, itself or the first token.
With sinks every head can attend to nothing instead: one more logit in the softmax, z_h, that has no value and no gate,

    a_ij = exp s_ij / (exp z_h + Σ_j exp s_ij) = softmax_j(s_i)_j · sigmoid(log Σ_j exp s_ij - z_h)

and is not there while gates are `open`.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast, get_args

import torch
from torch import Tensor, nn

from ..core.errors import HeadcountError, in_short
from ..core.words import GateForm, GateGradient
from .attention import Mask, Mixed, register_attention
from .changes import changing
from .drawn_gates import drawn_weights
from .model import Model

NAME = "headcount_sparse"
GateMode = Literal["open", "hard", "noisy"]
FORMS: tuple[GateForm, ...] = get_args(GateForm)
T = TypeVar("T")
NO_SINK = -1e4  # a sink's logit, where it takes nothing


@dataclass
class Ledger:
    """What the gates of a forward pass come to, one entry a layer."""

    distance_power: float | None = None  # edges count in proportion to this power of their length; None: all alike
    row_cost: float = 0.0  # what a row's first open edge costs beyond the others, in edges
    expected: list[Tensor] = field(default_factory=list)
    """Expected share of open edges of each head, or of what they cost, [head], with gradients."""
    open: list[Tensor] = field(default_factory=list)  # open gates of each query, [batch, head, query]
    edges: list[Tensor] = field(default_factory=list)  # edges that each query has, [batch or 1, 1, query]
    surely: list[Tensor] = field(default_factory=list)
    """Edges that would be open with hard gates, where they were drawn."""
    logits: list[Tensor] = field(default_factory=list)
    """log Σ_j exp s_ij on average over queries, [head], where heads have sinks."""

    def enter(self, opened: Tensor, allowed: Tensor, cost: Tensor | None = None, surely: Tensor | None = None) -> None:
        """A layer's open gates of each query, and where they were drawn, their expected cost as a share of the most."""
        self.open.append(opened)
        self.edges.append(allowed.sum(-1))
        if cost is not None and cost.requires_grad:
            self.expected.append(cost)
        if surely is not None:
            self.surely.append(surely)


class Gates(nn.Module):
    """The gates of one attention layer: a learned offset for each head, its sink if it has one, and how gates are drawn
    at the moment."""

    def __init__(self, form: GateForm, heads: int, start: float, sharpness: float = 1.0, sinks: bool = False) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.full((heads,), float(start)))
        self.sink = nn.Parameter(torch.full((heads,), NO_SINK)) if sinks else None
        self.form, self.sharpness = form, sharpness
        # A buffer, so that a model's fingerprint tells apart gates that share their offsets and nothing else.
        self.register_buffer("kind", torch.tensor([FORMS.index(form), float(sharpness)]))
        self.mode: GateMode = "hard"
        self.gradient: GateGradient = "expected"
        self.ledger: Ledger | None = None

    def probability(self, scores: Tensor, weights: Tensor) -> Tensor:
        """That a gate is open, [batch, head, query, key]."""
        offset = self.offset.to(scores).view(1, -1, 1, 1)
        if self.form == "logit":
            return torch.sigmoid(self.sharpness * (scores + offset))
        # As 1 / (1 + (θ/a)^β) it needs no logarithm of a weight that may be zero.
        threshold = offset.exp()
        doublings = math.log2(self.sharpness)
        if doublings.is_integer() and doublings >= 0:  # by squares: a general power is the dearest part of a step
            for _ in range(int(doublings)):
                weights, threshold = weights.square(), threshold.square()
        else:
            weights = weights.clamp(min=torch.finfo(weights.dtype).tiny).pow(self.sharpness)
            threshold = threshold.pow(self.sharpness)
        return weights / (weights + threshold)

    def beside_sink(self, scores: Tensor, weights: Tensor) -> Tensor:
        """The attention weights that are left where the sink takes its share."""
        if self.sink is None:
            return weights
        total = scores.logsumexp(-1, keepdim=True)
        if self.ledger is not None:
            self.ledger.logits.append(total.detach().mean((0, 2, 3)))
        return weights * torch.sigmoid(total - self.sink.to(scores).view(1, -1, 1, 1))

    def noise(self, p: Tensor) -> Tensor:
        """Uniform; a gate is open where it lies below the gate's probability."""
        return torch.rand_like(p)


def add_gates(
    model: Model, form: GateForm, start: float, sharpness: float = 1.0, sinks: bool = False
) -> tuple[Gates, ...]:
    """Put gates into every attention layer of a model, in the mode `hard`, and attend through them from now on."""
    if form not in FORMS:
        raise HeadcountError(f"The form of the gates must be one of {', '.join(FORMS)}. Got {form!r}.")
    register_attention(NAME, _gated)
    before = model.hf.config._attn_implementation
    for attention in model.anatomy.attentions:
        device = next(attention.parameters()).device
        attention.headcount_gates = Gates(form, model.n_heads, start, sharpness, sinks).to(device)
    gates = gates_of(model)
    try:
        model.hf.set_attn_implementation(NAME)
        with torch.no_grad(), counted(gates) as ledger:
            model.run(torch.zeros((1, 2), dtype=torch.long, device=model.device))
        if len(ledger.open) != model.n_layers:
            raise ValueError(f"{len(ledger.open)} of its {model.n_layers} layers asked for the function")
    except ValueError as error:
        for attention in model.anatomy.attentions:
            del attention.headcount_gates
        model.hf.set_attn_implementation(before)
        raise no_interface(model, error) from error
    return gates


def no_interface(model: Model, reason: ValueError) -> HeadcountError:
    """What to say of a family that cannot be gated."""
    return HeadcountError(
        f"{type(model.hf).__name__} does not take its attention from transformers' AttentionInterface"
        f" ({in_short(reason, 120)}), so its attention edges cannot be touched. Families that do: gpt2, gpt_neox, opt,"
        " llama, mistral, qwen, olmo, gemma, phi."
    )


def gates_of(model: Model) -> tuple[Gates, ...]:
    """The gates of a sparse model, one module a layer; none for a dense one."""
    found = [getattr(attention, "headcount_gates", None) for attention in model.anatomy.attentions]
    return tuple(gates for gates in found if isinstance(gates, Gates))


def drawn(gates: tuple[Gates, ...], mode: GateMode) -> AbstractContextManager[GateMode]:
    """Gates in another mode, for as long as the block lasts."""
    return _having(gates, "mode", mode)


def counted(
    gates: tuple[Gates, ...], distance_power: float | None = None, row_cost: float = 0.0
) -> AbstractContextManager[Ledger]:
    """Keep account of the gates in every forward pass of the block."""
    return _having(gates, "ledger", Ledger(distance_power, row_cost))


@contextmanager
def _having(gates: tuple[Gates, ...], name: str, value: T) -> Iterator[T]:
    with changing() as changes:
        for layer in gates:
            changes.set(layer, name, value)
        yield value


def _gated(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Mask, **more: Any) -> Mixed:
    """What transformers calls in every layer."""
    weights = gated_weights(module, query, key, attention_mask, **more)
    return mixed(weights, value), weights


def gated_weights(module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, **options: object) -> Tensor:
    """a_ij g_ij, [batch, head, query, key]; a_ij alone where the module has no gates or they are open."""
    if options.get("s_aux") is not None:
        raise HeadcountError("Attention with learned sinks is not supported by the edge gates.")
    scaling, softcap = (cast(float | None, options.get(name)) for name in ("scaling", "softcap"))
    rows, kv_heads, keys, size = key.shape
    # The queries of a group stand together, so that keys need not be repeated.
    stacked = query.reshape(rows, kv_heads, -1, size) @ key.transpose(-1, -2)
    scores = stacked.view(rows, query.shape[1], -1, keys) * (size**-0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    allowed = _allowed(mask, scores)
    # A sum, and not `masked_fill`, which takes a row's mask apart and costs ten times as much.
    scores = scores + torch.zeros_like(allowed, dtype=scores.dtype).masked_fill_(
        ~allowed, torch.finfo(scores.dtype).min
    )
    gates: Gates | None = getattr(module, "headcount_gates", None)
    if gates is not None and gates.mode == "noisy":
        return drawn_weights(gates, scores, allowed, mask is not None)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * allowed  # a query with nothing to see, in the padding, carries nothing
    if gates is None or gates.mode == "open":
        return weights
    weights = gates.beside_sink(scores, weights)
    g = (gates.probability(scores, weights) > 0.5).to(weights)
    if gates.ledger is not None:
        gates.ledger.enter((g * allowed).sum(-1), allowed)
    return weights * g


def mixed(weights: Tensor, value: Tensor) -> Tensor:
    """Σ_j weight_ij v_j for every head, as transformers wants it: [batch, query, head, size]."""
    rows, heads, queries, keys = weights.shape
    stacked = weights.reshape(rows, value.shape[1], -1, keys) @ value
    return stacked.view(rows, heads, queries, -1).transpose(1, 2)


def _allowed(mask: Tensor | None, scores: Tensor) -> Tensor:
    """Which edges there are, [batch or 1, 1, query, key]: by sdpa's mask, or plainly causal."""
    queries, keys = scores.shape[-2:]
    if mask is None:
        at = torch.arange(keys, device=scores.device)
        return (at <= at[keys - queries :, None])[None, None]
    mask = mask[..., :keys]
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
