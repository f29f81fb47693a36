"""Processes on this machine, each with its own models in memory; where there are GPUs, each with its own."""

import os
import subprocess
import sys
from collections.abc import Sequence

import torch

from ...core.progress import say
from .boxes import Boxes
from .mailbox import Mailbox

CALM = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"}
"""Threads that wait let others work: processes may have more threads than there are cores."""
CROWDED = 2
"""Threads per core beyond which it is worth a word: with two, workers took no more CPU time than with one each."""
LOG = "log"


class Local(Boxes):
    """As many processes as there are GPUs; without GPUs, as the cores have room for, with the threads that this process
    has. A study computes with as many threads wherever it runs, as their number moves last digits."""

    beat = 0.2

    def __init__(self, workers: int = 0) -> None:
        self.gpus, cores, threads = torch.cuda.device_count(), cores_here(), torch.get_num_threads()
        super().__init__(workers or self.gpus or max(cores // threads, 1))
        if not self.gpus and self.workers > 1 and self.workers * threads > CROWDED * cores:
            say(
                f"{self.workers} workers with {threads} threads each share {cores} cores. OMP_NUM_THREADS="
                f"{max(cores // self.workers, 1)} may be faster; it may change last digits, in one process too."
            )
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def share(self) -> float:
        return 1 / self.workers

    def start(self, boxes: Sequence[Mailbox]) -> None:
        for name, box in self.boxes.items():
            self._start(name, box)

    def _start(self, worker: str, box: Mailbox) -> None:
        own = {"CUDA_VISIBLE_DEVICES": str(list(self.boxes).index(worker) % self.gpus)} if self.gpus else {}
        path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))  # it finds what this process finds
        settings = {**CALM, **os.environ, **own, "PYTHONPATH": path}
        command = [sys.executable, "-m", "headcount.studies.executors.mailbox", str(box.folder), str(os.getpid())]
        with (box.folder / LOG).open("ab") as log:
            # In a session of its own: an interrupt is for the driver, which then sends the workers home.
            self._processes[worker] = subprocess.Popen(
                command, env=settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def lives(self, worker: str, box: Mailbox) -> bool:
        return self._processes[worker].poll() is None

    def gone(self, worker: str, box: Mailbox) -> str:
        code = self._processes[worker].returncode
        lines = (box.folder / LOG).read_text(errors="replace").strip().splitlines()
        self._start(worker, box)
        return f"the last one ended with code {code}{f': {lines[-1]}' if lines else ''}"

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes = {}


def cores_here() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
