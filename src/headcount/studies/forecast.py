"""A plan before it runs: its steps, which of them are cached, and what they take."""

import time
from collections.abc import Mapping, Sequence

import torch

from ..core.cache import Store
from ..core.progress import waiting
from ..meters.memory import show_bytes
from ..models import Model
from ..view.tables import print_table
from .bench import Bench
from .plan import Plan
from .runner import plan_study
from .study import read_study

TIMED_TOKENS, TIMED_LENGTH = 1024, 32


def print_plan(
    study: str,
    *,
    models: Sequence[str] = (),
    tasks: Sequence[str] = (),
    quick: bool = False,
    overrides: Mapping[str, object] | None = None,
    memory: int | None = None,
) -> None:
    """A row a step. Time is that of plain forward passes, which are run for a moment to know how long they take."""
    read = read_study(study, quick=quick, models=models, tasks=tasks, overrides=overrides)
    bench = Bench(names=read.models)
    plan = plan_study(read, bench, memory).plan
    store = Store()
    with waiting("timing a forward pass"):
        speed = {name: tokens_a_second(bench.model(name)) for name in read.models}
    rows = []
    for step in plan.steps:
        cached = store.has(step.key)
        seconds = 0.0 if step.subject is None else step.cost / speed[step.subject.model]
        taken = ("cached", "") if cached else ("", show_seconds(seconds))
        rows.append((step.label, taken[0], f"{step.forwards:,}", taken[1], show_bytes(step.memory)))
    print_table(("step", "", "forwards", "time", "memory"), rows)
    left = seconds_left(plan, store, speed)
    done = sum(store.has(step.key) for step in plan.steps)
    most = max(step.memory for step in plan.steps)
    print(f"{len(plan.steps)} steps, {done} of them cached; about {show_seconds(left)} left, and at most")
    print(f"{show_bytes(most)} beyond the model. Forwards: prompts run; a backward pass counts as one.")


def seconds_left(plan: Plan, store: Store, speed: Mapping[str, float]) -> float:
    waiting_steps = [step for step in plan.steps if step.subject is not None and not store.has(step.key)]
    return sum(step.cost / speed[step.subject.model] for step in waiting_steps if step.subject)


@torch.no_grad()
def tokens_a_second(model: Model) -> float:
    """Of a plain forward pass, the better of two."""
    ids = torch.zeros((TIMED_TOKENS // TIMED_LENGTH, TIMED_LENGTH), dtype=torch.long, device=model.device)
    times = []
    for _ in range(2):
        begun = time.perf_counter()
        model.run(ids)
        times.append(time.perf_counter() - begun)
    return TIMED_TOKENS / min(times)


def show_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
