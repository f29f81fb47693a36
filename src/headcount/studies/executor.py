"""Executors: they take a plan and come back with the results of its steps. Here in this process, one by one."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..core.cache import Store
from ..core.errors import HeadcountError
from ..core.progress import Bar
from .bench import Bench
from .plan import Found, Plan


@dataclass
class Ledger:
    """What was computed and what was found: the labels of steps by their keys."""

    computed: dict[str, str] = field(default_factory=dict)
    cached: dict[str, str] = field(default_factory=dict)


Executor = Callable[[Plan, Bench, Store | None, Bar, Ledger, Found], Found]
"""Comes back with the results of all steps; those that were found before, or that the store has, are not computed."""


def in_process(plan: Plan, bench: Bench, store: Store | None, bar: Bar, ledger: Ledger, before: Found) -> Found:
    """Steps in their order. A refusal ends the study, unless the step is optional: then it is the step's result."""
    found = Found(dict(before.results))
    for step in (step for step in plan.steps if step.key not in before.results):
        bar.describe(step.label)
        begun, paid = time.monotonic(), Paid(bar.advance)
        kept = None if store is None else store.find(step.key, step.returns, step.label)
        try:
            result = kept
            if result is None:
                job = bench.job(step, paid, bar.note)
                result = step.compute(job, [found[needed] for needed in step.needs])
        except HeadcountError as error:
            if not step.optional:
                raise
            found.results[step.key] = error
        else:
            (ledger.computed if kept is None else ledger.cached)[step.key] = step.label
            if store is not None and kept is None:
                facts = {**step.description, "label": step.label, "seconds": round(time.monotonic() - begun, 3)}
                result = store.keep(step.key, result, facts)
            found.results[step.key] = result
        bar.drop(step.cost - paid.total)  # found in the cache, or less than forecast
    return found


@dataclass
class Paid:
    """How much of a step's cost the bar has been told."""

    tell: Callable[[float], None]
    total: float = 0.0

    def __call__(self, amount: float) -> None:
        self.total += amount
        self.tell(amount)
