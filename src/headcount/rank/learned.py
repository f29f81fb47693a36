"""Learned rankings (Matryoshka attribution, Arora 2026): one score per unit, trained so that the top k do the task.

Every update draws a budget k, log-uniform from 1 to all units, so that small circuits count as much as large ones. The
soft top k of the scores (`soft_top.py`) is kept, all else carries the fill, and the loss is how far the metric then is
from the whole model's, prompt by prompt: |1 - f| (`training.py`). It rises on both sides of the whole model, so units
that overshoot are no better than units that are missing. The other losses of `Learning` are there on request.

The scores begin at minus the logarithm of a unit's rank by one-pass attribution, in the signed or the absolute order,
whichever is nearer to the whole model: an update then moves a unit by a share of its rank, at every budget.

Soft masks are trained and hard ones are meant. So the choice of the top k hardens from update to update: scores that
were trained with soft masks alone explain the task with them, and less of it with hard ones. And where a model switches
rather than slides, what half of a unit does says nothing of the whole one; and where a task needs tens of thousands of
units, most of them have hardly been learned. So the learned order is held against the one it began with, under hard
masks on the train prompts: its first units are taken, as many as bring the metric nearer to the whole model's, and the
others stand as they stood at the beginning. Learning never makes it worse there.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..meters import CircuitMeter, HeadMeter, Room
from ..meters.metrics import OF_PAIRS, measured
from ..models import Model
from ..models.wiring import find_graph
from ..tasks.examples import Example, Pair, pairs_only
from .edge_attribution import eap, eap_ig
from .fit import Learning, Trained, fit_for
from .gradients import attribution, attribution_ig
from .method import Request
from .soft_top import soft_top
from .training import Examples, Training

TRIED = 8
"""Budgets at which the two orders to begin with are compared."""
BYTES = 2**28
"""What writers wrote and the gradient at it may take in an update over edges."""


def learned(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """Scores of heads of every seed, [seed, layer, head]."""
    fit, fill = fit_for("learned", request.fit), request.filler.fill
    assert isinstance(fit, Learning)
    if fit.loss == "kl" and measured(examples) != OF_PAIRS:
        raise HeadcountError("The loss 'kl' needs pairs of prompts, and this task has targets only. Use 'distance'.")
    silent = replace(request, advance=lambda n: None)
    if fill.kind == "counterfactual":
        first = attribution_ig(model, pairs_only(examples, "A path between prompts"), silent)
    else:
        first = attribution(model, examples, silent)

    def meter(some: Sequence[Example]) -> HeadMeter:
        most, where = request.max_tokens, request.positions
        return HeadMeter(model, some, request.filler, positions=where, max_tokens=most)

    real = torch.ones(model.n_layers, model.n_heads, dtype=torch.bool)
    ready = Examples(examples, fit.batch, meter, request.metric, real)
    return ranking(model, ready, request, fit, first.mean(0))


def learned_edges(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    """Scores of edges, mean over seeds, [writer, reader]."""
    fit = fit_for("edge-learned", request.fit)
    assert isinstance(fit, Learning)
    between = request.filler.fill.kind == "counterfactual"
    first = (eap_ig if between else eap)(model, pairs, replace(request, advance=lambda n: None))
    return ranking(model, edge_examples(model, pairs, request, fit), request, fit, first).mean(0)


def edge_examples(model: Model, pairs: Sequence[Pair], request: Request, fit: Trained) -> Examples:
    """Batches as large as the fit wants and memory allows."""
    graph, longest = find_graph(model, request.readers), max(len(pair.clean) for pair in pairs)
    a_token = len(graph.writers) * int(model.hf.config.get_text_config().hidden_size) * model.hf.dtype.itemsize
    size = min(fit.batch, max((request.memory or BYTES) // (2 * fit.seeds * longest * a_token), 1))

    ready = partial(CircuitMeter, fill=str(request.filler.fill), reference=pairs, memory=request.memory, room=Room())

    def meter(some: Sequence[Example]) -> CircuitMeter:
        return ready(model, pairs_only(some, "A circuit"), readers=request.readers)

    return Examples(pairs, size, meter, request.metric, torch.from_numpy(graph.real))


def ranking(model: Model, examples: Examples, request: Request, fit: Learning, first: Tensor) -> Tensor:
    """[seed, …], trained from the order of the first scores; the lowest is 0, as their order alone says something."""
    order = min((_ranked(examples, first, signed) for signed in (True, False)), key=lambda o: _distance(examples, o))
    chosen = order[: max(round(fit.share * len(order)), 1)]
    others, start = order[len(chosen) :], -torch.arange(1.0, len(chosen) + 1).log().to(model.device)
    theta = SoftTopK(model, examples, request, fit, chosen).run(start.expand(fit.seeds, -1), {"order": order.tolist()})
    theta, start = theta.cpu(), start.cpu()
    for row in theta:
        own = row.argsort(descending=True, stable=True)
        followed = _followed(examples, chosen[own], order)
        ahead, behind = own[:followed], own[followed:]
        row[behind] = start[behind]  # 0 and less
        row[ahead] += 1 - row[ahead].amin() if followed else 0
    # What is not learned lies between 0 and 1, and what is learned above, so that neither loses its digits.
    found = torch.zeros(fit.seeds, examples.real.numel(), dtype=torch.float64)
    found[:, chosen] = (theta - theta.amin(1, keepdim=True)).double() + bool(len(others))
    found[:, others] = torch.arange(len(others) - 1, -1, -1, dtype=torch.float64) / max(len(others), 1)
    return found.view(-1, *examples.real.shape)


class SoftTopK(Training[Learning]):
    """θ are scores of some units; the others are never kept."""

    name = "learned"

    def masks(self, theta: Tensor, update: int) -> Tensor:
        drawn = [random.Random(f"{self.request.seed + seed} {update}").random() for seed in range(len(theta))]
        budgets = torch.tensor([math.exp(share * math.log(theta.shape[1])) for share in drawn], device=theta.device)
        return self.spread(soft_top(theta, budgets, self.fit.temperature_at(update)))


def _ranked(examples: Examples, first: Tensor, signed: bool) -> Tensor:
    """Places of the units from the first to the last."""
    places = examples.real.flatten().nonzero()[:, 0]
    values = first.detach().cpu().double().flatten()[places]
    return places[(values if signed else values.abs()).argsort(descending=True, stable=True)]


def _followed(examples: Examples, own: Tensor, order: Tensor) -> int:
    """How many of the first units of an order of their own come first, before the others in the order they began in."""
    lengths = [len(own), *(length for length in _budgets(len(order))[1::2] if length < len(own)), 0]
    return min(lengths, key=lambda length: _distance(examples, _behind(own[:length], order)))


def _behind(first: Tensor, order: Tensor) -> Tensor:
    """Some units, then the others of an order."""
    return torch.cat([first, order[~torch.isin(order, first)]])


def _budgets(units: int) -> list[int]:
    """Log-uniform."""
    return [round(math.exp(number / (TRIED + 1) * math.log(units))) for number in range(1, TRIED + 1)]


def _distance(examples: Examples, order: Tensor) -> float:
    """Mean over some budgets, log-uniform."""
    masks = torch.zeros(TRIED, examples.real.numel(), dtype=torch.bool)
    for mask, budget in zip(masks, _budgets(len(order)), strict=True):
        mask[order[:budget]] = True
    return float(examples.hard_losses(masks.view(-1, *examples.real.shape)).mean())
