"""Fitting gates on all heads at once, for several seeds in one batch: what gating and contrastive gating share.

    z_h -> g_h · z_h + (1 - g_h) · fill        g = sigmoid(θ), one a query head, the same at all positions
    loss = task loss - λ · mean over heads of clamp(θ, -4, 4)

The model is frozen and θ alone is fitted, by Adam. λ > 0 pulls gates open, λ < 0 pulls them shut; where a gate is past
the clamp the pull ends. Every seed is a fit of its own: its first gates and its minibatches are drawn from it, and Adam
works element by element, so a seed gives the same gates alone or among others (up to rounding).
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.provenance import Facts
from ..edit import cut_heads
from ..meters.metrics import log_prob_per_token
from ..models import Model
from ..tasks.batches import collate
from ..tasks.examples import Example
from .descent import Schedule, checkpoint_of, descend
from .fit import checked_fit
from .method import Request


@dataclass(frozen=True)
class Objective:
    """What is minimised: a loss for each group of examples, from the log-probabilities per token of their targets."""

    groups: Sequence[tuple[Example, ...]]
    loss: Callable[[Tensor], Tensor]  # [group, member] -> [group]


@dataclass(frozen=True)
class Stage:
    """A run of updates from given gates."""

    name: str
    pull: float  # λ: positive toward keeping heads, negative toward removing them
    free_rates: bool = False  # take the learning rates of a stage without a pull


class Fitter:
    """Everything that a fit needs; `run` does one stage. The request's seed is that of the first fit; the others count
    on from it. What an earlier run of the same fit has left in the checkpoint is gone on from."""

    def __init__(self, model: Model, objective: Objective, request: Request, checkpoint: Path | str | None = None):
        self.model, self.objective, self.request, self.fit = model, objective, request, checked_fit(request.fit)
        fill = request.filler.fill
        if fill.kind == "resample":
            raise HeadcountError("Gates cannot be filled by 'resample'. Use zero, mean, mean-global or counterfactual.")
        examples = [[example.facts() for example in group] for group in objective.groups]
        own: Facts = {"examples": examples, "fit": self.fit.facts(), "max_tokens": request.max_tokens}
        self.checkpoint = checkpoint_of(model, {**own, "fill": str(fill), "seed": request.seed}, checkpoint)

    def first_gates(self) -> Tensor:
        """θ of random gates, uniform from 0 to 1, [seed, layer, head]."""
        shape = self.model.n_layers, self.model.n_heads
        generators = [torch.Generator().manual_seed(self.request.seed + number) for number in range(self.fit.seeds)]
        drawn = torch.stack([torch.rand(shape, generator=own, dtype=torch.float64) for own in generators])
        return drawn.clamp(1e-4, 1 - 1e-4).logit().float().to(self.model.device)

    def run(self, stage: Stage, start: Tensor) -> tuple[Tensor, Tensor]:
        """θ after the stage, and the losses on the way, [update, seed], not a number once a seed has settled."""
        fit, groups = self.fit, self.objective.groups
        cost = fit.forwards(len(groups), 1) // fit.updates * len(groups[0])
        schedule = Schedule(fit.updates, cost, self.request.advance, self.request.note, fit.patience)
        return descend(self.checkpoint, stage.name, start, partial(self.update, stage), schedule)

    def update(self, stage: Stage, theta: Tensor, adam: torch.optim.Adam, update: int, active: list[int]) -> Tensor:
        """One step of the active seeds; their losses, without the pull."""
        count, first = len(self.objective.groups), self.request.seed
        size = min(self.fit.batch, count)
        drawn = [(seed, g) for seed in active for g in minibatch(count, size, first + seed, stage.name, update)]
        losses = theta.new_zeros(self.fit.seeds)
        adam.zero_grad()
        pulled = theta.clamp(-self.fit.clamp, self.fit.clamp).mean((1, 2))[active].sum()
        (-stage.pull * pulled).backward()
        with self.model.frozen():
            for part in self._parts(drawn):
                found = self._group_losses(theta, part)
                (self.fit.loss / size * found.sum()).backward()
                if wrong := [at for at, loss in zip(part, found.tolist(), strict=True) if not math.isfinite(loss)]:
                    raise self._refusal(stage, update, *wrong[0])
                owners = torch.tensor([seed for seed, _ in part], device=losses.device)
                losses.index_add_(0, owners, found.detach() / size)
        assert theta.grad is not None
        if not bool(theta.grad.isfinite().all()):  # an overflow in the backward pass alone
            raise self._refusal(stage, update, *drawn[0])
        idle = [seed for seed in range(self.fit.seeds) if seed not in active]
        before = theta.detach()[idle]
        adam.param_groups[0]["lr"] = self.fit.learning_rate(stage.pull != 0 and not stage.free_rates, update)
        adam.step()
        theta.detach()[idle] = before
        return losses[active].cpu()

    def _group_losses(self, theta: Tensor, part: Sequence[tuple[int, int]]) -> Tensor:
        """The loss of each (seed, group)."""
        members = len(self.objective.groups[0])
        examples = [example for _, group in part for example in self.objective.groups[group]]
        batch = collate(examples, self.model.device)
        owners = torch.tensor([seed for seed, _ in part for _ in range(members)], device=theta.device)
        filling = self.request.filler.filling(self.model, range(len(examples)), batch).by_row()
        with torch.enable_grad(), cut_heads(self.model, theta.sigmoid()[owners], filling):
            logits = self.model.last_logits(batch.clean, batch.spots, rows=batch.rows)
            precise = logits.float() if logits.element_size() < 4 else logits
            found = log_prob_per_token(precise, batch).view(-1, members)
            return self.objective.loss(found).to(theta.dtype)

    def _parts(self, drawn: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
        """What runs at once: groups of about one length, so many that their tokens fit."""
        # A backward pass keeps every activation alive; with more than a third of the tokens, a CPU's fresh memory costs
        # more than the larger batch saves.
        most = max(self.request.max_tokens // 3, 1)
        groups = self.objective.groups
        tokens = {pair: max(len(example.ids) for example in groups[pair[1]]) * len(groups[0]) for pair in drawn}
        part: list[tuple[int, int]] = []
        for pair in sorted(drawn, key=lambda pair: (tokens[pair], pair)):
            if part and tokens[pair] * (len(part) + 1) > most:
                yield part
                part = []
            part.append(pair)
        yield part

    def _refusal(self, stage: Stage, update: int, seed: int, group: int) -> HeadcountError:
        return HeadcountError(
            f"The loss is not a finite number at update {update + 1} of the stage {stage.name!r}, seed"
            f" {self.request.seed + seed}, in the batch with train example {group} (from 0). The last good gates are in"
            f" {self.checkpoint.path}; look at that example, or take a wider dtype."
        )


def minibatch(count: int, size: int, seed: int, stage: str, update: int) -> list[int]:
    """`size` of `count` examples: those of a random order, then of the next one. A function of its arguments alone, so
    that a fit can go on anywhere."""
    places = range(update * size, (update + 1) * size)
    return [_order(count, seed, stage, place // count)[place % count] for place in places]


@lru_cache(maxsize=64)
def _order(count: int, seed: int, stage: str, epoch: int) -> list[int]:
    return random.Random(f"{seed} {stage} {epoch}").sample(range(count), count)
