"""A plan before it runs: its steps, which of them are cached, and what they take."""

from ..core.cache import Store
from ..core.progress import waiting
from ..meters.memory import show_bytes
from ..meters.speed import tokens_a_second
from ..view.tables import print_table
from .bench import Bench
from .runner import plan_study
from .study import Study


def print_plan(study: Study, memory: int | None) -> None:
    """A row a step. Time is that of plain forward passes, which are run for a moment to know how long they take."""
    bench, store = Bench(names=study.models), Store()
    steps = plan_study(study, bench, memory).plan.steps
    with waiting("timing a forward pass"):
        asked = {step.subject.model: step.subject.asked for step in steps if step.subject is not None}
        speed = {name: tokens_a_second(bench.model(name, asked)) for name, asked in asked.items()}
    rows, left = [], dict[str, float]()
    for step in steps:
        cached, seconds = store.has(step.key), step.cost / speed[step.subject.model] if step.subject else 0.0
        if not cached:
            left[step.key] = seconds
        words, time_left = ("cached", "") if cached else ("", show_seconds(seconds))
        rows.append((step.label, words, f"{step.forwards:,}", time_left, show_bytes(step.memory)))
    print_table(("step", "", "forwards", "time", "memory"), rows)
    most = max(step.memory for step in steps)
    done, total = len(steps) - len(left), show_seconds(sum(left.values()))
    print(f"{len(steps)} steps, {done} of them cached; about {total} left, and at most")
    print(f"{show_bytes(most)} beyond the model. Forwards: prompts run; a backward pass counts as one.")


def show_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
