"""Learned rankings (Matryoshka attribution, Arora 2026): one score a unit, trained so that the top k do the task.

Every update draws a budget k, log-uniform from 1 to all units, so that small circuits count as much as large ones. The
soft top k of the scores (`soft_top.py`) is kept, all else carries the fill, and the loss is how far the metric then is
from the whole model's, prompt by prompt:

    loss = mean over prompts of |m(k) - m(all)| / mean over prompts of |m(all) - m(none)|

It rises on both sides of the whole model, so units that overshoot are no better than units that are missing. The scores
begin at one-pass attribution, whose order the training has to better. Heads are gated (`gate_fit.py`); edges are kept
in a stream of their own (`soft_stream.py`), in which the writers are live.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..core.saving import Floats
from ..edit.edge_fills import BaseRun, EdgeFiller
from ..edit.soft_stream import soft_edges
from ..meters import CircuitMeter, HeadMeter
from ..meters.metrics import metric_named
from ..models import Model
from ..models.wiring import Wiring, find_wiring
from ..tasks.batches import collate
from ..tasks.examples import Example, Pair, pairs_only
from .edge_attribution import eap_ig
from .fit import LEARNED, LEARNED_EDGES, Fit
from .gate_fit import Fitter, HeadObjective, Objective, Stage
from .gradients import attribution, attribution_ig
from .method import Request
from .soft_top import soft_top

WIDEST = 4.0  # standard deviations of the first scores beyond which they are cut off


def learned(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """Scores of heads of every seed, [seed, layer, head]."""
    fit = (request.fit or LEARNED).changed(patience=0)
    ends = torch.ones(2, model.n_layers, model.n_heads, dtype=torch.bool)
    ends[1] = False
    meter = HeadMeter(model, examples, request.filler, positions=request.positions, max_tokens=request.max_tokens)
    distance = _Distance.of(meter.measure(ends)[request.metric])
    masks = _masks(fit, request.seed, model.head_count)
    objective = HeadObjective([(e,) for e in examples], distance.by_group, metric_named(request.metric), masks)
    silent = replace(request, advance=lambda n: None)
    if request.filler.fill.kind == "counterfactual":
        first = attribution_ig(model, pairs_only(examples, "A path between prompts"), silent)
    else:
        first = attribution(model, examples, silent)
    return _trained(model, objective, request, fit, first.mean(0))


def learned_edges(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    """Scores of edges, mean over seeds, [writer, reader]."""
    fit = (request.fit or LEARNED_EDGES).changed(patience=0)
    wiring = find_wiring(model, request.readers)
    real = torch.from_numpy(wiring.graph.real)
    meter = CircuitMeter(model, pairs, readers=request.readers, memory=request.memory)
    distance = _Distance.of(meter.measure(torch.stack([real, torch.zeros_like(real)]))[request.metric])
    # Batches stay the same, so that what is outside of circuits has to be run once only.
    size, by_length = min(fit.batch, len(pairs)), sorted(range(len(pairs)), key=lambda index: len(pairs[index].clean))
    batches = [by_length[first : first + size] for first in range(0, len(pairs) - size + 1, size)]
    masks = _masks(fit, request.seed, int(real.sum()))
    objective = _EdgeObjective(pairs, batches, wiring, distance, masks)
    first = eap_ig(model, pairs, replace(request, advance=lambda n: None))[real]
    with wiring.readied():
        theta = _trained(model, objective, request, fit.changed(batch=1), first)
    return torch.zeros(real.shape).masked_scatter(real, theta.mean(0).cpu())


def _trained(model: Model, objective: Objective, request: Request, fit: Fit, first: Tensor) -> Tensor:
    """[seed, …]; the lowest of each seed is 0, as only the order of the scores says something."""
    fitter = Fitter(model, objective, replace(request, fit=fit))
    start = (first / first.std().clamp(min=1e-12)).clamp(-WIDEST, WIDEST).float().to(model.device)
    theta, _ = fitter.run(Stage("learned", 0.0), start.expand(fit.seeds, *start.shape))
    fitter.checkpoint.path.unlink(missing_ok=True)
    lowest = theta.flatten(1).amin(1)
    return theta - lowest.view(-1, *[1] * (theta.dim() - 1))


def _masks(fit: Fit, seed: int, total: int) -> Callable[[Tensor, int], Tensor]:
    """Soft masks for a budget that every seed draws in every update."""

    def masks(theta: Tensor, update: int) -> Tensor:
        drawn = [random.Random(f"{seed + number} {update}").random() for number in range(fit.seeds)]
        budgets = torch.tensor([math.exp(share * math.log(total)) for share in drawn], device=theta.device)
        return soft_top(theta.flatten(1), budgets).view_as(theta)

    return masks


@dataclass(frozen=True)
class _Distance:
    """From the whole model's metric, in units of what there is to explain."""

    whole: Tensor  # [example]
    gap: float

    @classmethod
    def of(cls, values: Floats) -> "_Distance":
        """From the metric with all units and with none, [2, example]."""
        whole, none = torch.from_numpy(values)
        return cls(whole, float((whole - none).abs().mean().clamp(min=1e-6)))

    def by_group(self, metric: Tensor, groups: Sequence[int]) -> Tensor:
        """Metric [group, member] of groups of one example each."""
        return self(metric[:, 0], groups)

    def __call__(self, metric: Tensor, examples: Sequence[int]) -> Tensor:
        return (metric - self.whole[list(examples)].to(metric)).abs() / self.gap


@dataclass(frozen=True)
class _EdgeObjective:
    """The mean distance of a batch while edges are kept in part."""

    pairs: Sequence[Pair]
    batches: list[list[int]]
    wiring: Wiring
    distance: _Distance
    masks: Callable[[Tensor, int], Tensor]
    bases: dict[int, BaseRun] = field(default_factory=dict)

    @property
    def groups(self) -> list[tuple[Example, ...]]:
        return [tuple(self.pairs[index] for index in batch) for batch in self.batches]

    def losses(self, fitter: Fitter, theta: Tensor, part: Sequence[tuple[int, int]], update: int) -> Tensor:
        shares, real = self.masks(theta, update), torch.from_numpy(self.wiring.graph.real).to(theta.device)
        found = []
        for seed, group in part:
            base = self._base(fitter.model, group)
            mask = torch.zeros(real.shape, device=theta.device).masked_scatter(real, shares[seed])
            with torch.enable_grad(), soft_edges(fitter.model, self.wiring, base, mask[None]):
                past = None if base.prefix is None else fitter.model.repeated_prefix(base.prefix, 1)
                logits = fitter.model.last_logits(base.ids, base.last, past)
                metric = metric_named(fitter.request.metric)(logits, base.batch)
                found.append(self.distance(metric, self.batches[group]).mean())
        return torch.stack(found).to(theta.dtype)

    @torch.no_grad()
    def _base(self, model: Model, group: int) -> BaseRun:
        if group not in self.bases:
            batch = collate(self.groups[group], model.device)
            self.bases[group] = EdgeFiller.prepare(model, self.wiring, "counterfactual", (), (), 1).base_run(
                model, self.wiring, batch
            )
        return self.bases[group]
