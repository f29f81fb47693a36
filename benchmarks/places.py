"""What it costs to run a study of 40 steps elsewhere, beside the same study in one process. Workers are there already:
their start, some seconds each, is not counted."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

import headcount as hc
from headcount.core.cache import Store
from headcount.core.progress import progress_bar
from headcount.studies.bench import Bench
from headcount.studies.executors.in_process import in_process
from headcount.studies.executors.schedule import Ledger
from headcount.studies.plan import Found
from headcount.studies.runner import plan_study
from headcount.studies.study import read_study

STEPS = 40
TASKS = ["ioi", "greater-than"]
ASKED = {"n": 60, "points": 12, "draws": 2, "method": "attribution", "repeats": 9, "orders": ["absolute", "chance"]}


@dataclass(frozen=True)
class PlacesBench:
    """A study whose steps are planned, and computed anew each time."""

    model: hc.Model
    prompts: str
    baseline: str = "the same study in one process"
    _study: Any = field(default_factory=lambda: read_study("heads-kept", models=["tiny"], tasks=TASKS, overrides=ASKED))

    def forward(self) -> None:
        self.run(in_process)

    def run(self, executor: Any) -> None:
        bench = Bench(names=self._study.models)
        plan = plan_study(self._study, bench).plan
        assert len(plan.steps) == STEPS, len(plan.steps)
        place = Path(tempfile.gettempdir()) / f"headcount-places-{os.getpid()}"  # workers stay with one cache
        shutil.rmtree(place, ignore_errors=True)
        with progress_bar(1, quiet=True) as bar:
            executor(plan, bench, Store(place), bar, Ledger(), Found())


@cache
def workers(on: str, count: int) -> Any:
    """One thread each, as the baseline has while this is measured."""
    return hc.executor(on, workers=count)


def tiny_places() -> PlacesBench:
    torch.set_num_threads(1)
    return PlacesBench(hc.load("tiny"), f"{STEPS} steps of heads-kept")


def jobs_of(bench: PlacesBench) -> Iterator[tuple[str, str, str, float, Callable[[], object]]]:
    for on, count, goal in (("local", 1, "1.1"), ("local", 2, "1"), ("ray", 1, "1.1")):
        where = {"local": "processes", "ray": "Ray"}[on]
        run = partial(lambda on, count: bench.run(workers(on, count)), on, count)
        yield f"{on}-{count}", f"{where}, {count} at a time", goal, 1, run
