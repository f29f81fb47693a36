"""Training one number per unit, of heads or edges, through soft masks: what learned rankings and pruning share.

Examples come in batches that stay the same, so that what no mask changes (the fill, the prefix that two prompts share)
is run once only. An update takes one batch for all seeds; every seed has a copy of it in the same pass, under its own
mask. The loss speaks of the metric, prompt by prompt, in units of what there is to explain:

    f = (m - m(none)) / gap        1 - f = (m(all) - m) / gap        gap = mean over prompts of |m(all) - m(none)|
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.provenance import Facts
from ..core.words import RankingLoss
from ..meters.meter import Values
from ..models import Model
from ..tasks.examples import Example
from .descent import Schedule, checkpoint_of, descend
from .fit import Trained
from .gate_fit import minibatch
from .method import Request

F = TypeVar("F", bound=Trained)


class GradedMeter(Protocol):
    """Examples under masks that are hard, or soft with gradients back to them; of heads or of circuits."""

    def measure(self, keeps: Tensor, /) -> Values: ...

    def graded(self, masks: Tensor, metric: str, /) -> Tensor: ...


class Examples:
    """Batches made ready, and what the metric is there with all units and with none."""

    def __init__(
        self,
        examples: Sequence[Example],
        size: int,
        meter: Callable[[Sequence[Example]], GradedMeter],
        metric: str,
        real: Tensor,
    ) -> None:
        by_length = sorted(examples, key=lambda example: len(example.ids))
        count = max(round(len(by_length) / size), 1)
        ends = [len(by_length) * number // count for number in range(count + 1)]
        self.batches = [by_length[first:last] for first, last in pairwise(ends)]
        self.meters, self.metric, self.real = [meter(batch) for batch in self.batches], metric, real
        both = torch.stack([real, torch.zeros_like(real)])
        found = [torch.from_numpy(each.measure(both)[metric]) for each in self.meters]
        self.whole = [whole for whole, _ in found]
        gaps = torch.cat([whole - none for whole, none in found])
        # Signed as the mean is, so that less of the effect is a loss where a metric falls with it too.
        self.gap = float(gaps.abs().mean().clamp(min=1e-6).copysign(gaps.mean()))

    def losses(self, batch: int, masks: Tensor, loss: RankingLoss) -> Tensor:
        """Of a batch under each of `masks`, with gradients back to them."""
        if loss == "kl":
            return self.meters[batch].graded(masks, "kl").mean(1)
        metric = self.meters[batch].graded(masks, self.metric)
        return self._short(metric, self.whole[batch], loss).mean(1)

    def hard_losses(self, keeps: Tensor) -> Tensor:
        """The mean distance of all examples from the whole model under each of some hard masks."""
        pairs = zip(self.meters, self.whole, strict=True)
        found = [self._short(torch.from_numpy(m.measure(keeps)[self.metric]), whole, "distance") for m, whole in pairs]
        return torch.cat(found, dim=1).mean(1)

    def _short(self, metric: Tensor, whole: Tensor, loss: RankingLoss) -> Tensor:
        return shortfall((whole.to(metric) - metric) / self.gap, loss)


def shortfall(short: Tensor, loss: RankingLoss) -> Tensor:
    """A loss from how much of the whole model's metric is missing; `metric` wants less than nothing to be missing."""
    if loss == "distance":
        return short.abs()
    return short.clamp(min=0) if loss == "reach" else short


class Training(ABC, Generic[F]):
    """Adam on numbers θ, [seed, …], that become masks on some units, by their places; the others are never kept."""

    name: str

    def __init__(self, model: Model, examples: Examples, request: Request, fit: F, places: Tensor) -> None:
        self.model, self.examples, self.request, self.fit = model, examples, request, fit
        self.places = places.to(model.device)

    @abstractmethod
    def masks(self, theta: Tensor, update: int) -> Tensor:
        """[seed, …], from 0 to 1."""

    def penalty(self, theta: Tensor, masks: Tensor, update: int) -> Tensor:
        """What is added to the loss of each seed."""
        return masks.new_zeros(len(masks))

    def spread(self, shares: Tensor) -> Tensor:
        """Masks [seed, …] from the shares of the units, [seed, unit]."""
        real = self.examples.real
        return shares.new_zeros(len(shares), real.numel()).index_copy(1, self.places, shares).view(-1, *real.shape)

    def run(self, start: Tensor, facts: Facts | None = None) -> Tensor:
        """θ after all updates. An interrupted run resumes."""
        request, count = self.request, sum(map(len, self.examples.batches))
        told = {"metric": request.metric, "fill": str(request.filler.fill), "positions": request.positions}
        more = {"seed": request.seed, "readers": request.readers, "fit": self.fit.facts(), "stage": self.name}
        prompts = [[example.facts() for example in batch] for batch in self.examples.batches]
        checkpoint = checkpoint_of(self.model, {"examples": prompts, **told, **more, **(facts or {})})
        cost = self.fit.forwards(count) // self.fit.updates
        schedule = Schedule(self.fit.updates, cost, request.advance, request.note)
        theta, _ = descend(checkpoint, self.name, start, self.update, schedule)
        checkpoint.path.unlink(missing_ok=True)
        return theta

    def update(self, theta: Tensor, adam: torch.optim.Adam, update: int, active: list[int]) -> Tensor:
        (batch,) = minibatch(len(self.examples.meters), 1, self.request.seed, self.name, update)
        adam.zero_grad()
        with torch.enable_grad(), self.model.frozen():
            masks = self.masks(theta, update)
            losses = self.examples.losses(batch, masks, self.fit.loss)
            (losses + self.penalty(theta, masks, update)).sum().backward()
        assert theta.grad is not None
        if not bool(losses.isfinite().all() and theta.grad.isfinite().all()):
            raise HeadcountError(
                f"The loss is not a finite number at update {update + 1} of {self.name}, in the batch that begins with"
                f" {self.examples.batches[batch][0].facts()}. Look at its prompts, or load the model in a wider dtype."
            )
        adam.param_groups[0]["lr"] = self.fit.learning_rate(update)
        adam.step()
        return losses.detach().cpu()
