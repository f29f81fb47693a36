"""A crew whose workers are reached through folders: processes of this machine, jobs of Slurm."""

import shutil
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from ...core.cache import Store
from ...core.errors import HeadcountError
from ...core.progress import Bar
from ..bench import Bench
from ..plan import Found, Plan
from .crew import Here, News
from .errand import Errand
from .hand import setup_of
from .mailbox import OFTEN, Mailbox
from .schedule import TRIES, Ledger, Schedule


class Boxes(ABC):
    """An executor and its crew. The workers stay for the next plan, until `close` or the end of a `with`."""

    several = True
    beat: float
    """Seconds after which the driver shows that it lives, and hears how far the workers are."""

    def __init__(self, workers: int, place: Path | None = None) -> None:
        """`place`: where the folders are; among the temporary files by default."""
        self.workers, self.place = workers, place
        self.folder: Path | None = None
        self.boxes = dict[str, Mailbox]()
        self._who = dict[str, str]()
        self._in_vain = 0
        self._bench: Bench
        self._store: Store

    def __call__(self, plan: Plan, bench: Bench, store: Store, bar: Bar, ledger: Ledger, before: Found) -> Found:
        if self.folder is not None and (store.folder, bench.names) != (self._store.folder, self._bench.names):
            self.close()  # its workers were told of another cache
        self._bench, self._store = bench, store
        here = Here(bench, store, bar)
        done = False
        try:
            found = Schedule(plan, self, here, bar, ledger, before).run()
            done = True
            return found
        finally:
            if not done:
                self.close()  # what is running is of no use any more

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def start(self, boxes: Sequence[Mailbox]) -> None:
        """Bring the workers."""

    @abstractmethod
    def lives(self, worker: str, box: Mailbox) -> bool:
        """Whether a worker is there, or may still come."""

    @abstractmethod
    def gone(self, worker: str, box: Mailbox) -> str:
        """Called when a worker is lost; bring another where that can be. Says why it went, where that is known."""

    @abstractmethod
    def stop(self) -> None:
        """Send the workers home."""

    def share(self) -> float:
        """Of a machine's memory that is one worker's own."""
        return 1.0

    def idle(self) -> Sequence[str]:
        if self.folder is None:
            self._bring()
        return [name for name, box in self.boxes.items() if not box.busy and box.pulse() and self.lives(name, box)]

    def begin(self, worker: str, errand: Errand) -> None:
        pulse = self.boxes[worker].pulse()
        self._who[worker] = pulse.who if pulse else ""
        self.boxes[worker].give(errand.plain())

    def news(self) -> list[News]:
        until, found = time.monotonic() + self.beat, list[News]()
        some = {name for name, box in self.boxes.items() if not box.busy and box.pulse()}
        while not found and time.monotonic() < until:
            for name, box in self.boxes.items():
                if (answer := box.answer()) is not None:
                    found.append(News(name, answer["kind"], answer["words"], answer["paid"]))
            if any(name not in some and box.pulse() and not box.busy for name, box in self.boxes.items()):
                return found  # somebody has come
            if not found:
                time.sleep(OFTEN)
        self._in_vain = 0 if found else self._in_vain
        for name, box in list(self.boxes.items()):
            pulse = box.pulse()
            if not self.lives(name, box) or (box.busy and pulse and pulse.who != self._who[name]):
                if (answer := box.answer()) is not None:  # its last act
                    found.append(News(name, answer["kind"], answer["words"], answer["paid"]))
                    continue
                box.forget()
                found.append(News(name, "lost", self.gone(name, box)))
                self._in_vain += 1
                if self._in_vain > TRIES * self.workers:
                    raise HeadcountError(
                        f"Workers end as soon as they begin: {found[-1].words}. Finished steps are kept."
                    )
            elif box.busy and pulse:
                found.append(News(name, "paid", paid=pulse.paid))
        return found

    def close(self) -> None:
        if self.folder is not None:
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder, self.boxes = None, {}

    def _bring(self) -> None:
        if self.place is not None:
            self.place.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="headcount-", dir=self.place))
        setup = setup_of(self._store, self._bench.names, self.share())
        names = [f"worker {number + 1}" for number in range(self.workers)]
        self.boxes = {name: Mailbox(self.folder / name.replace(" ", "-"), setup) for name in names}
        self._bench.clear()  # its models were needed for the plan; the workers need the memory
        threading.Thread(target=self._show, args=(self.folder,), daemon=True).start()
        self.start(list(self.boxes.values()))

    def _show(self, folder: Path) -> None:
        """That the driver lives, for as long as it does."""
        while self.folder == folder:
            for box in list(self.boxes.values()):
                with suppress(OSError):  # they are being cleared away
                    box.beat()
            time.sleep(self.beat)
