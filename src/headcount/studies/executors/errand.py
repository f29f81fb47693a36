"""A step as plain data, and the one function that runs it, wherever that is: in this process, in another, on a cluster.

What is sent is JSON: names, settings and hashes. Models are loaded where the step runs; results of the steps that it
needs are found in the store, by their keys.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from types import MappingProxyType
from typing import cast

import torch
from pydantic import TypeAdapter

from ...core.cache import Result, Store
from ...core.errors import HeadcountError, in_short
from ...core.keys import package_source, source_of
from ...core.provenance import Facts, versions
from ...core.registry import resolve
from ..bench import Bench
from ..plan import Description, Step, Subject

Told = Callable[[float], None]


@dataclass(frozen=True)
class Errand:
    label: str
    key: str
    function: str
    returns: str
    """'package.module:name' of the class of the result."""
    settings: Mapping[str, object]
    subject: Subject | None
    needs: tuple[tuple[str, str, str], ...]
    """Key, class and label of the results that it needs."""
    libraries: tuple[str, ...]
    description: Description
    """What the result depends on, as the planner sees it."""
    threads: int
    """Of the numerics. Sums are split among threads, so that their number moves last digits: it is the same wherever a
    study runs."""

    @classmethod
    def of(cls, step: Step[Result], threads: int = 0) -> "Errand":
        """`threads`: this process's own by default."""
        needs = tuple((need.key, named(need.returns), need.label) for need in step.needs)
        own = step.label, step.key, step.function, named(step.returns), step.settings, step.subject
        return cls(*own, needs, step.libraries, step.description, threads or torch.get_num_threads())

    def plain(self) -> Facts:
        return asdict(self)

    @classmethod
    def parse(cls, facts: Facts) -> "Errand":
        return _errands().validate_python(facts)

    @property
    def result(self) -> type[Result]:
        return cast(type[Result], resolve(self.returns))

    def run(
        self,
        bench: Bench,
        store: Store,
        advance: Told,
        note: Callable[[str], None],
        known: Mapping[str, object] = MappingProxyType({}),
    ) -> Result:
        """The result, which is in the store when this ends. `known`: results that are in memory already, by key."""
        self._require_same()
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        begun = time.monotonic()
        inputs = [known[need[0]] if need[0] in known else self._needed(store, *need) for need in self.needs]
        function = cast(Callable[..., Result], resolve(self.function))
        result = function(bench.job(self, advance, note), *inputs)
        seconds = round(time.monotonic() - begun, 3)
        made = {"label": self.label, "seconds": seconds, "threads": self.threads, "pid": os.getpid()}
        return store.keep(self.key, result, {**self.description, **made})

    def _needed(self, store: Store, key: str, returns: str, label: str) -> Result:
        found = store.find(key, cast(type[Result], resolve(returns)), label)
        if found is None:
            raise HeadcountError(f"The step {self.label!r} needs {label!r}, which is no more in {store.folder}.")
        return found

    def _require_same(self) -> None:
        """What computes must be what planned: another version may compute another number under the same key."""
        try:
            code = source_of(resolve(self.function))
        except (ImportError, AttributeError) as error:
            raise HeadcountError(f"A worker cannot run the step {self.label!r}: {in_short(error)}") from error
        planned = self.description["versions"]
        for name, here in versions(*self.libraries).items():
            if planned.get(name) != here:
                raise HeadcountError(
                    f"The study was planned with {name} {planned.get(name)}, and a worker has {here}. Install the same"
                    " version on both, and run it again."
                )
        if (self.description["source"], self.description["code"]) != (package_source(), code):
            raise HeadcountError(
                "A worker has other source code than the study was planned with (of headcount, or of a package that"
                " adds to it). Install the same on both, and run it again."
            )


@cache
def _errands() -> TypeAdapter[Errand]:
    return TypeAdapter(Errand)


def named(kind: type[object]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
