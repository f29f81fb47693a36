"""Processes that load a named model for the first time, all at once: each has to get the whole model, and one copy is
left. The download is replaced by a small model of the tests; all else is as users have it."""

import hashlib
import multiprocessing
import os
import shutil
from pathlib import Path

import headcount as hc
from pretended_download import copy_of, pretend


def _load(folder, cache, barrier, wanted, wrong):
    pretend(copy_of(folder))
    os.environ["HEADCOUNT_CACHE"] = str(cache)
    try:
        barrier.wait(60)
        model = hc.load("smollm2")
        if model.tokenizer is None:
            wrong.put("a model without a tokenizer")
        if model.weights_hash != wanted:
            wrong.put("other weights")
    except BaseException as error:
        wrong.put(repr(error)[:300])


def campaign(rounds, processes, scratch, folder, say=print):
    """In every round a cold cache; a line for each load that went wrong."""
    context, wrong = multiprocessing.get_context("fork"), []
    wanted = hc.load(folder).weights_hash
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(folder).iterdir()}
    for number in range(rounds):
        cache, barrier, queue = scratch / f"round-{number}", context.Barrier(processes), context.SimpleQueue()
        started = [
            context.Process(target=_load, args=(folder, cache, barrier, wanted, queue)) for _ in range(processes)
        ]
        for process in started:
            process.start()
        for process in started:
            process.join(120)
        wrong += [f"round {number}: exit code {one.exitcode}" for one in started if one.exitcode]
        while not queue.empty():
            wrong.append(f"round {number}: {queue.get()}")
        left = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (cache / "models/smollm2").iterdir()
        }
        left.pop("SHA256SUMS", None)
        if left != files or [path.name for path in (cache / "models").iterdir()] != ["smollm2"]:
            wrong.append(f"round {number}: {sorted(left)} left in {sorted(os.listdir(cache / 'models'))}")
        shutil.rmtree(cache)
    say(f"races: {rounds * processes} first loads by {processes} processes at once, {len(wrong)} went wrong")
    return wrong
