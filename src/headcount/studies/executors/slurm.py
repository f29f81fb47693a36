"""Steps on a Slurm cluster, through submitit: one array job of workers, which take steps from this process.

The workers are reached through a folder on the disk that all nodes share, below the cache. A job that is preempted or
runs out of its time is put into the queue again; the step that it had is done by another worker meanwhile.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ...core.cache import cache_folder
from ...core.errors import HeadcountError, in_short
from .boxes import Boxes
from .mailbox import DRIVER, Mailbox, serve

MINUTES = 240
SILENCE = 60.0
"""Seconds without a sign of life after which somebody is taken to be gone; clocks of nodes differ by less."""


class Slurm(Boxes):
    """**Arguments:**

    - `workers`: tasks of the array job; each does a step at a time, and keeps its model.
    - `partition`, `time` (minutes), `gpus` (of a worker), `cpus`, `memory` (GB): as sbatch takes them.
    - `folder`: on a disk that all nodes see; in the cache folder by default.
    - `cluster`: `slurm`, or `local` to try it without one.
    """

    def __init__(
        self,
        workers: int = 4,
        partition: str = "",
        time: int = MINUTES,
        gpus: int = 0,
        cpus: int = 0,
        memory: int = 0,
        folder: str = "",
        cluster: str = "slurm",
    ) -> None:
        self.submitit, self.cluster = submitit_package(), cluster
        super().__init__(workers, Path(folder).resolve() if folder else cache_folder().resolve() / "slurm")
        self.beat = 2.0 if cluster == "slurm" else 0.2
        import torch

        self.settings: dict[str, Any] = {"name": "headcount", "timeout_min": time}
        self.settings |= {"cpus_per_task": cpus or torch.get_num_threads(), "tasks_per_node": 1, "nodes": 1}
        self.settings |= {"gpus_per_node": gpus} if gpus else {}
        self.settings |= {"mem_gb": memory} if memory else {}
        self.settings |= {"slurm_partition": partition} if partition else {}
        self._jobs: list[Any] = []

    def dry_run(self) -> str:
        """What sbatch would be given."""
        from submitit.slurm.slurm import SlurmExecutor, _make_sbatch_string

        place = (self.place or Path()) / "RUN"
        names: Any = SlurmExecutor._equivalence_dict() or {}
        plain = {name.removeprefix("slurm_"): value for name, value in self.settings.items()}
        given: dict[str, Any] = {names.get(name, name): value for name, value in plain.items()}
        command = f"python -m submitit.core._submit {place / 'logs'}"
        return str(_make_sbatch_string(command, place / "logs", map_count=self.workers, **given))

    def start(self, boxes: Sequence[Mailbox]) -> None:
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise HeadcountError(
                "There is no sbatch on this machine. Run this on a login node of the cluster, or look at what would be"
                " submitted with --dry-run."
            )
        assert self.folder is not None
        try:
            executor = self.submitit.AutoExecutor(folder=self.folder / "logs", cluster=self.cluster)
            executor.update_parameters(**self.settings)
            self._jobs = executor.map_array(Served(self.beat), [str(box.folder) for box in boxes])
        except Exception as error:  # of sbatch: whatever it says
            raise HeadcountError(f"Slurm did not take the job: {in_short(error, 200)}") from error

    def lives(self, worker: str, box: Mailbox) -> bool:
        pulse = box.pulse()
        if pulse is not None and time.time() - pulse.at < (SILENCE if self.cluster == "slurm" else 3.0):
            return True
        return pulse is None and not self._ended(worker)

    def gone(self, worker: str, box: Mailbox) -> str:
        """It comes again by itself where Slurm puts it into the queue again."""
        if all(map(self._ended, self.boxes)):
            raise HeadcountError(
                f"All jobs of the array have ended, and the study has not. {self._why()} Finished steps are kept; the"
                " same command goes on from here."
            )
        return "its job has ended"

    def _ended(self, worker: str) -> bool:
        return bool(self._jobs[list(self.boxes).index(worker)].done())

    def _why(self) -> str:
        """The last line of a job's log."""
        for job in self._jobs:
            lines = (job.stderr() or "").strip().splitlines()
            if lines:
                return f"The last says: {in_short(Exception(lines[-1]), 100)}."
        return ""

    def stop(self) -> None:
        for box in self.boxes.values():
            (box.folder / DRIVER).unlink(missing_ok=True)  # those who look for it go by themselves
        for job in self._jobs:
            job.cancel(check=False)
        for process in [job._process for job in self._jobs if self.cluster == "local"]:
            process.wait()
        self._jobs = []


class Served:
    """What a job of the array does. submitit asks it to go on when it is out of time or preempted."""

    def __init__(self, beat: float) -> None:
        self.beat = beat

    def __call__(self, folder: str) -> None:
        driver = Path(folder) / DRIVER

        def lives() -> bool:
            try:
                return time.time() - driver.stat().st_mtime < SILENCE
            except OSError:
                return False

        serve(Path(folder), lives, self.beat)

    def checkpoint(self, folder: str) -> object:
        again: object = submitit_package().helpers.DelayedSubmission(self, folder)
        return again


def submitit_package() -> ModuleType:
    """submitit, or what to install."""
    try:
        import submitit
    except ImportError as error:
        raise HeadcountError("Running on Slurm needs the package submitit: pip install 'headcount[slurm]'") from error
    found: ModuleType = submitit
    return found
