"""Executors: they take a plan and come back with the results of its steps. They differ in where steps are run alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, cast

from ...core.errors import HeadcountError, require_known

if TYPE_CHECKING:
    from .schedule import Executor

WHERE = {"local": "local:Local", "ray": "ray:OnRay", "slurm": "slurm:Slurm"}
"""Name -> module and class; without a name, steps are run in this process."""


def executor(on: str, **options: str | int | float) -> "Executor":
    """Where the steps of a study are run, for `headcount.run(…, executor=…)`; its workers stay for the next study, and
    `with headcount.executor("local") as workers:` sends them home.

    **Arguments:**

    - `on`: `"local"`, processes of this machine; `"ray"`, a Ray cluster; `"slurm"`, an array job of Slurm.
    - `workers`: how many; by default as many as there are GPUs, or as the cores have room for.
    - of Ray: `address` of the cluster, one that is started for the run by default; `gpus` and `cpus` of a worker.
    - of Slurm: `partition`, `time` in minutes, `gpus` of a worker, `folder` on the shared disk.
    """
    require_known(on, WHERE, "executor")
    module, _, name = WHERE[on].partition(":")
    made = getattr(import_module(f".{module}", __name__), name)
    known = list(signature(made).parameters)
    for option in options:
        if option not in known:
            raise HeadcountError(f"The executor {on} takes no {option}. It takes {', '.join(known)}.")
    for option, least, kinds in (("workers", 1, (int,)), ("time", 1, (int,)), ("gpus", 0, (int, float))):
        if option in options and (type(given := options[option]) not in kinds or given < least):  # type: ignore[operator]
            raise HeadcountError(f"{option} must be a number of at least {least}, or left out; got {given!r}.")
    return cast("Executor", made(**options))


@contextmanager
def engaged(wanted: "Executor | str", sendable: bool) -> "Iterator[Executor]":
    """An executor; one that was given by name is sent home afterwards. `sendable`: whether models can be loaded
    elsewhere by their names."""
    from .in_process import in_process

    if wanted is not in_process and not sendable:
        raise HeadcountError("Workers load models by name, and this study has a loader of its own. Run it in process.")
    if not isinstance(wanted, str):
        yield wanted
        return
    made = executor(wanted)
    try:
        yield made
    finally:
        cast(object, made).close()  # type: ignore[attr-defined]
