"""Kills in the middle of commands that write: the same command then ends with the bytes of a run that nobody disturbed,
and nothing hidden is left.

A command runs in a process that is forked from this one. It is killed (SIGKILL, by itself) at the n-th moment at which
it touches a file of its cache or output folder, or from outside after some time.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from forked import ended, start

TOUCHES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree")
UNCOMPARED = ("logs",)


def commands(folder, text):
    """Name -> what to run for an output folder; short, and of every kind that writes."""
    study = ("--model", folder, "-n", 8, "--out")
    few = ("--order", "absolute", "--points", 3, "--repeats", 1)
    sparse = ("sparsify", folder, "--text", text, "--steps", 4, "--batch", 2, "--length", 16, "--device", "cpu")
    sparse = (*sparse, "--evaluate-sequences", 2, "--warmup", 1)
    scores = ("score", folder, "ioi", "-n", 8, "--out")
    return {
        "heads": lambda out: ("run", "heads-kept", "--task", "ioi", "--method", "one-pass", *few, *study, out),
        "edges": lambda out: ("run", "edges-kept", "--task", "ioi", "--method", "one-pass", *few, *study, out),
        "learned": lambda out: ("run", "heads-kept", "--task", "ioi", "--updates", 3, *few, *study, out),
        "roles": lambda out: ("run", "head-roles", "--task", "ioi", "--seeds", 1, "--updates", 3, "--batch", 2, "--ks",
                              "0,1", *study, out),
        "score": lambda out: (*scores, out),
        "gating": lambda out: (*scores, out, "--method", "gating", "--quick"),
        "adapter": lambda out: (*sparse, "--lora", 2, "--checkpoint-every", 2, "--out", out),
        "weights": lambda out: (*sparse, "--merge", "--lora", 2, "--checkpoint-every", 25, "--out", out),
    }  # fmt: skip


def die_at(places, moment, log=None):
    """An audit hook that kills its process at the n-th touch of files below some places, or counts them into a file."""
    seen = 0

    def look(event, arguments):
        nonlocal seen
        if event not in TOUCHES or not arguments or not isinstance(arguments[0], str | os.PathLike):
            return
        if event == "open" and not (len(arguments) > 2 and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            return
        if not str(arguments[0]).startswith(places):
            return
        seen += 1
        if log is not None:
            with open(log, "a") as file:
                file.write("x")
        elif seen == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def contents(place):
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in Path(place).rglob("*")
        if path.is_file() and path.relative_to(place).parts[0] not in UNCOMPARED
    }


def hidden(*places):
    return [str(path) for place in places for path in Path(place).rglob(".unfinished*")]


class Undisturbed:
    """What a command leaves when nobody kills it, how often it touches files, and how long it takes."""

    def __init__(self, scratch, name, asked):
        place = scratch / f"whole-{name}"
        self.asked, self.log = asked, scratch / f"touches-{name}"
        self.log.write_text("")
        begun = time.monotonic()
        places = (str(place),)
        process = start(
            *asked(place / "out"), cache=place / "cache", said=scratch / "said",
            first=lambda: die_at(places, 0, str(self.log)),
        )  # fmt: skip
        assert ended(process) == 0, (scratch / "said").read_text()
        self.seconds, self.touches = time.monotonic() - begun, len(self.log.read_text())
        self.out = contents(place / "out")
        shutil.rmtree(place)


def same(found, whole):
    """The same files with the same bytes; provenance and steps say how long something took, or where it lay."""
    if set(found) != set(whole):
        return sorted(set(found) ^ set(whole))
    return [name for name in found if found[name] != whole[name] and Path(name).name != "provenance.json"]


def campaign(count, scratch, folder, text, seed=0, only=(), timed=0.3, say=print):
    """So many kills; a line for each after which the same command did not end well."""
    rng, wrong, struck = random.Random(seed), [], 0
    asked = {name: call for name, call in commands(folder, text).items() if not only or name in only}
    known = {name: Undisturbed(scratch, name, call) for name, call in asked.items()}
    for number in range(count):
        name = sorted(known)[number % len(known)]
        whole, place, said = known[name], scratch / f"killed-{number}", scratch / f"said-{number}"
        places, out = (str(place),), place / "out"
        moment = rng.randint(1, whole.touches)
        if "sparsify" in asked[name](out) and rng.random() < 0.6:
            moment = rng.randint(max(whole.touches - 40, 1), whole.touches)  # its last seconds
        outside = rng.random() < timed
        first = None if outside else (lambda: die_at(places, moment))
        process = start(*asked[name](out), cache=place / "cache", said=said, first=first)
        if outside:
            time.sleep(rng.uniform(0, whole.seconds))
            process.kill()
        struck += ended(process) == -signal.SIGKILL
        told = f"{name}, killed {'from outside' if outside else f'at touch {moment} of {whole.touches}'}"
        code = ended(start(*asked[name](out), cache=place / "cache", said=said))
        finished = code == 2 and "holds a finished model" in said.read_text()  # killed after its last act
        if code and not finished:
            wrong.append(f"{told}: the same command ends with {code}: {said.read_text()[-300:]}")
        elif different := same(contents(out), whole.out):
            wrong.append(f"{told}: {different[:5]} differ")
        elif left := hidden(place):
            wrong.append(f"{told}: {left[:3]} left behind")
        shutil.rmtree(place)
    say(f"kills: {struck} of {count} in a live run, {len(known)} commands, {len(wrong)} did not end well")
    return wrong, struck
