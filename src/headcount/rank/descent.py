"""Going down a loss with Adam, for one number per unit and several seeds at once, in a way that can be killed: what
gating and learned rankings share."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..core.cache import cache_folder
from ..core.errors import HeadcountError
from ..core.keys import digest, package_source
from ..core.provenance import Facts, versions
from ..models import Model
from .checkpoint import Checkpoint, FitState

SAVE_EVERY = 15.0  # seconds between checkpoints

Update = Callable[[Tensor, torch.optim.Adam, int, list[int]], Tensor]
"""One step of θ by Adam: (θ [seed, …], Adam, number of the update, seeds that still move) -> their losses."""


@dataclass(frozen=True)
class Schedule:
    """How long a fit goes on, and who hears how it stands."""

    updates: int
    cost: int  # of an update, in prompts
    advance: Callable[[int], None]  # told how many prompts have been run
    note: Callable[[str], None] = lambda words: None
    patience: int = 0  # updates after which seeds are looked at, and those that have settled stop; 0 for never


def checkpoint_of(model: Model, facts: Facts, path: Path | str | None = None) -> Checkpoint:
    """That of a fit which depends on the model and on these facts; what an earlier run of it has left is in it."""
    nameless = {key: fact for key, fact in model.facts().items() if key != "name"}
    key = digest({"versions": versions(), "source": package_source(), "model": nameless, **facts})
    return Checkpoint.at(Path(path) if path else cache_folder() / "fits" / f"{key}.safetensors", key)


def descend(
    checkpoint: Checkpoint, stage: str, start: Tensor, update: Update, schedule: Schedule
) -> tuple[Tensor, Tensor]:
    """θ after some updates from `start`, and the losses on the way, [update, seed], not a number once a seed has
    settled."""
    state = checkpoint.stages.get(stage) or FitState.fresh(start, schedule.updates)
    theta = state.theta.clone().to(start.device).requires_grad_()
    adam = torch.optim.Adam([theta])
    state.restore(adam, theta)
    saved = time.monotonic()
    schedule.advance(state.update * schedule.cost)
    for number in range(state.update, schedule.updates):
        active = [seed for seed in range(len(theta)) if not state.settled[seed]]
        if not active:
            break
        try:
            state.losses[number, active] = update(theta, adam, number, active).to(state.losses)
        except HeadcountError:
            checkpoint.save(stage, state)  # the last good numbers
            raise
        state.keep(adam, theta, number + 1)
        if schedule.patience and (number + 1) % schedule.patience == 0:
            state.look()
        if time.monotonic() - saved > SAVE_EVERY:
            checkpoint.save(stage, state)
            saved = time.monotonic()
        schedule.advance(schedule.cost)
        mean = float(state.losses[number, active].mean())
        schedule.note(f"{stage} {number + 1}/{schedule.updates}, loss {mean:.3f}")
    schedule.advance((schedule.updates - state.update) * schedule.cost)
    state.settled[:] = True  # no more of its updates will be run
    checkpoint.save(stage, state)
    return state.theta, state.losses
