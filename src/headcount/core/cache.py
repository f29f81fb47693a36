"""The user's cache folder, and in it the results of finished steps, each in a folder named by its key.

steps/KEY/step.json        what the step was: everything that its result depends on
steps/KEY/...              the result, as it saves itself
steps/KEY/SHA256SUMS       the checksums of both
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

from platformdirs import user_cache_path

from .checksums import damage, is_whole, write_sums
from .errors import HeadcountError, in_short
from .files import clear_unfinished, write_file, write_folder
from .progress import say
from .provenance import Facts
from .reading import local_path

DESCRIPTION = "step.json"


class Result(Protocol):
    def save(self, folder: str | Path) -> Path: ...

    @classmethod
    def load(cls, folder: str | Path) -> Self: ...


R = TypeVar("R", bound=Result)


def cache_folder() -> Path:
    """Where converted models and finished steps are kept: $HEADCOUNT_CACHE, else the platform's cache folder."""
    own = os.environ.get("HEADCOUNT_CACHE")
    return local_path(own) if own else user_cache_path("headcount", appauthor=False)


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
        return is_whole(self.folder / key)

    def there(self, key: str) -> bool:
        """Whether there is something, whole or damaged."""
        return (self.folder / key).exists()

    def find(self, key: str, kind: type[R], label: str = "") -> R | None:
        """The result, if it is there and whole; a damaged one is said, and left for `keep` to replace."""
        place = self.folder / key
        if not place.exists():
            return None
        wrong = damage(place)
        if not wrong:
            try:
                return kind.load(place)
            except HeadcountError as error:
                wrong = in_short(error)
        say(f"The finished step {label or key} in the cache is damaged: {wrong}. It is computed again.")
        return None

    def keep(self, key: str, result: R, description: Mapping[str, object]) -> R:
        """Keep a result, which appears whole or not at all, and give it back as it will be found."""
        place = self.folder / key
        if place.is_dir() and not os.access(place, os.R_OK | os.X_OK):
            return result  # It belongs to somebody else, who shares the cache and not this.
        with write_folder(place, is_whole) as unfinished:
            result.save(unfinished)
            write_file(unfinished / DESCRIPTION, json.dumps(description, indent=1, sort_keys=True) + "\n")
            write_sums(unfinished, key)
        try:
            return type(result).load(place)
        except HeadcountError:
            return result  # Somebody has just removed it.

    def files(self, key: str) -> dict[str, bytes]:
        """A finished step by value, for a store on another machine: its files by their names."""
        place = self.folder / key
        return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}

    def take(self, key: str, files: Mapping[str, bytes]) -> None:
        """What `files` gave elsewhere; refused where it is not whole."""
        with write_folder(self.folder / key, is_whole) as unfinished:
            for name, data in files.items():
                (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
                write_file(unfinished / name, data)
        if wrong := damage(self.folder / key):
            raise HeadcountError(f"The step {key} did not arrive whole: {wrong}.")

    def description(self, key: str) -> Facts:
        """What a finished step was; `key` may be its beginning."""
        found = [entry for entry in self.entries() if entry.key.startswith(key)]
        if len(found) != 1:
            raise HeadcountError(f"{len(found) or 'No'} finished steps have a key that begins with {key!r}.")
        if wrong := damage(found[0].folder):
            raise HeadcountError(f"The finished step {found[0].key} is damaged: {wrong}. A study computes it again.")
        facts: Facts = json.loads((found[0].folder / DESCRIPTION).read_text(encoding="utf-8"))
        return facts

    def entries(self) -> Iterator[Entry]:
        """Finished steps, the oldest first."""
        found = []
        for place in self.folder.glob("[!.]*"):  # hidden ones are being written
            with suppress(OSError):  # one that goes away meanwhile is left out
                age = time.time() - place.stat().st_mtime
                found.append(Entry(place.name, place, _label(place), folder_bytes(place), age))
        yield from sorted(found, key=lambda entry: -entry.age)

    def clean(
        self, older_than: float = 0.0, agree: Callable[[list[Entry]], bool] = lambda found: True
    ) -> tuple[int, int]:
        """Remove steps that are older than some seconds, or damaged, and what killed runs have left, if `agree` says so
        of the steps; how many, and their bytes."""
        found = [
            e for e in self.entries() if e.age >= older_than or (os.access(e.folder, os.R_OK) and damage(e.folder))
        ]
        if not agree(found):
            return 0, 0
        if self.folder.is_dir():
            clear_unfinished(self.folder)
        for entry in found:
            shutil.rmtree(entry.folder, ignore_errors=True)
        removed = [entry for entry in found if not entry.folder.exists()]
        return len(removed), sum(entry.bytes for entry in removed)


def _label(place: Path) -> str:
    try:
        return str(json.loads((place / DESCRIPTION).read_text(encoding="utf-8"))["label"])
    except PermissionError:
        return "of another user"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "damaged"


def folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # what goes away meanwhile counts no more
            total += path.stat().st_size if path.is_file() else 0
    return total
