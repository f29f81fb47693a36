"""A small study whose finished steps and checkpoints are damaged, again and again: every result is right, every damage
is said. And a full disk, made by a limit on the size of files: one sentence, and the next run goes on."""

import contextlib
import io
import json
import os
import random
import resource
import shutil

import headcount as hc
from campaigns.damage import TO_FILES, TO_FOLDERS
from forked import ended, start
from headcount.rank import descent
from headcount.sparse.training import Training
from headcount.studies.kept import outputs

ASKED = {"n": 8, "points": 3, "draws": 1, "repeats": 1, "orders": ["absolute", "chance"], "method": "one-pass"}


def run(folder, out):
    """Curves as numbers, and what was said; without figures, which take most of the time."""
    said, drawn = io.StringIO(), outputs.save_figure
    outputs.save_figure = lambda *arguments: None
    try:
        with contextlib.redirect_stderr(said):
            result = hc.run("heads-kept", models=[folder], tasks=["ioi"], out=out, overrides=ASKED, quiet=True)
    finally:
        outputs.save_figure = drawn
    return [(curve.order, curve.values["logit_diff"].tobytes()) for curve in result.curves], " ".join(
        said.getvalue().split()
    )


def contents(place):
    return {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def damage(count, scratch, folder, seed=0, say=print):
    """Of finished steps."""
    os.environ["HEADCOUNT_CACHE"] = str(scratch / "damaged")
    steps, copy, rng, wrong = scratch / "damaged" / "steps", scratch / "copy", random.Random(seed), []
    whole, _ = run(folder, scratch / "out")
    shutil.copytree(steps, copy)
    for number in range(count):
        hurt = TO_FOLDERS[number % len(TO_FOLDERS)]
        hurt(steps, rng)
        same = contents(steps) == contents(copy)
        try:
            found, said = run(folder, scratch / "out")
        except BaseException as error:
            wrong.append(f"{hurt.__name__}: {error!r}"[:300])
        else:
            if found != whole:
                wrong.append(f"{hurt.__name__}: another result")
            if not same and "is damaged" not in said:
                wrong.append(f"{hurt.__name__}: nothing was said")
        shutil.rmtree(steps)
        shutil.copytree(copy, steps)
    say(f"damage to finished steps: {count} times in {len(TO_FOLDERS)} ways, {len(wrong)} went wrong")
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


def full_disk(scratch, folder, sizes=(2000, 6000, 20000, 60000), say=print):
    """A study under limits on the size of its files, then without."""
    wrong = []
    for size in sizes:
        place, said = scratch / f"full-{size}", scratch / f"said-{size}"
        asked = ("run", "heads-kept", "--model", folder, "--task", "ioi", "-n", 8, "--method", "one-pass", "--order")
        asked = (*asked, "absolute", "--points", 3, "--repeats", 1, "--out", place / "out")
        code = ended(start(*asked, cache=place, said=said, limits={resource.RLIMIT_FSIZE: (size, size)}))
        words = said.read_text().strip().splitlines()[-1:]
        if code != 2 or "Traceback" in said.read_text() or "Finished steps are kept" not in "".join(words):
            wrong.append(f"limit of {size} bytes: {code}, {words}")
        if list(place.rglob(".unfinished*")):
            wrong.append(f"limit of {size} bytes: something hidden is left")
        if ended(start(*asked, cache=place, said=said)):
            wrong.append(f"after a limit of {size} bytes: {said.read_text()[-300:]}")
        shutil.rmtree(place)
    say(f"full disk: {len(sizes)} limits on the size of files, {len(wrong)} went wrong")
    return wrong
