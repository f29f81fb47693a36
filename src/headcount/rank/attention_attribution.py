"""Attribution of attention edges: what the metric loses, to first order, when one term of a head's sum is swapped.

    score_ij = (a_ij v_j - f_ij) · dm/dz_i      at the clean run, f_ij being what fills the edge

With counterfactual fill f_ij is a'_ij v'_j, the term of the counterfactual run; with zero fill 0; with mean fill the
mean term (`edit/attention_fills.py`).

Every prompt is scored on its own: that is what a token-level circuit means; unlike with heads and edges, no other
prompts are scored. In a sparse model a shut gate makes a term zero. Shut on both prompts, or with zero fill on the one,
an edge can carry nothing, and comes last.
"""

import torch
from torch import Tensor

from ..edit.attention import Terms, visit_attention
from ..edit.attention_fills import FilledTerms
from ..meters.metrics import metric_named
from ..models import Model
from ..models.gates import mixed
from ..tasks.batches import Batch


def attention_attribution(model: Model, batch: Batch, metric: str, fill: FilledTerms | None = None) -> Tensor:
    """The score of every attention edge of a batch of pairs, [pair, layer, head, query, key]; `fill` is what removed
    edges carry, by default the terms of the counterfactual run; 0 where there is no edge."""
    filled = Terms.of(model, batch.corrupt) if fill is None else fill
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

    layers = range(len(gradients))
    return torch.stack([clean.along(i, gradients[i]) - filled.along(i, gradients[i]) for i in layers], dim=1)
