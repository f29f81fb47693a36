"""What a model can do, and how much it attends to while it does it: on the test prompts of tasks, gates hard.

Text of other kinds than training saw tells what training forgot, and prompts are shorter than sequences of text: a
share of open edges, or of rows that attend to nothing, holds for the prompts that it was counted on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..meters.metrics import accuracy
from ..models import Model
from ..models.gates import counted, drawn, gates_of
from ..tasks.batches import batches
from ..tasks.examples import Task

MAX_TOKENS = 2048


@dataclass(frozen=True)
class Ability:
    """On the test prompts of one task."""

    prompts: int
    accuracy: float
    keys_a_query: float | None  # open keys of a (head, query); None where there are no gates
    empty_rows: float | None  # share of (head, query) that attend to nothing


def abilities(model: Model, tasks: Sequence[Task]) -> dict[str, Ability]:
    return {task.name: ability(model, task) for task in tasks}


@torch.no_grad()
def ability(model: Model, task: Task) -> Ability:
    gates, examples = gates_of(model), task.split("test")
    right = rows = keys = empty = 0.0
    for _, batch in batches(examples, model.device, MAX_TOKENS):
        with counted(gates) as ledger, drawn(gates, "hard"):
            logits = model.last_logits(batch.clean, batch.spots, rows=batch.rows)
        right += float(accuracy(logits.float(), batch).sum())
        real = batch.real()[:, None]  # the padding behind a prompt attends too, and is no part of it
        for opened in ledger.open:
            there = real.to(opened.device).expand_as(opened)
            rows += float(there.sum())
            keys += float(opened[there].sum())
            empty += float((opened[there] == 0).sum())
    sparse = (keys / rows, empty / rows) if rows else (None, None)
    return Ability(len(examples), right / len(examples), *sparse)
