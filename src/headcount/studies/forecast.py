"""A plan before it runs: its steps, which of them are cached, and what they take."""

import math
import time
from typing import cast

from typing_extensions import TypedDict

from ..core.cache import Result, Store
from ..core.errors import HeadcountError, in_short
from ..core.progress import waiting
from ..meters.memory import show_bytes
from ..meters.speed import fitted_tokens_a_second, tokens_a_second
from ..view.tables import print_table, say
from .bench import Bench
from .plan import Step
from .runner import plan_study
from .shapes import SPEED, needs_of, shape_name, stand_in
from .study import Study


class PlannedStep(TypedDict):
    """One step of a plan, for scripts too."""

    step: str
    cached: bool
    forwards: int
    seconds: float
    bytes: int  # beyond the model


Timed = tuple[str, int, int]
"""A model, prompts of an update where it is fitted, and their tokens."""
START, END = "start: libraries, models, prompts", "end: figures, tables, report"
"""What a run does beside its steps."""
WRITING, EACH_PANEL = 3.0, 1.0
"""Seconds that the end takes: of any study, and for each of its panels, with its repeats and its page (measured on one
core, 2026-11-18)."""


def plan_facts(study: Study, memory: int | None, started: float | None = None) -> list[PlannedStep]:
    """The steps, and what is done before and after them. A run starts as this does, so that the start takes as long as
    from `started` (now, by default) until the plan is made. The time of steps comes from passes that are run for a
    moment."""
    started = time.monotonic() if started is None else started
    bench, store = Bench(names=study.models), Store()
    with waiting("planning"):
        steps = plan_study(study, bench, memory).plan.steps
        start = time.monotonic() - started
        timed: dict[Timed, float] = {}
        seconds = [step.cost / _speed(step, bench, timed) for step in steps]
    found: list[PlannedStep] = [_beside(START, start)]
    for step, each in zip(steps, seconds, strict=True):
        told = {"step": step.label, "cached": store.has(step.key), "forwards": step.forwards, "seconds": each}
        found.append(cast(PlannedStep, {**told, "bytes": step.memory}))
    return [*found, _beside(END, WRITING + EACH_PANEL * len(study.panels))]


def _speed(step: Step[Result], bench: Bench, timed: dict[Timed, float]) -> float:
    """Tokens a second of a step's passes, each kind of which is timed once; without end where no model is needed."""
    if step.subject is None:
        return math.inf
    length = round(step.cost / step.forwards) if step.fitted and step.forwards else 1
    kind = step.subject.model, step.fitted, max(length, 1)
    if kind not in timed:
        model = bench.model(step.subject.model, step.subject.asked)
        timed[kind] = fitted_tokens_a_second(model, *kind[1:]) if step.fitted else tokens_a_second(model)
    return timed[kind]


def _beside(name: str, seconds: float) -> PlannedStep:
    return {"step": name, "cached": False, "forwards": 0, "seconds": seconds, "bytes": 0}


def print_plan(study: Study, memory: int | None, started: float | None = None) -> None:
    """One row per step; where a model is not here and its shape is known, one row per model, for a GPU."""
    try:
        found, rows = plan_facts(study, memory, started), list[tuple[str, ...]]()
    except HeadcountError as error:
        if not all(map(shape_name, study.models)):
            raise
        return _print_needs(study, memory, str(error))
    for step in found:
        time_left = "cached" if step["cached"] else show_seconds(step["seconds"])
        own = (f"{step['forwards']:,}", time_left, show_bytes(step["bytes"]))
        rows.append((step["step"], *(("", time_left, "") if step["step"] in (START, END) else own)))
    print_table(("step", "forwards", "time", "memory"), rows)
    left = sum(step["seconds"] for step in found if not step["cached"])
    count, cached = len(found) - 2, sum(step["cached"] for step in found)
    most = show_bytes(max(step["bytes"] for step in found))
    done = f"{count} steps, {cached} of them cached; about {show_seconds(left)} in all, and at most {most}"
    say(f"{done} beyond the model. Forwards: prompts run; a backward pass counts as one.")


def _print_needs(study: Study, memory: int | None, why: str) -> None:
    bench = Bench(stand_in, study.models)
    found = needs_of(plan_study(study, bench, memory).plan.steps, bench)
    rows = []
    for needs in found:
        sizes = show_bytes(needs.weights), show_bytes(needs.beyond)
        rows.append((needs.model, str(needs.steps), f"{needs.tokens:,.0f}", f"{needs.hours:.2g}", *sizes))
    say(f"Not all models are here ({in_short(Exception(why), 100)}), so this is from their shapes alone.")
    print_table(("model", "steps", "tokens", "GPU hours", "weights", "beyond them"), rows)
    say(f"GPU hours: plain forward passes at {SPEED:.0e} operations a second, a sixth of an A100's best.")
    say(f"{sum(needs.hours for needs in found):.2g} GPU hours in all; --on ray or slurm shares out the steps.")


def show_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
