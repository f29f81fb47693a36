"""Steps on a Ray cluster: one that is there, or one that is started for the run on this machine.

A worker is an actor with its share of CPUs and GPUs, so that it keeps its model from step to step. (Ray ends the
process of a GPU task after each call by default.) Where the cache is on a disk that the worker sees, results go there;
where it is not, steps and results are sent by value, as the files that the store keeps.
"""

import logging
import os
import platform
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from ...core.cache import Store
from ...core.errors import HeadcountError, in_short
from ...core.files import writable_folder
from ...core.progress import Bar, say, waiting
from ..bench import Bench
from ..plan import Found, Plan
from .crew import Here, News
from .errand import Errand
from .hand import Answer, Hand, Setup, setup_of
from .local import cores_here
from .schedule import TRIES, Ledger, Schedule

MOMENT = 0.5
"""Seconds between two looks at how far the workers are."""
PATIENCE = 5.0
"""Seconds in which a cluster must answer."""
Files = dict[str, bytes]


class RayWorker:
    """What runs on the cluster, as an actor."""

    def __init__(self, setup: Setup, marker: str) -> None:
        self.shares = Path(setup["store"], marker).exists()
        self.hand = Hand(setup, None if self.shares else Store())

    def hello(self) -> bool:
        """Whether it shares the driver's cache."""
        return self.shares

    def run(self, errand: Mapping[str, object], needed: Mapping[str, Files]) -> tuple[Answer, Files]:
        """The answer of a `Hand`; and the result by value, where the cache is not shared."""
        key, store = str(errand["key"]), self.hand.store
        try:
            for name, files in needed.items():
                if not store.has(name):
                    store.take(name, files)
        except HeadcountError as error:
            return {"kind": "refused", "words": f"{error} (On {platform.node()}.)", "paid": 0.0}, {}
        answer = self.hand.do(errand)
        return answer, store.files(key) if answer["kind"] == "done" and not self.shares else {}

    def paid(self) -> float:
        return self.hand.paid.total


class OnRay:
    """An executor and its crew; the workers stay for the next plan, until `close` or the end of a `with`.

    **Arguments:**

    - `workers`: as many as the cluster has room for by default.
    - `address`: of a cluster, as Ray knows it; $RAY_ADDRESS by default, else a cluster is started on this machine.
    - `gpus`, `cpus`: of a worker; a whole GPU where the cluster has any, and as many CPUs as it has threads.
    """

    several = True

    def __init__(
        self, workers: int = 0, address: str = "", gpus: float | None = None, cpus: float | None = None
    ) -> None:
        self.ray = ray_package()
        self.workers, self.address = workers, address or os.environ.get("RAY_ADDRESS", "")
        self.gpus, self.cpus = gpus, cpus
        require_answer(self.address)  # before anything is planned
        self._own = self._there = False
        self._marker: Path | None = None
        self._actors = dict[str, Any]()
        self._refs = dict[Any, tuple[str, str]]()
        """What is awaited: (worker, 'hello' | 'run' | 'paid')."""
        self._keys = dict[str, str]()
        self._shares = dict[str, bool]()
        """Of workers that have come: whether they share the cache."""
        self._in_vain = 0
        self._asked = 0.0
        """When workers were last asked how far they are."""
        self._bench: Bench
        self._store: Store

    def __call__(self, plan: Plan, bench: Bench, store: Store, bar: Bar, ledger: Ledger, before: Found) -> Found:
        if self._actors and (store.folder, bench.names) != (self._store.folder, self._bench.names):
            self.close()  # its workers were told of another cache
        self._bench, self._store = bench, store
        done = False
        try:
            found = Schedule(plan, self, Here(bench, store, bar), bar, ledger, before).run()
            done = True
            return found
        finally:
            if not done:
                self.close()  # what is running is cancelled

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def idle(self) -> Sequence[str]:
        if not self._actors:
            self._bring()
        busy = {worker for worker, what in self._refs.values() if what == "run"}
        return [worker for worker in self._shares if worker not in busy]

    def begin(self, worker: str, errand: Errand) -> None:
        needed = {} if self._shares[worker] else {key: self._store.files(key) for key, _, _ in errand.needs}
        self._keys[worker] = errand.key
        self._refs[self._actors[worker].run.remote(errand.plain(), needed)] = worker, "run"

    def news(self) -> list[News]:
        done, _ = self.ray.wait(list(self._refs), num_returns=1, timeout=MOMENT)
        news = [each for ref in done for each in self._heard(ref, *self._refs.pop(ref))]
        # A worker answers at once: asked all the time, it would do nothing else.
        if time.monotonic() - self._asked > MOMENT:
            self._asked = time.monotonic()
            asked = {worker for worker, what in self._refs.values() if what == "paid"}
            for worker, what in list(self._refs.values()):
                if what == "run" and worker not in asked:
                    self._refs[self._actors[worker].paid.remote()] = worker, "paid"
        return news

    def _heard(self, ref: Any, worker: str, what: str) -> list[News]:
        try:
            found = self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as error:  # our own code failed there, or could not be imported
            if isinstance(error.cause, ImportError) or "ModuleNotFoundError" in str(error):
                raise HeadcountError(f"A worker has no headcount: {in_short(error.cause or error)}.") from error
            return [News(worker, "failed", str(error))]
        except self.ray.exceptions.RayError as error:  # the worker or its node is gone
            if what == "paid" and not isinstance(error, self.ray.exceptions.ActorDiedError):
                return []  # it may be back in a moment
            # A call that was on its way when its worker died may never end: any call that fails tells of both.
            return self._lost(worker, what, in_short(error, 120))
        if what == "hello":
            self._shares[worker] = bool(found)
            return []
        if what == "paid":
            return [News(worker, "paid", paid=found)]
        answer, files = found
        if files:
            self._store.take(self._keys[worker], files)
        self._in_vain = 0
        return [News(worker, answer["kind"], answer["words"], answer["paid"])]

    def _lost(self, worker: str, what: str, words: str) -> list[News]:
        """Another one takes its place, as soon as there is room."""
        if what == "hello" and "ModuleNotFoundError" in words:
            raise HeadcountError(f"The workers of the cluster have no headcount: {words}")
        self._in_vain += 1
        if self._in_vain > TRIES * max(len(self._actors), 2):
            raise HeadcountError(f"Workers of the cluster end as soon as they begin: {words} Finished steps are kept.")
        self._shares.pop(worker, None)
        self._hire(worker)
        return [News(worker, "lost", words)]

    def close(self) -> None:
        for actor in self._actors.values():
            with suppress(Exception):  # it may be gone, and the cluster too
                self.ray.kill(actor)
        self._actors, self._refs, self._shares = {}, {}, {}
        if self._marker is not None:
            self._marker.unlink(missing_ok=True)
        if self._own:
            self.ray.shutdown()
        self._own = self._there = False

    def _bring(self) -> None:
        self._connect()
        writable_folder(self._store.folder)
        self._marker = self._store.folder / f".marker-{secrets.token_hex(8)}"
        self._marker.touch()
        has = self.ray.cluster_resources()
        import torch

        if self.gpus is None:
            self.gpus = 1.0 if has.get("GPU") else 0.0
        # Never more than a node has, or it would wait for ever.
        most = max((node["Resources"].get("CPU", 0.0) for node in self.ray.nodes() if node["Alive"]), default=1.0)
        self.cpus = min(float(torch.get_num_threads()), most) if self.cpus is None else self.cpus
        room = has.get("GPU", 0.0) / self.gpus if self.gpus else has.get("CPU", 1.0) / max(self.cpus, 1e-3)
        count = self.workers or max(int(room), 1)
        self._bench.clear()  # its models were needed for the plan; the workers may need the memory
        for number in range(count):
            self._hire(f"worker {number + 1}")

    def _hire(self, worker: str) -> None:
        assert self._marker is not None
        setup = setup_of(self._store, self._bench.names, 1 / max(self.workers or len(self._actors), 1))
        # Two calls at a time: a step, and how far it is.
        options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_concurrency": 2, "max_restarts": 0}
        actor = self.ray.remote(RayWorker).options(**options).remote(setup, self._marker.name)
        self._actors[worker] = actor
        self._refs = {ref: known for ref, known in self._refs.items() if known[0] != worker}
        self._refs[actor.hello.remote()] = worker, "hello"

    def _connect(self) -> None:
        if self.ray.is_initialized():
            return
        common: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            with waiting("waiting for Ray"):
                if self.address and self.address != "local":
                    self.ray.init(address=self.address, **common)
                else:
                    # /tmp/ray may be another user's.
                    own = {"_temp_dir": f"/tmp/headcount-ray-{os.getuid()}", "include_dashboard": False}
                    self.ray.init(address="local", num_cpus=cores_here(), **own, **common)
        except HeadcountError:
            raise
        except Exception as error:  # of Ray: ConnectionError, RuntimeError, ValueError and more
            where = f"The Ray cluster at {self.address}" if self.address else "A Ray cluster on this machine"
            raise HeadcountError(f"{where} cannot be reached or started: {in_short(error)}") from error
        self._own = True
        if not self.address:
            say(f"Ray was started for this run, with {cores_here()} CPUs.")


def ray_package() -> ModuleType:
    """Ray, or what to install."""
    try:
        import ray
    except ImportError as error:
        raise HeadcountError("Running on Ray needs the package ray: pip install 'headcount[ray]'") from error
    found: ModuleType = ray
    return found


def require_answer(address: str) -> None:
    """Say at once that nobody is there: Ray itself tries for half a minute."""
    host, _, port = address.partition("://")[2].rpartition(":") if "://" in address else address.rpartition(":")
    if not host or not port.isdigit():
        return  # Ray knows what it means, or says what is wrong with it
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        raise HeadcountError(
            f"No Ray cluster answers at {address} ({in_short(error)}). Is it up (ray status), and the address right"
            " (--ray-address)? Finished steps are kept."
        ) from error
