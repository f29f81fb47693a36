"""Attribution of attention edges: what the metric loses, to first order, when one term of a head's sum is swapped.

    score_ij = (a_ij v_j - a'_ij v'_j) · dm/dz_i      at the clean run, ' for the counterfactual

Every prompt is scored on its own: that is what a token-level circuit means; unlike with heads and edges, no other
prompts are scored. In a sparse model a shut gate makes both terms zero: such edges can carry nothing, and come last.
"""

import torch
from torch import Tensor

from ..edit.attention import Terms, visit_attention
from ..meters.metrics import metric_named
from ..models import Model
from ..models.gates import mixed
from ..tasks.batches import Batch


def attention_attribution(model: Model, batch: Batch, metric: str, counterfactual: Terms | None = None) -> Tensor:
    """The score of every attention edge of a batch of pairs, [pair, layer, head, query, key]; 0 where there is none."""
    other = counterfactual or Terms.of(model, batch.corrupt)
    clean, z = Terms([], []), []

    def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
        clean.weights.append(weights.detach())
        clean.values.append(value.detach())
        z.append(mixed(weights, value))
        if not z[-1].requires_grad:  # Weights are frozen, so the graph begins at the first layer's heads.
            z[-1].requires_grad_()
        return z[-1]

    with model.frozen(), torch.enable_grad(), visit_attention(model, visit):
        total = metric_named(metric)(model.last_logits(batch.clean, batch.spots, rows=batch.rows), batch).sum()
        gradients = torch.autograd.grad(total, z)

    def along(layer: int, terms: Terms) -> Tensor:
        """a_ij v_j · dm/dz_i, [row, head, query, key]; a group of heads may share the values of a KV head."""
        value, gradient = terms.values[layer], gradients[layer].transpose(1, 2)
        rows, heads, queries, size = gradient.shape
        dots = gradient.reshape(rows, value.shape[1], -1, size) @ value.transpose(-1, -2)
        return terms.weights[layer] * dots.view(rows, heads, queries, -1)

    return torch.stack([along(layer, clean) - along(layer, other) for layer in range(len(gradients))], dim=1)
