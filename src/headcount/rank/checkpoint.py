"""A fit that can be killed: its state in one file, written whole or not at all, so that it goes on where it was."""

import json
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load as parse
from safetensors.torch import save as serialise
from torch import Tensor

from ..core.checksums import sealed, unsealed
from ..core.errors import HeadcountError, in_short
from ..core.files import writable_folder, write_file
from ..core.progress import say

MEANS = ("exp_avg", "exp_avg_sq")  # what Adam calls them
SETTLED = 0.01


@dataclass
class FitState:
    """Where one stage of a fit stands."""

    theta: Tensor  # logits of the gates, [seed, layer, head]
    first: Tensor  # Adam's running mean of the gradient
    second: Tensor  # and of its square
    seen: Tensor  # θ when it was last looked at
    settled: Tensor  # [seed], True where a seed is done
    losses: Tensor  # [update, seed]
    update: int = 0

    @classmethod
    def fresh(cls, start: Tensor, updates: int) -> "FitState":
        theta = start.detach().clone().cpu()
        zero = torch.zeros_like(theta)
        losses = torch.full((updates, len(theta)), torch.nan)
        return cls(theta, zero, zero.clone(), theta.clone(), torch.zeros(len(theta), dtype=torch.bool), losses)

    def restore(self, adam: torch.optim.Adam, theta: Tensor) -> None:
        """Put Adam where it was."""
        if self.update:
            means = (mean.to(theta.device).clone() for mean in (self.first, self.second))
            adam.state[theta] = dict(zip(MEANS, means, strict=True), step=torch.tensor(float(self.update)))

    def keep(self, adam: torch.optim.Adam, theta: Tensor, update: int) -> None:
        """Remember where the fit is after an update."""
        self.theta = theta.detach().cpu().clone()
        self.first, self.second = (adam.state[theta][name].cpu().clone() for name in MEANS)
        self.update = update

    def look(self) -> None:
        """Mark the seeds that have settled: since the last look their gates moved less than SETTLED on average, none of
        them ten times as far, and none across one half."""
        now, before = self.theta.sigmoid(), self.seen.sigmoid()
        moved = (now - before).abs().flatten(1)
        still = (moved.mean(1) < SETTLED) & (moved.amax(1) < 10 * SETTLED)
        crossed = ((now >= 0.5) != (before >= 0.5)).flatten(1).any(1)
        self.settled |= still & ~crossed
        self.seen = self.theta.clone()


PARTS = tuple(part.name for part in fields(FitState) if part.name != "update")


@dataclass
class Checkpoint:
    """The file of one fit: the state of the stage that runs, and of those that are done."""

    path: Path
    key: str  # what the fit depends on; a file of another fit is not gone on from
    stages: dict[str, FitState] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path, key: str) -> "Checkpoint":
        """What an earlier run has left there; nothing where it was of another fit, or where it is damaged, which is
        said."""
        writable_folder(path.parent)
        found = cls(path, key)
        if path.exists():
            try:
                data, facts = unsealed(path)
                if facts["key"] == key:
                    updates: dict[str, int] = json.loads(facts["updates"])
                    tensors = parse(data)
                    parts = {name: {part: tensors[f"{name}/{part}"] for part in PARTS} for name in updates}
                    found.stages = {name: FitState(**parts[name], update=updates[name]) for name in updates}
            except (HeadcountError, OSError) as error:
                say(f"{in_short(error)} The fit starts over.")
        return found

    def save(self, stage: str, state: FitState) -> None:
        self.stages[stage] = state
        tensors = {f"{name}/{part}": getattr(kept, part) for name, kept in self.stages.items() for part in PARTS}
        updates = {name: kept.update for name, kept in self.stages.items()}
        facts = {"updates": json.dumps(updates), "key": self.key}
        write_file(self.path, sealed(partial(serialise, tensors), facts))
