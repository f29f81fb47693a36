"""A plan before it runs: its steps, which of them are cached, and what they take."""

from ..core.cache import Store
from ..core.errors import HeadcountError, in_short
from ..core.progress import say, waiting
from ..meters.memory import show_bytes
from ..meters.speed import tokens_a_second
from ..view.tables import print_table
from .bench import Bench
from .runner import plan_study
from .shapes import SPEED, needs_of, shape_name, stand_in
from .study import Study


def print_plan(study: Study, memory: int | None) -> None:
    """A row a step. Time is that of plain forward passes, which are run for a moment to know how long they take. Where
    a model is not here and its shape is known, a row a model, for a GPU."""
    bench, store = Bench(names=study.models), Store()
    try:
        steps = plan_study(study, bench, memory).plan.steps
    except HeadcountError as error:
        if not all(map(shape_name, study.models)):
            raise
        return _print_needs(study, memory, str(error))
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


def _print_needs(study: Study, memory: int | None, why: str) -> None:
    bench = Bench(stand_in, study.models)
    found = needs_of(plan_study(study, bench, memory).plan.steps, bench)
    rows = []
    for needs in found:
        sizes = show_bytes(needs.weights), show_bytes(needs.beyond)
        rows.append((needs.model, str(needs.steps), f"{needs.tokens:,.0f}", f"{needs.hours:.2g}", *sizes))
    say(f"Not all models are here ({in_short(Exception(why), 100)}), so this is from their shapes alone.")
    print_table(("model", "steps", "tokens", "GPU hours", "weights", "beyond them"), rows)
    print(f"GPU hours: plain forward passes at {SPEED:.0e} operations a second, a sixth of an A100's best.")
    print(f"{sum(needs.hours for needs in found):.2g} GPU hours in all; --on ray or slurm shares out the steps.")


def show_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
