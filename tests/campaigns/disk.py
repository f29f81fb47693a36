"""A full disk, made by a limit on the size of files, and by a small disk in memory where one may be mounted: one
sentence, and the next run goes on."""

import contextlib
import resource
import shutil
import subprocess
from types import SimpleNamespace

from forked import ended, start
from headcount.core import files

LIMITS = (2000, 6000, 20000, 60000)
"""Bytes of a file."""
DISKS = (60, 150, 300, 600, 1000)
"""Thousands of bytes of a disk. They would be refused before work begins, so that look is left out."""


def campaign(scratch, folder, text, limits=LIMITS, disks=DISKS, say=print):
    study = ("run", "heads-kept", "--model", folder, "--task", "ioi", "-n", 8, "--method", "one-pass", "--order")
    study = (*study, "absolute", "--points", 3, "--out")
    sparse = ("sparsify", folder, "--text", text, "--steps", 4, "--batch", 2, "--length", 16, "--device", "cpu")
    sparse = (*sparse, "--evaluate-sequences", 2, "--warmup", 1, "--lora", 2, "--checkpoint-every", 2, "--out")
    wrong = []
    for size in limits:
        place, limit = scratch / f"full-{size}", {resource.RLIMIT_FSIZE: (size, size)}
        wrong += _filled(f"limit of {size} bytes", study, place, place, scratch / "said", limits=limit)
        shutil.rmtree(place)
    say(f"full disk: {len(limits)} limits on the size of files, {len(wrong)} went wrong")
    for size in disks:
        for name, asked in (("study", study), ("sparsify", sparse)):
            with _disk(scratch / "disk", size) as place:
                if place is None:
                    say("full disk: no disk may be mounted here")
                    return wrong
                told = f"{name} on a disk of {size} kB"
                wrong += _filled(told, asked, place, scratch / "elsewhere", scratch / "said", first=_look_away)
    say(f"full disk: {2 * len(disks)} commands on small disks, {len(wrong)} went wrong in all")
    return wrong


def _filled(told, asked, place, roomy, said, **how):
    """What went wrong: with a command where room runs out, and then where there is some."""
    code = ended(start(*asked, place / "out", cache=place, said=said, **how))
    words, wrong = said.read_text().strip(), []
    said.write_text("")
    if code and (code != 2 or "Traceback" in words or "Finished steps are kept" not in words.splitlines()[-1]):
        wrong.append(f"{told}: {code}, {words[-300:]}")
    if list(place.rglob(".unfinished*")):
        wrong.append(f"{told}: something hidden is left")
    if place != roomy:  # what is there by then, where there is more room
        shutil.copytree(place, roomy)
    if code and ended(start(*asked, roomy / "out", cache=roomy, said=said)):
        wrong.append(f"after a {told}: {said.read_text()[-300:]}")
    if place != roomy:
        shutil.rmtree(roomy)
    return wrong


@contextlib.contextmanager
def _disk(place, size):
    place.mkdir(exist_ok=True)
    asked = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
    if subprocess.run(asked, capture_output=True).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _look_away():
    """In the process that is to run out of room: there is as much as it wants, as long as it only asks."""
    files.shutil = SimpleNamespace(disk_usage=lambda folder: SimpleNamespace(free=2**40), rmtree=shutil.rmtree)
