"""The models and tasks on which rankings are compared, with what is known to be true of them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import compiled
import torch
import truth

import headcount as hc

PLANTED = Path(__file__).parent.parent / "tests" / "golden" / "planted"
TASKS = ("ioi", "greater-than", "docstring", "ioi-long")


@dataclass(frozen=True)
class Case:
    """A model and a task; both are made when they are asked for."""

    model_name: str
    task_name: str
    model: Callable[[], hc.Model]
    task: Callable[[int], hc.Task]  # from a number of pairs, half of them for training
    known: Callable[[hc.Task], truth.Known] | None = None


def compiled_cases(name: str) -> Iterator[Case]:
    program = compiled.program(name)
    load = lru_cache(program.load)
    for task in program.pairs:
        yield Case(name, task, load, partial(program.task, task), partial(_true_of, program))


def _true_of(program: compiled.Program, task: hc.Task) -> truth.Known:
    return truth.of_program(program.load(torch.float64), task)


def planted_cases() -> Iterator[Case]:
    yield Case("planted", "planted", lru_cache(partial(hc.load, str(PLANTED))), planted_pairs, _true_of_planted)


def planted_pairs(n: int = 128) -> hc.Task:
    """The planted model's prompts, each with the next one of another answer as its counterfactual: the two have
    nothing in common, so that every part of the circuit carries something else."""
    raw = json.loads((PLANTED / "prompts.json").read_text())
    rows = list(zip(raw["prompts"], raw["targets"], strict=True))[:n]
    pairs = []
    for place, (clean, answer) in enumerate(rows):
        corrupt, wrong = next(row for row in (*rows[place:], *rows) if row[1] != answer)
        pairs.append(hc.Pair(tuple(clean), tuple(corrupt), (answer,), (wrong,)))
    half = len(pairs) // 2
    return hc.Task("planted", "Planted", "logit_diff", tuple(pairs[:half]), tuple(pairs[half:]))


def _true_of_planted(task: hc.Task) -> truth.Known:
    return truth.by_patching(hc.load(str(PLANTED), dtype="float64"), task)


def trained_cases(name: str) -> Iterator[Case]:
    load = lru_cache(partial(hc.load, name))
    for task in TASKS:
        yield Case(name, task, load, lambda n, task=task: hc.task(task, load(), n=n))


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "planted": planted_cases,
    **{name: partial(compiled_cases, name) for name in compiled.NAMES},
    **{name: partial(trained_cases, name) for name in ("tiny", "tiny-sparse", "smollm2", "smollm2-sparse")},
}
SMALL = tuple(name for name in CASES if not name.startswith("smollm2"))
