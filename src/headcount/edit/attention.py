"""What heads look at: their attention weights and values, read or mixed otherwise while a model runs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..models import Model
from ..models.attention import Mask, Mixed, attending_by
from ..models.gates import gated_weights, gates_of, mixed, no_interface

NAME = "headcount_attention_edges"
VisitAttention = Callable[[int, Tensor, Tensor], Tensor]
"""Layer, weights [row, head, query, key] and values [row, kv head, key, size] -> z [row, query, head, size]."""


def eager_attention(model: Model) -> AbstractContextManager[None]:
    """The attention implementation that shows its weights, for as long as the block lasts. A sparse model's own does,
    and with another one its gates would be open."""
    return nullcontext() if gates_of(model) else attending_by(model, "eager")


@torch.no_grad()
def attention_weights(model: Model, ids: Tensor) -> tuple[Tensor, ...]:
    """What every head looks at on some prompts: one tensor a layer, [row, head, query, key]. Every family has them,
    also those whose attention function cannot be swapped for one of ours."""
    with eager_attention(model):
        weights: tuple[Tensor, ...] = model.hf(input_ids=ids, output_attentions=True, use_cache=False).attentions
    return weights


@contextmanager
def visit_attention(model: Model, visit: VisitAttention) -> Iterator[None]:
    """Let `visit` mix the values by the weights in every layer, while the block lasts."""
    layer_of = {id(module): layer for layer, module in enumerate(model.anatomy.attentions)}
    visited: set[int] = set()

    def mix(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Mask, **more: Any) -> Mixed:
        weights = gated_weights(module, query, key, attention_mask, **more)
        visited.add(layer_of[id(module)])
        return visit(layer_of[id(module)], weights, value), weights

    try:
        with attending_by(model, NAME, mix):
            yield
        if len(visited) < model.n_layers:
            raise ValueError(f"{len(visited)} of its layers asked for the function")
    except ValueError as error:
        raise no_interface(model, error) from error


@dataclass(frozen=True)
class Terms:
    """Of one run: weights and values of every layer."""

    weights: list[Tensor]
    values: list[Tensor]

    @classmethod
    @torch.no_grad()
    def of(cls, model: Model, ids: Tensor) -> "Terms":
        found = cls([], [])

        def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
            found.weights.append(weights)
            found.values.append(value)
            return mixed(weights, value)

        with visit_attention(model, visit):
            model.run(ids)
        return found

    def summed(self, layer: int, share: Tensor) -> Tensor:
        """Σ_j share_ij a_ij v_j, [row, query, head, size]; `share` is [row, head, query, key]."""
        return mixed(self.weights[layer] * share, self.values[layer])

    def along(self, layer: int, direction: Tensor) -> Tensor:
        """a_ij v_j · direction_i, [row, head, query, key]; `direction` is [row, query, head, size]. A group of heads
        may share the values of a KV head."""
        value, direction = self.values[layer], direction.transpose(1, 2)
        rows, heads, queries, size = direction.shape
        dots = direction.reshape(rows, value.shape[1], -1, size) @ value.transpose(-1, -2)
        return self.weights[layer] * dots.view(rows, heads, queries, -1)
