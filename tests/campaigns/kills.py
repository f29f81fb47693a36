"""Kills in the middle of commands that write: the same command then ends with the bytes of a run that nobody disturbed,
and nothing hidden is left.

A command runs in a process that is forked from this one. It is killed (SIGKILL, by itself) at the n-th moment at which
it touches a file of its cache or output folder, or from outside after some time.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import headcount as hc
from forked import ended, start

TOUCHES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree")
UNCOMPARED = ("logs",)
FINISHED = ("holds a finished model", "is there already")
"""What a command says that writes over nothing."""


@dataclass(frozen=True)
class Asked:
    """A command: its words for an output folder, and what lies in that folder before it runs."""

    words: Callable[[Path], tuple[object, ...]]
    given: Path | None = None
    real_figures: bool = False


def commands(folder, text, scratch):
    """By name; short, and of every kind that writes."""
    study = ("--model", folder, "-n", 8, "--out")
    few = ("--order", "absolute", "--points", 3, "--repeats", 1)
    sparse = ("sparsify", folder, "--text", text, "--steps", 4, "--batch", 2, "--length", 16, "--device", "cpu")
    sparse = (*sparse, "--evaluate-sequences", 2, "--warmup", 1)
    scores = ("score", folder, "ioi", "-n", 8, "--out")
    found, own = _finished(folder, scratch)
    return {
        "heads": Asked(lambda out: ("run", "heads-kept", "--task", "ioi", "--method", "one-pass", *few, *study, out),
                       real_figures=True),
        "edges": Asked(lambda out: ("run", "edges-kept", "--task", "ioi", "--method", "one-pass", *few, *study, out)),
        "learned": Asked(lambda out: ("run", "heads-kept", "--task", "ioi", "--method", "learned", "--updates", 3, *few,
                                      *study, out)),
        "roles": Asked(lambda out: ("run", "head-roles", "--task", "ioi", "--seeds", 1, "--updates", 3, "--batch", 2,
                                    "--ks", "0,1", *study, out)),
        "score": Asked(lambda out: (*scores, out)),
        "gating": Asked(lambda out: (*scores, out, "--method", "gating", "--quick")),
        "compare": Asked(lambda out: ("compare", found, found, "--out", out)),
        "adapter": Asked(lambda out: (*sparse, "--lora", 2, "--checkpoint-every", 2, "--out", out)),
        "weights": Asked(lambda out: (*sparse, "--merge", "--lora", 2, "--checkpoint-every", 25, "--out", out)),
        "report": Asked(lambda out: ("report", out), found.parents[1]),
        "view": Asked(lambda out: ("view", "--write", out), found.parents[1]),
        "checkpoint": Asked(lambda out: ("export", "checkpoint", found, "--model", folder, "--top", 3, "--out",
                                         out / "cut")),
        "hooks": Asked(lambda out: ("export", "hooks", found, "--model", folder, "--top", 3, "--out", out / "cut.py"),
                       own),
        "dataset": Asked(lambda out: ("export", "dataset", found, "--out", out / "tables")),
        "spaces": Asked(lambda out: ("tasks", "check", out / "t.jsonl", "--model", folder, "--fix-space"), own),
    }  # fmt: skip


def _finished(folder, scratch):
    """The scores of a finished study, in its output folder, whose report is gone; and a folder with a task."""
    out, own = scratch / "finished" / "out", scratch / "own"
    asked = {"n": 8, "points": 3, "orders": ["absolute"], "method": "one-pass"}
    with _plain_figures():
        hc.run("heads-kept", models=[folder], tasks=["ioi"], out=out, overrides=asked, cache=False, quiet=True)
    (out / "report.html").unlink()
    own.mkdir()
    lines = [{"prompt": f"We saw {name} and", "target": "John"} for name in ("Mary", "Tom", "Anna", "Paul")]
    (own / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return next(out.glob("scores/*/scores.json")).parent, own


@contextlib.contextmanager
def _plain_figures(wanted=True):
    """A few bytes in the place of drawings, which take most of the time; they are written as others are."""

    def draw(figure, file, format="png", **options):
        file.write(f"a drawing as {format}".encode())

    with mock.patch("matplotlib.figure.Figure.savefig", draw) if wanted else contextlib.nullcontext():
        yield


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
        self.asked, log, begun = asked, scratch / f"touches-{name}", time.monotonic()
        log.write_text("")
        places, said = (str(place),), scratch / "said"
        process = self.start(place, said, first=lambda: die_at(places, 0, str(log)))
        assert ended(process) == 0, said.read_text()
        self.seconds, self.touches = time.monotonic() - begun, len(log.read_text())
        self.out = contents(place / "out")
        shutil.rmtree(place)

    def start(self, place, said, first=None):
        if self.asked.given and not (place / "out").exists():
            shutil.copytree(self.asked.given, place / "out")
        with _plain_figures(not self.asked.real_figures):
            return start(*self.asked.words(place / "out"), cache=place / "cache", said=said, first=first)

    def killed(self, place, said, rng, timed):
        """Whether the kill came in time, and what is to be told of it."""
        places, outside, moment = (str(place),), rng.random() < timed, rng.randint(1, max(self.touches, 1))
        if "sparsify" in self.asked.words(place) and rng.random() < 0.6:
            moment = rng.randint(max(self.touches - 40, 1), self.touches)  # its last seconds
        process = self.start(place, said, None if outside else (lambda: die_at(places, moment)))
        if outside:
            time.sleep(rng.uniform(0, self.seconds))
            process.kill()
        how = "from outside" if outside else f"at touch {moment} of {self.touches}"
        return ended(process) == -signal.SIGKILL, how


def same(found, whole):
    """The same files with the same bytes; provenance and steps say how long something took, or where it lay."""
    if set(found) != set(whole):
        return sorted(set(found) ^ set(whole))
    return [name for name in found if found[name] != whole[name] and Path(name).name != "provenance.json"]


def campaign(count, scratch, folder, text, seed=0, only=(), timed=0.3, say=print, first=0):
    """So many kills, from one of them on; a line for each after which the same command did not end well."""
    wrong, struck = [], 0
    asked = {name: one for name, one in commands(folder, text, scratch).items() if not only or name in only}
    known = {name: Undisturbed(scratch, name, one) for name, one in asked.items()}
    for number in range(first, first + count):
        rng, name = random.Random(f"{seed} {number}"), sorted(known)[number % len(known)]
        whole, place, said = known[name], scratch / f"killed-{number}", scratch / f"said-{number}"
        in_time, how = whole.killed(place, said, rng, timed)
        struck, told = struck + in_time, f"{name}, kill {number}, {how}"
        code = ended(whole.start(place, said))
        finished = code == 2 and any(words in said.read_text() for words in FINISHED)  # killed after its last act
        if code and not finished:
            wrong.append(f"{told}: the same command ends with {code}: {said.read_text()[-300:]}")
        elif different := same(contents(place / "out"), whole.out):
            wrong.append(f"{told}: {different[:5]} differ")
        elif left := hidden(place):
            wrong.append(f"{told}: {left[:3]} left behind")
        shutil.rmtree(place)
        if number % 20 == 19:
            say(f"kills up to {number}: {struck} in a live run, {len(wrong)} did not end well")
    say(f"kills: {struck} of {count} in a live run, {len(known)} commands, {len(wrong)} did not end well")
    return wrong, struck
