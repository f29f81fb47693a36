"""The loop: packed text in, a sparse model out; it can be killed at any time and goes on to the same result."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load as parse
from safetensors.torch import save as serialise
from torch import Tensor, nn

from ..core.checksums import sealed, unsealed
from ..core.errors import HeadcountError, in_short
from ..core.files import write_file
from ..core.keys import digest
from ..core.progress import say
from ..models.gated_folder import CHECKPOINT
from ..models.gates import counted, drawn
from .objective import OPEN, Bound, Losses, bounds_of, regulariser
from .recipe import Recipe
from .text import Text
from .trainee import Trainee

GRADIENT_NORM = 1.0
DESCENT = 0.6
"""Share of a twin's steps in which the ceiling of a ladder goes down to its target."""
MOMENTS = ("exp_avg", "exp_avg_sq", "step")
Rows = list[dict[str, float]]
Report = Callable[[Rows, int], None]  # told the log so far, and how many of its entries are new
RungDone = Callable[[int, Rows], None]  # told which twin of a ladder is ready, and the log so far; not of the last one


@dataclass(frozen=True)
class Training:
    """What changes in the course of a run; its checkpoint is one file that is whole or absent."""

    parameters: dict[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    bounds: list[Bound]
    rows: Rows  # the log, one entry a step

    def save(self, folder: Path, key: str) -> None:
        tensors: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            tensors[f"weight/{name}"] = parameter.detach().cpu().contiguous()
            for moment, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{moment}/{name}"] = value.detach().cpu().contiguous()
        state = {"rows": self.rows, "bounds": [vars(bound) for bound in self.bounds]}
        facts = {"key": key, **{name: json.dumps(value) for name, value in state.items()}}
        write_file(folder / CHECKPOINT, sealed(partial(serialise, tensors), facts))

    def restore(self, folder: Path, key: str) -> int:
        """Go on where an earlier run stopped, if it was the same run; the number of steps that are done. A checkpoint
        that is damaged is said, and the run begins anew."""
        path = folder / CHECKPOINT
        if not path.exists():
            return 0
        try:
            data, state = unsealed(path)
        except (HeadcountError, OSError) as error:
            say(f"{in_short(error)} Training starts over.")
            return 0
        if state["key"] != key:
            raise HeadcountError(
                f"{folder} holds a checkpoint of another run (other text, model or settings). Give the settings it was"
                " begun with to go on, another --out, or delete the checkpoint to start over."
            )
        tensors = parse(data)
        self.rows[:] = json.loads(state["rows"])
        for bound, saved in zip(self.bounds, json.loads(state["bounds"]), strict=True):
            vars(bound).update(saved)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"weight/{name}"])
                for moment in MOMENTS:
                    if (value := tensors.get(f"{moment}/{name}")) is not None:
                        where = value.device if moment == "step" else parameter.device  # Adam counts steps on the CPU
                        self.optimizer.state[parameter][moment] = value.to(where)
        return len(self.rows)


@torch.enable_grad()
def train(
    trainee: Trainee,
    text: Text,
    recipe: Recipe,
    folder: Path,
    accelerator: Accelerator,
    report: Report,
    rung_done: RungDone,
    origin: str,
) -> Rows:
    """Run the steps that are not yet done; returns the log of all. `origin` tells this text and model from others."""
    gate_parameters = {id(each) for layer in trainee.gates for each in layer.parameters()}
    weights = [p for p in trainee.parameters.values() if id(p) not in gate_parameters]
    offsets = [p for p in trainee.parameters.values() if id(p) in gate_parameters]
    groups = [{"params": weights, "lr": recipe.weight_lr}, {"params": offsets, "lr": recipe.gate_lr}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], weight_decay=0.0, betas=(0.9, 0.99))
    speeds = [group["lr"] for group in optimizer.param_groups]
    module = accelerator.prepare(trainee.model.hf)
    training = Training(trainee.parameters, optimizer, bounds_of(recipe, list(text.held_out)), rows=[])
    key = digest([recipe.facts(), origin], 16)
    done = training.restore(folder, key)
    if done:
        report(training.rows, done)
    for step in range(done, recipe.steps):
        for group, speed in zip(optimizer.param_groups, speeds, strict=True):
            group["lr"] = speed * schedule(step, recipe)
        rung, _, _ = recipe.rung_at(step)
        if recipe.target_open:
            training.bounds[0].tolerance = log_ceiling(step, recipe, training.rows)
        row = _step(trainee, module, text, recipe, training, accelerator, step)
        if not all(map(math.isfinite, row.values())):
            kept = len(training.rows) // recipe.checkpoint_every * recipe.checkpoint_every
            last = f"The checkpoint of step {kept} is kept in {folder}." if kept else "There is no checkpoint yet."
            raise HeadcountError(
                f"The loss of step {step + 1} is not finite. {last} A smaller --lr usually helps; begin in another"
                " folder."
            )
        training.rows.append(row)
        report(training.rows, 1)
        ends = step + 1 in recipe.rung_ends  # what comes then, evaluation and the last write, may be killed too
        if ends and step + 1 < recipe.steps:
            rung_done(rung, training.rows)
        if (ends or (step + 1) % recipe.checkpoint_every == 0) and accelerator.is_main_process:
            training.save(folder, key)
    return training.rows


def _step(
    trainee: Trainee, module: Any, text: Text, recipe: Recipe, training: Training, accelerator: Accelerator, step: int
) -> dict[str, float]:
    # Nothing random outlives a step, so that a run that was killed need not remember where its dice were.
    torch.manual_seed((recipe.seed * 1_000_003 + step) * 64 + accelerator.process_index)
    own = slice(accelerator.process_index, None, accelerator.num_processes)
    ids, source = (each[own].to(accelerator.device) for each in text.batch(recipe, step))
    with trainee.products():
        dense_logits = trainee.dense_logits(ids)
        with counted(trainee.gates, recipe.distance_power, recipe.row_cost) as ledger, drawn(trainee.gates, "noisy"):
            logits = module(input_ids=ids, use_cache=False).logits
    losses = Losses.of(logits, dense_logits, ids, recipe.kl)
    aim, opened = None, dict[str, Tensor]()
    bounded = losses.bounded(recipe, source, len(text.held_out))
    seen = [lost.detach() for lost, _ in bounded]
    if trainee.gates:
        whole = (ids.shape[1] + 1) / (recipe.length + 1)  # shares are those of whole sequences with as many keys
        aim = regulariser([layer * whole for layer in ledger.expected], recipe)
        rows = sum(layer.numel() for layer in ledger.open)
        keys = torch.stack([layer.sum() for layer in ledger.open]).sum() / rows
        edges = torch.stack([there.float().mean() for there in ledger.edges]).mean() / whole
        empty = torch.stack([(layer == 0).float().mean() for layer in ledger.open]).mean()
        opened = {"open_share": keys / edges, "keys_a_query": keys, "empty_rows": empty}
        if recipe.target_open:
            aim, bounded = losses.lost.mean(), [(aim, 1.0)]
            seen = [(torch.stack(ledger.surely).sum().clamp(min=1) / rows / edges).log()]
    weights = [bound.multiplier * share for bound, (_, share) in zip(training.bounds, bounded, strict=True)]
    broken = [term - bound.tolerance for bound, (term, _) in zip(training.bounds, bounded, strict=True)]
    total = torch.stack([weight * by for weight, by in zip(weights, broken, strict=True)]).sum()
    if aim is not None:
        # Only the ratio of the terms matters to what is found; the sum is scaled so that gradients keep their size.
        total = (aim + total) / (1 + sum(weights))
    training.optimizer.zero_grad(set_to_none=True)
    accelerator.backward(total)
    gradient = torch.nn.utils.clip_grad_norm_(list(trainee.parameters.values()), GRADIENT_NORM)
    found = {"loss": losses.loss, "dense_loss": losses.dense, **opened, "gradient": gradient}
    shares = torch.tensor([share for _, share in bounded])
    lost = torch.stack([each.float().cpu() for each in seen]) * shares
    stacked = torch.cat([torch.stack([number.detach().float().cpu() for number in found.values()]), lost, shares])
    numbers: Tensor = accelerator.reduce(stacked.to(accelerator.device), reduction="mean").cpu()
    if bool(torch.isfinite(numbers).all()):
        training.optimizer.step()
    told, lost, shares = numbers.split([len(found), len(bounded), len(bounded)])
    row = {"step": step + 1.0, **dict(zip(found, told.tolist(), strict=True))}
    for bound, now, share in zip(training.bounds, lost.tolist(), shares.tolist(), strict=True):
        multiplier = bound.multiplier
        if share and math.isfinite(now):
            bound.update(now / share)
        seen_as = "log_hard_open_share" if bound.name == OPEN else f"{bound.name}_lost"
        row[seen_as] = bound.lost if math.isfinite(now) else now
        row[f"{bound.name}_multiplier"] = multiplier
    return row


def log_ceiling(step: int, recipe: Recipe, rows: Rows) -> float:
    """The logarithm of the share of open edges that a step of a ladder may have: down from the twin before, or from
    the first step's, to the target. A ceiling that falls all at once lets the multiplier rise tenfold beyond what holds
    the share, which then swings about its target and ends a fifth below it."""
    rung, first, end = recipe.rung_at(step)
    target = math.log(recipe.target_open[rung])
    above = math.log(recipe.target_open[rung - 1]) if rung else rows[0]["log_hard_open_share"] if rows else 0.0
    way = min((step - first) / max(DESCENT * (end - first), 1), 1.0)
    return target + (1 - way) * max(above - target, 0.0)


def schedule(step: int, recipe: Recipe) -> float:
    """The learning rate's factor: up over the warm-up, constant, then down to zero over the cool-down; for every twin
    of a ladder."""
    _, first, end = recipe.rung_at(step)
    up = min((step - first + 1) / max(recipe.warmup, 1), 1.0)
    last = recipe.cooldown * (end - first)
    down = min((end - step) / last, 1.0) if last else 1.0
    return min(up, down)
