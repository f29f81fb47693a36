"""One thread that owns the model, and the queue before it.

A job is a generator: each event it yields goes to who asked (an empty one to nobody), and between two events other jobs
may run. Urgent jobs (clicks) come before patient ones (continuations, rankings), which take turns. A newer job of the
same client and kind overtakes the older: that one is dropped, if need be between two layers of a forward pass.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ...core.errors import HeadcountError

Event = dict[str, object]
Work = Callable[[], Iterator[Event]]
Stoppable = Callable[[Callable[[], None]], AbstractContextManager[None]]
MOST_WAITING = 512


class OvertakenError(HeadcountError):
    """A newer request has taken the place of this one."""


@dataclass(eq=False)
class Job:
    """Something asked of the model. `tell` is called in the worker's thread with every event, and with the error or
    with None at the end."""

    client: str
    kind: str
    work: Work
    tell: Callable[[Event | Exception | None], None]
    urgent: bool = True
    dropped: bool = False
    _running: Iterator[Event] | None = field(default=None, repr=False)

    def check(self) -> None:
        if self.dropped:
            raise OvertakenError("A newer request has overtaken this one, or it was cancelled.")

    def step(self) -> bool:
        """Go on to the next event; False where that was the end."""
        try:
            self.check()
            if self._running is None:
                self._running = self.work()
            event = next(self._running)
        except StopIteration:
            self.tell(None)
            return False
        except Exception as error:  # told to who asked; the worker goes on
            self.tell(error)
            return False
        if event:
            self.tell(event)
        return True

    def close(self) -> None:
        close = getattr(self._running, "close", None)
        if close is not None:
            close()


class Worker:
    """Runs jobs one at a time, in a thread of its own."""

    def __init__(self, stoppable: Stoppable) -> None:
        self._stoppable = stoppable
        self._waiting: deque[Job] = deque()
        self._current: Job | None = None
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="headcount model", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                raise HeadcountError(f"{MOST_WAITING} requests are waiting already. Try again in a while.")
            for older in [*self._waiting, *([self._current] if self._current else [])]:
                if (older.client, older.kind) == (job.client, job.kind):
                    older.dropped = True
            self._waiting.append(job)
            self._changed.notify()

    def drop(self, job: Job) -> None:
        """Who asked has gone."""
        job.dropped = True

    def stop(self) -> None:
        """Drop everything, and end the thread: at the latest when the layer that runs has finished."""
        with self._changed:
            self._ended = True
            for job in [*self._waiting, *([self._current] if self._current else [])]:
                job.dropped = True
            self._changed.notify()
        self._thread.join(10)

    def _next(self) -> Job | None:
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
            if self._ended:
                return None
            chosen = next((job for job in self._waiting if job.urgent or job.dropped), self._waiting[0])
            self._waiting.remove(chosen)
            self._current = chosen
            return chosen

    def _run(self) -> None:
        while (job := self._next()) is not None:
            with self._stoppable(job.check):
                goes_on = job.step()
                while goes_on and job.urgent:
                    goes_on = job.step()
            with self._changed:
                self._current = None
                if goes_on:
                    self._waiting.append(job)
            if not goes_on:
                job.close()
        for job in self._waiting:
            job.step()  # tells who asked that it was dropped
