"""Jobs: pure functions of their descriptions, named by a hash of them. That gives the cache, resume and provenance."""

import hashlib
import json
from collections.abc import Callable
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

    def finished(self) -> bool:
        return self.folder.is_dir()

    def result(self, kind: type[R], compute: Callable[[], R]) -> R:
        """The stored result, or a new one, which is stored first. It appears whole or not at all."""
        if self.finished():
            try:
                return kind.load(self.folder)
            except HeadcountError:
                pass  # A damaged result is computed anew.
        with write_folder(self.folder) as unfinished:
            compute().save(unfinished)
        return kind.load(self.folder)
