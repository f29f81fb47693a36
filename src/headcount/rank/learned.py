"""Learned rankings (Matryoshka attribution, Arora 2026): one score a unit, trained so that the top k do the task.

Every update draws a budget k, log-uniform from 1 to all units, so that small circuits count as much as large ones. The
soft top k of the scores (`soft_top.py`) is kept, all else carries the fill, and the loss is how far the metric then is
from the whole model's, prompt by prompt:

    loss = mean over prompts of |m(k) - m(all)| / mean over prompts of |m(all) - m(none)|

It rises on both sides of the whole model, so units that overshoot are no better than units that are missing. (The other
losses of `Learning` are on request.) The scores begin at minus the logarithm of a unit's rank by one-pass attribution,
signed or absolute, whichever has the lower loss: an update then moves a unit by a share of its rank, at every budget.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.provenance import Facts
from ..meters import CircuitMeter, HeadMeter
from ..meters.meter import Values
from ..models import Model
from ..models.wiring import find_graph
from ..tasks.examples import Example, Pair, pairs_only
from .descent import checkpoint_of, descend
from .edge_attribution import eap_ig
from .fit import Learning, fit_for
from .gate_fit import minibatch
from .gradients import attribution, attribution_ig
from .method import Request
from .soft_top import soft_top

TRIED = 8
"""Budgets at which the two orders to begin with are compared."""
BYTES = 2**28
"""What the writers' part of an update over edges may take."""


class GradedMeter(Protocol):
    """Examples under masks that are hard, or soft with gradients; of heads or of circuits."""

    def __len__(self) -> int: ...

    def measure(self, keeps: Tensor, /) -> Values: ...

    def graded(self, masks: Tensor, metric: str, /) -> Tensor: ...


def learned(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """Scores of heads of every seed, [seed, layer, head]."""
    fit, fill = learning_of("learned", request), request.filler.fill
    if fill.kind == "resample":
        raise HeadcountError("A ranking cannot be learned with the fill 'resample'. Use another one.")
    silent = replace(request, advance=lambda n: None)
    if fill.kind == "counterfactual":
        first = attribution_ig(model, pairs_only(examples, "A path between prompts"), silent)
    else:
        first = attribution(model, examples, silent)

    def meter(some: Sequence[Example]) -> HeadMeter:
        most, where = request.max_tokens, request.positions
        return HeadMeter(model, some, request.filler, positions=where, max_tokens=most)

    training = Training(model, in_batches(examples, fit.batch), meter, request, fit)
    return training.run(first.mean(0), torch.ones(model.n_layers, model.n_heads, dtype=torch.bool))


def learned_edges(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    """Scores of edges, mean over seeds, [writer, reader]."""
    fit, graph = learning_of("edge-learned", request), find_graph(model, request.readers)
    first = eap_ig(model, pairs, replace(request, advance=lambda n: None))
    # What writers wrote and the gradient at it are held for every token.
    longest = max(len(pair.clean) for pair in pairs)
    width = int(model.hf.config.get_text_config().hidden_size)
    a_prompt = 2 * fit.seeds * longest * len(graph.writers) * width * model.hf.dtype.itemsize
    size = min(fit.batch, max(BYTES // a_prompt, 1))

    def meter(some: Sequence[Example]) -> CircuitMeter:
        return CircuitMeter(model, pairs_only(some, "A circuit"), readers=request.readers, memory=request.memory)

    training = Training(model, in_batches(pairs, size), meter, request, fit)
    return training.run(first, torch.from_numpy(graph.real)).mean(0)


def learning_of(method: str, request: Request) -> Learning:
    fit = fit_for(method, request.fit)
    assert isinstance(fit, Learning)
    return fit


def in_batches(examples: Sequence[Example], size: int) -> list[list[Example]]:
    """Of about one length each. They stay the same, so that what no mask changes is run once only."""
    by_length = sorted(examples, key=lambda example: len(example.ids))
    count = max(round(len(by_length) / size), 1)
    return [by_length[len(by_length) * i // count : len(by_length) * (i + 1) // count] for i in range(count)]


@dataclass
class Training:
    """The training of the scores of some units, over fixed batches of examples."""

    model: Model
    batches: list[list[Example]]
    meter: Callable[[Sequence[Example]], GradedMeter]
    request: Request
    fit: Learning

    def __post_init__(self) -> None:
        self.meters = [self.meter(batch) for batch in self.batches]

    def run(self, first: Tensor, real: Tensor) -> Tensor:
        """[seed, …] from the first scores, of the units that are `real`; the lowest is 0, as only the order of the
        scores says something."""
        self.real, places = real, real.flatten().nonzero()[:, 0]
        self._measure_ends()
        order = min((self._ranked(first, signed) for signed in (True, False)), key=self._loss_of_order)
        n_learned = max(round(self.fit.share * len(places)), 1)
        self.chosen, others = order[:n_learned].to(self.model.device), order[n_learned:]
        start = -torch.arange(1, n_learned + 1, dtype=torch.float64).log().float().to(self.model.device)
        checkpoint = checkpoint_of(self.model, self._facts(order))
        theta, _ = descend(
            checkpoint, "learned", start.expand(self.fit.seeds, -1), self.fit.updates, self.update, self.request,
            cost=self.fit.forwards(sum(map(len, self.batches))) // self.fit.updates,
        )  # fmt: skip
        checkpoint.path.unlink(missing_ok=True)
        lowest = theta.amin(1, keepdim=True)
        found = torch.zeros(self.fit.seeds, real.numel())
        found[:, self.chosen.cpu()] = theta - lowest + len(others)
        found[:, others] = torch.arange(len(others), 0, -1.0) - 1
        return found.view(-1, *real.shape)

    def update(self, theta: Tensor, adam: torch.optim.Adam, update: int, active: list[int]) -> Tensor:
        (place,) = minibatch(len(self.meters), 1, self.request.seed, "learned", update)
        adam.zero_grad()
        with torch.enable_grad(), self.model.frozen():
            shares = soft_top(theta, self._budgets(update, theta), self.fit.temperature)
            losses = self._losses(place, self._masks(shares))
            losses.sum().backward()
        assert theta.grad is not None
        if not bool(losses.isfinite().all() and theta.grad.isfinite().all()):
            raise HeadcountError(
                f"The loss is not a finite number at update {update + 1} of a learned ranking, in a batch that begins"
                f" with {self.batches[place][0].facts()}. Look at its prompts, or load the model in a wider dtype."
            )
        adam.param_groups[0]["lr"] = self.fit.learning_rate(update)
        adam.step()
        return losses.detach().cpu()

    def _budgets(self, update: int, theta: Tensor) -> Tensor:
        """One k a seed."""
        drawn = [random.Random(f"{self.request.seed + seed} {update}").random() for seed in range(len(theta))]
        return torch.tensor([math.exp(share * math.log(theta.shape[1])) for share in drawn], device=theta.device)

    def _masks(self, shares: Tensor) -> Tensor:
        """[seed, …] of the shares of the units that are learned, [seed, unit]."""
        flat = shares.new_zeros(len(shares), self.real.numel())
        return flat.index_copy(1, self.chosen, shares).view(-1, *self.real.shape)

    def _losses(self, place: int, masks: Tensor) -> Tensor:
        """Of a batch under each mask."""
        meter = self.meters[place]
        if self.fit.loss == "kl":
            return meter.graded(masks, "kl").mean(1)
        metric = meter.graded(masks, self.request.metric)
        return self._distance(metric, self.whole[place].to(metric)).mean(1)

    def _distance(self, metric: Tensor, whole: Tensor) -> Tensor:
        """Of the metric [mask, example] from the whole model's, in units of what there is to explain."""
        short = (whole - metric) / self.gap
        match self.fit.loss:
            case "reach":
                return short.clamp(min=0)
            case "metric":
                return short
        return short.abs()

    def _measure_ends(self) -> None:
        """The metric with all units and with none."""
        ends = torch.stack([self.real, torch.zeros_like(self.real)])
        found = [torch.from_numpy(meter.measure(ends)[self.request.metric]) for meter in self.meters]
        self.whole = [whole for whole, _ in found]
        gaps = torch.cat([whole - none for whole, none in found])
        # Signed as the mean is, so that less of the effect is a loss where a metric falls with it too.
        self.gap = float(gaps.abs().mean().clamp(min=1e-6).copysign(gaps.mean()))

    def _ranked(self, first: Tensor, signed: bool) -> Tensor:
        """Places of the units from the first to the last."""
        places = self.real.flatten().nonzero()[:, 0]
        values = first.detach().cpu().double().flatten()[places]
        return places[(values if signed else values.abs()).argsort(descending=True, stable=True)]

    def _loss_of_order(self, order: Tensor) -> float:
        """Mean over some budgets, on the first batches."""
        masks = torch.zeros(TRIED, self.real.numel(), dtype=torch.bool)
        for mask, share in zip(masks, torch.arange(1, TRIED + 1) / (TRIED + 1), strict=True):
            mask[order[: round(math.exp(share * math.log(len(order))))]] = True
        total, count = 0.0, 0
        for meter, whole in zip(self.meters, self.whole, strict=True):
            found = torch.from_numpy(meter.measure(masks.view(-1, *self.real.shape))[self.request.metric])
            total, count = total + float(self._distance(found, whole).sum()), count + found.numel()
        return total / count

    def _facts(self, order: Tensor) -> Facts:
        request, examples = self.request, [[example.facts() for example in batch] for batch in self.batches]
        told = {"metric": request.metric, "fill": str(request.filler.fill), "positions": request.positions}
        more = {"seed": request.seed, "readers": request.readers, "order": order.tolist(), "fit": self.fit.facts()}
        return {"examples": examples, **told, **more}
