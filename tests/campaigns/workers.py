"""Workers and nodes of a Ray cluster that are killed at random moments while a study runs, and drivers that are: the
study ends by itself with the bytes of one process, and what was finished is never computed again."""

import contextlib
import os
import random
import shutil
import signal
import threading
import time

import psutil

import headcount as hc
from forked import ended, start
from headcount.studies.executors.in_process import in_process
from headcount.studies.kept import outputs

ASKED = {"n": 12, "points": 6, "draws": 3, "orders": ["absolute", "signed", "chance"], "method": "one-pass"}
TASKS = ["ioi", "greater-than"]
COMMAND = ("run", "heads-kept", "-n", 12, "--points", 6, "--draws", 3, "--method", "one-pass", "--order", "absolute",
           "--order", "chance")  # fmt: skip
BARE = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
"""Of Ray, what a study needs: no pages, no copies of logs, and nobody who asks a cloud for nodes."""


def study(folder, place, executor=in_process):
    """curves.csv, and how many steps were computed; without figures."""
    os.environ["HEADCOUNT_CACHE"], drawn = str(place / "cache"), outputs.save_figure
    outputs.save_figure = lambda *arguments: None
    try:
        asked = {"models": [folder], "tasks": TASKS, "overrides": ASKED, "out": place / "out", "quiet": True}
        result = hc.run("heads-kept", executor=executor, **asked)
    finally:
        outputs.save_figure = drawn
    return (place / "out" / "curves.csv").read_bytes(), result.computed


def cluster(spare=True):
    """Two nodes, each with a GPU that is not there. With `spare` neither is the head, so that both may be killed."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own 15 lets its workers wait for all other tests
    has = {"num_cpus": 1, "num_gpus": 1}
    head = {"num_cpus": 0} if spare else has
    made = Cluster(initialize_head=True, head_node_args={**head, **BARE})
    for _ in range(1 + spare):
        made.add_node(**has)
    ray.init(address=made.address, logging_level="ERROR", log_to_driver=False)
    return made


def shut_down(made):
    import ray

    ray.shutdown()
    made.shutdown()


def worker_processes():
    found = []
    for process in psutil.process_iter(["cmdline", "ppid"]):
        with contextlib.suppress(psutil.Error):
            if "ray::RayWorker" in " ".join(process.info["cmdline"] or ()) and _is_ours(process):
                found.append(process)
    return found


def _is_ours(process):
    return any(parent.pid == os.getpid() for parent in process.parents())


def ray_kills(count, scratch, folder, made, seed=0, nodes=True, say=print):
    """So many kills of workers and nodes, spread over as many studies as they need; a line for each that went wrong."""
    rng, wrong, struck, studies = random.Random(seed), [], 0, 0
    whole, steps = study(folder, scratch / "whole")
    while struck < count:
        place, stop, killed = scratch / f"ray-{studies}", threading.Event(), []

        def kill():
            while not stop.wait(rng.uniform(0.2, 2.5)) and struck + len(killed) < count:
                if nodes and rng.random() < 0.4 and len(made.worker_nodes) > 1:
                    with contextlib.suppress(ValueError):  # Ray does not let go of the driver's own
                        made.remove_node(rng.choice(list(made.worker_nodes)), allow_graceful=False)
                        killed.append("node")
                elif processes := worker_processes():
                    with contextlib.suppress(psutil.Error):
                        rng.choice(processes).kill()
                        killed.append("worker")

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            with hc.executor("ray", workers=2) as executor:
                found, computed = study(folder, place, executor)
            if found != whole:
                wrong.append(f"after {killed}: other bytes")
            if computed > steps:
                wrong.append(f"after {killed}: {computed} of {steps} steps were computed")
        except hc.HeadcountError as error:
            wrong.append(f"after {killed}: {error}")
        stop.set()
        killer.join()
        while len(made.worker_nodes) < 2 and nodes:
            made.add_node(num_cpus=1, num_gpus=1)
        struck, studies = struck + len(killed), studies + 1
        say(f"study {studies} on Ray: {', '.join(killed) or 'nobody'} killed")
        shutil.rmtree(place, ignore_errors=True)
    say(f"kills on Ray: {struck} in {studies} studies, {len(wrong)} did not end well")
    return wrong


def finished(place):
    """Finished steps, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (place / "cache" / "steps").glob("[!.]*")}


def driver_kills(count, scratch, folder, on, seed=0, say=print, tasks=TASKS):
    """The driver of a study on workers is killed, and started again."""
    rng, wrong = random.Random(seed), []
    scratch.mkdir(parents=True, exist_ok=True)
    chosen = [word for task in tasks for word in ("--task", task)]
    asked = lambda place: (*COMMAND, *chosen, "--model", folder, "--on", on, "--workers", 2, "--out", place / "out")
    begun, place = time.monotonic(), scratch / "undisturbed"
    assert ended(start(*asked(place), cache=place / "cache", said=scratch / "said")) == 0, (
        scratch / "said"
    ).read_text()
    seconds, whole = time.monotonic() - begun, (place / "out" / "curves.csv").read_bytes()
    for number in range(count):
        place, said = scratch / f"driver-{number}", scratch / f"said-{number}"
        process = start(*asked(place), cache=place / "cache", said=said)
        time.sleep(rng.uniform(0.2, 1) * seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        ended(process)
        time.sleep(1.0)  # its workers notice
        before = finished(place)
        code = ended(start(*asked(place), cache=place / "cache", said=said))
        after = finished(place)
        if code:
            wrong.append(f"{on}: the same command ends with {code}: {said.read_text()[-300:]}")
        elif (place / "out" / "curves.csv").read_bytes() != whole:
            wrong.append(f"{on}: other bytes after {len(before)} steps")
        elif any(after[key] != when for key, when in before.items()):
            wrong.append(f"{on}: a finished step was computed again")
        shutil.rmtree(place, ignore_errors=True)
    say(f"drivers killed on {on}: {count}, {len(wrong)} did not end well")
    return wrong
