"""Jobs: pure functions of their descriptions, named by a hash of them. That gives the cache, resume and provenance."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from ..cache import cache_folder, write_folder
from ..errors import HeadcountError


class Result(Protocol):
    def save(self, folder: str | Path) -> Path: ...

    @classmethod
    def load(cls, folder: str | Path) -> Self: ...


R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Job:
    """What is to be computed: everything that its result depends on, and nothing else."""

    description: dict[str, Any]

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(self.description, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def folder(self) -> Path:
        return cache_folder() / "jobs" / self.key

    def stored(self, kind: type[R]) -> R | None:
        """The result, if it is there and whole."""
        if not self.folder.is_dir():
            return None
        try:
            return kind.load(self.folder)
        except HeadcountError:
            return None  # A damaged result is computed anew.

    def store(self, result: R) -> R:
        """Keep a result, which appears whole or not at all, and give it back as it will be found."""
        with write_folder(self.folder) as unfinished:
            result.save(unfinished)
        try:
            return type(result).load(self.folder)
        except HeadcountError:
            return result  # Another process is just putting the same one there.
