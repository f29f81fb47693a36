"""Learned rankings of attention edges: as `learned.py` has it, but every prompt trains scores of its own.

An order of attention edges belongs to one prompt, so there are no others to train on: the scores of a prompt are fitted
to that prompt, as its attribution is taken from it. Every update draws a budget for every prompt, from the seed and the
prompt itself, and keeps the soft top k of its edges; the prompts of a batch share passes and nothing else.
"""

import math
import random

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.provenance import Facts
from ..edit.attention import visit_attention
from ..edit.attention_fills import FilledTerms
from ..meters.attention_edges import real_edges
from ..meters.meter import Advance, silent
from ..meters.metrics import Reference, measure_all
from ..models import Model
from ..models.gates import mixed
from ..tasks.batches import Batch
from .descent import Schedule, checkpoint_of, descend
from .fit import Learning
from .soft_top import soft_top
from .training import shortfall

NEVER = -1e4  # the score of what is no edge, which no budget reaches


def learned_attention(
    model: Model,
    batch: Batch,
    metric: str,
    fill: FilledTerms,
    first: Tensor,
    *,
    fit: Learning,
    facts: Facts,
    advance: Advance = silent,
) -> Tensor:
    """Scores of every attention edge of a batch of pairs, [pair, layer, head, query, key], trained from the order of
    the `first` ones, largest first. `facts` are what `fill` and the seed depend on."""
    real = real_edges(batch).expand_as(first)
    places = first.masked_fill(~real, -torch.inf).flatten(1).argsort(dim=1, descending=True, stable=True)
    ranks = torch.arange(1.0, places.shape[1] + 1, device=first.device).log().neg().expand_as(places)
    start = torch.empty_like(ranks).scatter_(1, places, ranks).masked_fill(~real.flatten(1), NEVER)
    counts = real.flatten(1).sum(1).tolist()
    sides, ends = {"clean": batch.clean, "corrupt": batch.corrupt}, (batch.last + 1).tolist()
    prompts = {side: [row[:end] for row, end in zip(ids.tolist(), ends, strict=True)] for side, ids in sides.items()}

    def logits(mask: Tensor) -> Tensor:
        def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
            return mixed(weights * mask[:, layer], value) + fill.summed(layer, 1 - mask[:, layer])

        with visit_attention(model, visit):
            return model.last_logits(batch.clean, batch.spots, rows=batch.rows)

    with torch.no_grad():
        whole = logits(torch.ones_like(first))
        wanted, uncut = measure_all(whole, batch, (metric,), None)[metric][0], Reference.of(whole)
        none = measure_all(logits(torch.zeros_like(first)), batch, (metric,), None)[metric][0]
        side = (wanted - none).sign()

    def losses(mask: Tensor) -> Tensor:
        found = measure_all(logits(mask), batch, (metric,), uncut if fit.loss == "kl" else None)
        return found["kl"][0] if fit.loss == "kl" else shortfall((wanted - found[metric][0]) * side, fit.loss)

    def update(theta: Tensor, adam: torch.optim.Adam, number: int, active: list[int]) -> Tensor:
        drawn = [random.Random(f"{facts['seed']} {ids} {number}").random() for ids in prompts["clean"]]
        budgets = [math.exp(share * math.log(count)) for share, count in zip(drawn, counts, strict=True)]
        adam.zero_grad()
        with torch.enable_grad(), model.frozen():
            shares = soft_top(theta, torch.tensor(budgets, device=theta.device), fit.temperature_at(number))
            found = losses(shares.view_as(first))
            found.sum().backward()
        if not bool(found.isfinite().all()):
            raise HeadcountError(f"The loss of a learned ranking is not a finite number at update {number + 1}.")
        adam.param_groups[0]["lr"] = fit.learning_rate(number)
        adam.step()
        return found.detach().cpu()

    more: Facts = {"metric": metric, "first": places[:, :64].tolist(), "fit": fit.facts(), "stage": "attention"}
    checkpoint = checkpoint_of(model, {**prompts, **facts, **more})
    theta, _ = descend(checkpoint, "learned", start, update, Schedule(fit.updates, 2 * len(batch), advance))
    checkpoint.path.unlink(missing_ok=True)
    return theta.to(first).view_as(first)
