"""The schedule: which step a worker does next, what becomes of steps that are refused or lost, and one view of it all.

Every executor is this schedule with a crew of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from ...core.cache import Result, Store
from ...core.errors import HeadcountError
from ...core.keys import digest
from ...core.progress import Bar
from ..bench import Bench
from ..panel import loading_of
from ..plan import Found, Plan, Step
from .crew import HERE, Crew, Here, News
from .errand import Errand

TRIES = 5
"""After so many workers have died over a step, it is taken to be the step's fault."""


@dataclass
class Ledger:
    """What was computed and what was found: the labels of steps by their keys."""

    computed: dict[str, str] = field(default_factory=dict)
    cached: dict[str, str] = field(default_factory=dict)


Executor = Callable[[Plan, Bench, Store, Bar, Ledger, Found], Found]
"""Comes back with the results of all steps; those that were found before, or that the store has, are not computed."""


class WorkerError(Exception):
    """What nobody foresaw, in a worker; its traceback is in the words."""


class Schedule:
    """The steps of a plan, from the first that is handed out to the last result."""

    def __init__(self, plan: Plan, crew: Crew, here: Here, bar: Bar, ledger: Ledger, before: Found) -> None:
        self.crew, self.here, self.bar, self.ledger = crew, here, bar, ledger
        self.found = Found(dict(before.results))
        here.known = self.found.results
        self.waiting = {step.key: step for step in plan.steps if step.key not in before.results}
        self.running = dict[str, Step[Result]]()
        """By worker."""
        self.paid = dict[str, float]()
        """By worker, of the cost of what it does."""
        self.holds = dict[str, str]()
        """The model that each worker has in memory."""
        self.damaged, self.lost = set[str](), dict[str, int]()
        self.threads = torch.get_num_threads()
        # Steps on the longest way to the end come first, where several are done at a time; else the plan's order.
        self.urgent = longest_ways(plan) if crew.several else dict[str, float]()

    def run(self) -> Found:
        while self.waiting or self.running:
            while self._hand_out():
                pass
            for news in self.here.news() if HERE in self.running else self.crew.news():
                self._hear(news)
        return self.found

    def _hand_out(self) -> bool:
        """What can go now: to the store, to this process, to a worker. False where nothing can."""
        ready = [step for step in self.waiting.values() if all(need.key in self.found.results for need in step.needs)]
        settled = [self._settled(step) for step in ready]
        if any(settled):
            return True
        if HERE in self.running or not ready:
            return False
        if (plain := next((step for step in ready if step.subject is None), None)) is not None:
            return self._begin(self.here, HERE, plain)
        if not (idle := self.crew.idle()):
            return False
        worker, step = self._match(idle, ready)
        return self._begin(self.crew, worker, step)

    def _settled(self, step: Step[Result]) -> bool:
        """Whether there is nothing to do for it: the store has it by now, or what it needs was refused."""
        reasons = [found for need in step.needs if isinstance(found := self.found.results[need.key], HeadcountError)]
        if reasons:
            self._refused(step, str(reasons[0]))
            return True
        store = self.here.store
        if step.key in self.damaged or not store.there(step.key):
            return False
        kept = store.find(step.key, step.returns, step.label)
        if kept is None:
            self.damaged.add(step.key)
            return False
        self.bar.describe(step.label)
        self.ledger.cached[step.key] = step.label
        self._ends(step, kept)
        return True

    def _match(self, idle: Sequence[str], ready: Sequence[Step[Result]]) -> tuple[str, Step[Result]]:
        """A worker and a step, of the model that it holds where there is one; else of one that nobody holds."""
        ready = sorted(ready, key=lambda step: -self.urgent.get(step.key, 0.0))
        held = set(self.holds.values())
        for worker in idle:
            for step in ready:
                if self.holds.get(worker) == _model_of(step):
                    return worker, step
        alone = next((step for step in ready if _model_of(step) not in held), ready[0])
        return next((worker for worker in idle if worker not in self.holds), idle[0]), alone

    def _begin(self, crew: Crew, worker: str, step: Step[Result]) -> bool:
        self.running[worker] = self.waiting.pop(step.key)
        if step.subject is not None:
            self.holds[worker] = _model_of(step)
        self.paid[worker] = 0.0
        many = len(self.running)
        self.bar.describe(f"{many} at once · {step.label}" if many > 1 else step.label)
        crew.begin(worker, Errand.of(step, self.threads))
        return True

    def _hear(self, news: News) -> None:
        if news.kind == "paid":
            if news.worker in self.running:
                self.bar.advance(news.paid - self.paid[news.worker])
                self.paid[news.worker] = news.paid
            return
        step = self.running.pop(news.worker, None)
        if news.kind == "lost":
            self.holds.pop(news.worker, None)
        if step is None:
            return
        paid = news.paid if news.worker == HERE or not self.crew.several else self.paid[news.worker]
        if news.kind == "done":
            result = news.result or self.here.store.find(step.key, step.returns, step.label)
            if result is not None:
                self.ledger.computed[step.key] = step.label
                self._ends(step, result, paid)
                return
        if news.kind == "refused":
            self._refused(step, news.words)
        elif news.kind == "failed":
            raise WorkerError(news.words)
        else:  # its worker died, or what it has written cannot be read
            self.bar.advance(-paid)
            self.lost[step.key] = self.lost.get(step.key, 0) + 1
            if self.lost[step.key] >= TRIES:
                raise HeadcountError(
                    f"The step {step.label!r} has lost {TRIES} workers, one after the other ({news.words}). Does it fit"
                    " into their memory? Finished steps are kept."
                )
            self.waiting[step.key] = step

    def _refused(self, step: Step[Result], words: str) -> None:
        """That ends the study, unless the step is optional: then it is the step's result."""
        if not step.optional:
            raise HeadcountError(words)
        self._ends(step, HeadcountError(words))

    def _ends(self, step: Step[Result], result: Result | HeadcountError, paid: float = 0.0) -> None:
        self.waiting.pop(step.key, None)
        self.found.results[step.key] = result
        self.bar.drop(step.cost - paid)  # found in the cache, or less than forecast


def longest_ways(plan: Plan) -> dict[str, float]:
    """Of every step, the cost from its beginning to the end of what depends on it."""
    found = {step.key: step.cost for step in plan.steps}
    behind = dict[str, float]()
    for step in reversed(plan.steps):  # each stands behind those that it needs
        found[step.key] += behind.get(step.key, 0.0)
        for need in step.needs:
            behind[need.key] = max(behind.get(need.key, 0.0), found[step.key])
    return found


def _model_of(step: Step[Result]) -> str:
    assert step.subject is not None
    return digest([step.subject.model, loading_of(step.subject.asked["panel"])])
