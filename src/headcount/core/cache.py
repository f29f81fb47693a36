"""The user's cache folder, and in it the results of finished steps, each in a folder named by its key.

steps/KEY/step.json        what the step was: everything that its result depends on
steps/KEY/...              the result, as it saves itself
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

from platformdirs import user_cache_path

from .errors import HeadcountError
from .files import write_file, write_folder
from .provenance import Facts

DESCRIPTION = "step.json"


class Result(Protocol):
    def save(self, folder: str | Path) -> Path: ...

    @classmethod
    def load(cls, folder: str | Path) -> Self: ...


R = TypeVar("R", bound=Result)


def cache_folder() -> Path:
    """Where converted models and finished steps are kept: $HEADCOUNT_CACHE, else the platform's cache folder."""
    own = os.environ.get("HEADCOUNT_CACHE")
    return Path(own).expanduser() if own else user_cache_path("headcount", appauthor=False)


@dataclass(frozen=True)
class Entry:
    """A finished step on disk."""

    key: str
    folder: Path
    label: str
    bytes: int
    age: float  # seconds since it was written


class Store:
    """Results of steps by their keys."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "steps"

    def has(self, key: str) -> bool:
        return (self.folder / key / DESCRIPTION).is_file()

    def find(self, key: str, kind: type[R]) -> R | None:
        """The result, if it is there and whole; a damaged one is removed, to be computed again."""
        place = self.folder / key
        if self.has(key):
            with suppress(HeadcountError):
                return kind.load(place)
        shutil.rmtree(place, ignore_errors=True)
        return None

    def keep(self, key: str, result: R, description: Facts) -> R:
        """Keep a result, which appears whole or not at all, and give it back as it will be found."""
        with write_folder(self.folder / key) as unfinished:
            result.save(unfinished)
            write_file(unfinished / DESCRIPTION, json.dumps(description, indent=1, sort_keys=True) + "\n")
        try:
            return type(result).load(self.folder / key)
        except HeadcountError:
            return result  # Another process is just putting the same one there.

    def description(self, key: str) -> Facts:
        """What a finished step was; `key` may be its beginning."""
        found = [entry for entry in self.entries() if entry.key.startswith(key)]
        if len(found) != 1:
            raise HeadcountError(f"{len(found) or 'No'} finished steps have a key that begins with {key!r}.")
        facts: Facts = json.loads((found[0].folder / DESCRIPTION).read_text(encoding="utf-8"))
        return facts

    def entries(self) -> Iterator[Entry]:
        """Finished steps, the oldest first."""
        found = []
        for path in self.folder.glob(f"[!.]*/{DESCRIPTION}"):  # hidden ones are being written
            place = path.parent
            with suppress(OSError, ValueError):  # one that goes away meanwhile is left out
                facts, age = json.loads(path.read_text(encoding="utf-8")), time.time() - place.stat().st_mtime
                found.append(Entry(place.name, place, str(facts.get("label", "")), folder_bytes(place), age))
        yield from sorted(found, key=lambda entry: -entry.age)

    def clean(self, older_than: float = 0.0) -> tuple[int, int]:
        """Remove steps that are older than some seconds; how many, and their bytes."""
        removed = [entry for entry in self.entries() if entry.age >= older_than]
        for entry in removed:
            shutil.rmtree(entry.folder, ignore_errors=True)
        return len(removed), sum(entry.bytes for entry in removed)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
