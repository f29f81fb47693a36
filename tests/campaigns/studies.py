"""A small study whose finished steps and checkpoints are damaged, again and again: every result is right, every damage
is said."""

import contextlib
import io
import json
import os
import random
import shutil
from functools import cache
from unittest import mock

import headcount as hc
from campaigns.damage import TO_FILES, TO_FOLDERS
from headcount import tasks
from headcount.rank import descent
from headcount.sparse.training import Training
from headcount.studies import runner

ASKED = {"n": 8, "points": 3, "draws": 1, "repeats": 1, "orders": ["absolute", "chance"], "method": "one-pass"}


@contextlib.contextmanager
def only_steps():
    """Studies that take their models and prompts from the first of them, and write none of their outputs: what is left
    is to find steps, and to compute those that are damaged."""
    load = cache(hc.load)
    make = cache(tasks.task)  # one model, one task

    def write(folder, study, planned, ledger, found):
        return tuple(work.gather(found) for row in planned.works for work in row), {}

    with mock.patch.object(runner, "_write", write), mock.patch.object(tasks, "task", make):
        yield load


def run(folder, out, loader=hc.load):
    """Curves as numbers, and what was said."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        asked = {"models": [folder], "tasks": ["ioi"], "out": out, "overrides": ASKED}
        result = hc.run("heads-kept", **asked, quiet=True, loader=loader)
    numbers = [(curve.order, curve.values["logit_diff"].tobytes()) for curve in result.curves]
    return numbers, " ".join(said.getvalue().split())


def contents(place):
    return {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def damage(count, scratch, folder, seed=0, say=print):
    """Of finished steps."""
    os.environ["HEADCOUNT_CACHE"] = str(scratch / "damaged")
    steps, copy, rng, wrong = scratch / "damaged" / "steps", scratch / "copy", random.Random(seed), []
    with only_steps() as loader:
        wrong += _damaged(count, rng, steps, copy, lambda: run(folder, scratch / "out", loader))
    say(f"damage to finished steps: {count} times in {len(TO_FOLDERS)} ways, {len(wrong)} went wrong")
    return wrong


def _damaged(count, rng, steps, copy, run):
    (whole, _), wrong = run(), []
    shutil.copytree(steps, copy)
    for number in range(count):
        hurt = TO_FOLDERS[number % len(TO_FOLDERS)]
        hurt(steps, rng)
        same = contents(steps) == contents(copy)
        try:
            found, said = run()
        except BaseException as error:
            wrong.append(f"{hurt.__name__}: {error!r}"[:300])
        else:
            if found != whole:
                wrong.append(f"{hurt.__name__}: another result")
            if not same and "is damaged" not in said:
                wrong.append(f"{hurt.__name__}: nothing was said")
        shutil.rmtree(steps)
        shutil.copytree(copy, steps)
    return wrong


def damaged_checkpoints(count, scratch, folder, seed=0, say=print):
    """Of a gate fit and of sparsify: each is read again after every damage."""
    rng, wrong, place = random.Random(seed), [], scratch / "checkpoints"
    model, fit = hc.load(folder), hc.QUICK.changed(updates=2, batch=2, seeds=1)
    task, file = hc.task("ioi", model, n=8), place / "fit" / "fit.safetensors"
    whole = hc.fit_roles(model, task, fit, checkpoint=file)

    class Stop(Exception):  # noqa: N818
        pass

    def stop(words):
        if words.startswith("keeping"):
            raise Stop

    before, descent.SAVE_EVERY = descent.SAVE_EVERY, 0.0
    try:
        with contextlib.suppress(Stop):
            hc.fit_roles(model, task, fit, checkpoint=file, note=stop, advance=lambda n: None)
    finally:
        descent.SAVE_EVERY = before
    good = {"fit": file.read_bytes()}
    sparse = place / "sparse" / "checkpoint.safetensors"
    sparse.parent.mkdir()
    Training({}, None, [], [{"step": 1.0}]).save(sparse.parent, "key")
    good["sparse"] = sparse.read_bytes()
    for number in range(count):
        kind, hurt = ("fit", "sparse")[number % 2], TO_FILES[number // 2 % len(TO_FILES)]
        path = {"fit": file, "sparse": sparse}[kind]
        path.write_bytes(good[kind])
        hurt(path.parent, rng)
        same, said = path.read_bytes() == good[kind], io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                if kind == "sparse":
                    right = Training({}, None, [], []).restore(path.parent, "key") == int(same)
                elif number % 20 == 0:  # the whole fit; else what it would begin with
                    right = (hc.fit_roles(model, task, fit, checkpoint=file).plus == whole.plus).all()
                else:
                    from headcount.rank.checkpoint import Checkpoint

                    key = json.loads(good["fit"][8 : 8 + int.from_bytes(good["fit"][:8], "little")])["__metadata__"][
                        "key"
                    ]
                    right = bool(Checkpoint.at(file, key).stages) == same
        except BaseException as error:
            wrong.append(f"{kind}, {hurt.__name__}: {error!r}"[:300])
        else:
            if not right:
                wrong.append(f"{kind}, {hurt.__name__}: gone on from")
            if not same and "is damaged" not in " ".join(said.getvalue().split()):
                wrong.append(f"{kind}, {hurt.__name__}: nothing was said")
    say(f"damage to checkpoints: {count} times in {len(TO_FILES)} ways, {len(wrong)} went wrong")
    return wrong
