"""A worker that is reached through a folder: errands are put into it, answers are taken out.

    setup.json      what the worker has to know
    errand-3.json   the third errand
    answer-3.json   what became of it
    pulse           written while the worker lives: when, who, and what it has paid of its errand
    driver          touched while the driver lives: a worker without a driver goes home

Processes of this machine and jobs of Slurm are reached so; the folder is on a disk that both see.
"""

import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.files import write_file
from ...core.provenance import Facts

if TYPE_CHECKING:
    from .hand import Answer, Setup

SETUP, PULSE, DRIVER = "setup.json", "pulse", "driver"
OFTEN = 0.01
"""Seconds between two looks for an errand."""


class Mailbox:
    """The driver's side."""

    def __init__(self, folder: Path, setup: "Setup") -> None:
        self.folder, self.given, self.answered = folder, 0, 0
        folder.mkdir(parents=True)
        self.beat()
        _put(folder / SETUP, setup)

    def beat(self) -> None:
        (self.folder / DRIVER).touch()

    @property
    def busy(self) -> bool:
        return self.given > self.answered

    def give(self, errand: Facts) -> None:
        self.given += 1
        _put(self.folder / f"errand-{self.given}.json", errand)

    def answer(self) -> "Answer | None":
        """What became of the errand, where that is known."""
        found: Answer | None = _read(self.folder / f"answer-{self.given}.json") if self.busy else None
        if found is not None:
            self.answered = self.given
        return found

    def forget(self) -> None:
        """The errand that was given: whoever had it is gone."""
        self.answered = self.given

    def pulse(self) -> "Pulse | None":
        """What the worker last showed of itself; None before it has come."""
        try:
            at, who, paid = (self.folder / PULSE).read_text().split()
            return Pulse(float(at), who, float(paid))
        except (OSError, ValueError):
            return None


@dataclass(frozen=True)
class Pulse:
    at: float
    """Seconds since 1970, by the worker's clock."""
    who: str
    """Another one when the worker has been started again."""
    paid: float


def serve(folder: Path, driver_lives: Callable[[], bool], beat: float) -> None:
    """The worker's side, until there is no driver any more; every `beat` seconds it shows that it lives."""
    from .hand import Hand  # torch is imported once the driver sees that there is somebody

    hand: Hand | None = None
    who, number = secrets.token_hex(4), 1
    while (folder / f"errand-{number}.json").exists():  # they were somebody else's, who is gone
        number += 1

    def show() -> None:
        _put_text(folder / PULSE, f"{time.time()} {who} {0.0 if hand is None else hand.paid.total}")

    def watch() -> None:
        while True:
            time.sleep(beat)
            if not driver_lives():
                os._exit(0)  # what is half done is of no use to anybody
            show()

    show()
    threading.Thread(target=watch, daemon=True).start()
    hand = Hand(json.loads((folder / SETUP).read_text()))
    while driver_lives():
        if (errand := _read(folder / f"errand-{number}.json")) is None:
            time.sleep(OFTEN if beat < 1 else beat / 10)
            continue
        answer = hand.do(errand)
        _put(folder / f"answer-{number}.json", answer)
        number += 1


def _put(path: Path, facts: Mapping[str, object]) -> None:
    write_file(path, json.dumps(facts))


def _put_text(path: Path, text: str) -> None:
    """Without waiting for the disk: it comes again in a moment."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    os.replace(part, path)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


if __name__ == "__main__":  # started by `local.py`
    serve(Path(sys.argv[1]), lambda: os.getppid() == int(sys.argv[2]), beat=0.2)
