"""Jobs: pure functions of their descriptions, named by a hash of them. That gives the cache, resume and provenance."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..cache import cache_folder, write_folder
from ..curves import Curve
from ..errors import HeadcountError
from ..models import Model
from ..provenance import versions
from ..tasks.examples import Task
from ..tasks.questions import QuestionSet


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


@dataclass
class Ledger:
    """What was computed and what was found."""

    computed: int = 0
    cached: int = 0

    def result(self, job: Job, kind: type[R], compute: Callable[[], R], skipped: Callable[[], None]) -> R:
        found = job.stored(kind)
        if found is not None:
            self.cached += 1
            skipped()
            return found
        self.computed += 1
        return job.store(compute())


@dataclass(frozen=True)
class PanelResult:
    """What the jobs of one panel and one model come to."""

    scores: Any
    """`HeadScores`, `EdgeScores`, `HeadRoles` or `MaskedCell`."""
    curves: Sequence[Curve]


def job_of(
    kind: str, model: Model, task: Task | QuestionSet, at_once: int | None, settings: dict[str, Any]
) -> Job:  # fmt: skip
    """All that a result depends on: model, prompts, settings, versions, and how prompts share a forward."""
    return Job(
        {
            "kind": kind, "model": model.fingerprint, "dtype": str(model.hf.dtype), "device": model.device.type,
            "task": task.fingerprint, "settings": settings, "at_once": at_once, "versions": versions(),
        }
    )  # fmt: skip


def array_digest(*arrays: NDArray[np.float64]) -> str:
    """What an order depends on."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:24]
