"""Command lines and studies: planned, and run for a second; and what COMET answers."""

import contextlib
import subprocess
from pathlib import Path
from unittest import mock

from fuzz.home import WrongError
from fuzz.mutations import changed_bytes, changed_json, changed_value, strange
from fuzz.sound_inputs import COMMANDS, RUNS, STUDIES

WORDS = ("--n", "-n", "9" * 5000, "--seed", "-1", "1e12", "--", "--help", "nan", "é", "0")


def study(home, rng):
    _write_study(home, rng, rng.choice(STUDIES))
    home.called("run", "s.toml", "--plan", "--model", "m", *(["--quick"] if rng.random() < 0.2 else []))


def real_run(home, rng):
    """Every step of a study, and all that it writes but for the figures."""
    _write_study(home, rng, rng.choice(RUNS))
    with _no_figures():
        home.called("run", "s.toml", "--model", "m", "--out", "out")


def _write_study(home, rng, sound):
    import tomli_w

    made = changed_value(sound, rng) if rng.random() < 0.8 else sound
    try:
        data = tomli_w.dumps(made).encode()
    except (TypeError, ValueError, AttributeError, UnicodeEncodeError):  # TOML has no null, and no half letters
        data = tomli_w.dumps(sound).encode()
    home.written("s.toml", changed_bytes(data, rng) if rng.random() < 0.3 else data)


def _no_figures():
    stack = contextlib.ExitStack()
    for kind in ("kept", "head_roles", "masked_heads"):
        stack.enter_context(mock.patch(f"headcount.studies.{kind}.outputs.save_figure"))
    return stack


def command(home, rng):
    words = list(rng.choice(COMMANDS))
    if "scores" in words:
        home.copied(home.scores)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, way = rng.randrange(len(words)), rng.randrange(4)
        if way == 0:
            words[at] = str(strange(rng)).replace("\0", "").encode(errors="replace").decode()
        elif way == 1:
            words.pop(at)
            words = words or ["--version"]
        elif way == 2:
            words.insert(at, rng.choice(WORDS))
        else:
            broken = changed_bytes(words[at].encode(errors="surrogateescape"), rng)
            words[at] = broken.replace(b"\0", b"").decode(errors="surrogateescape")
    if "run" in words[:1] and "--plan" not in words:
        words.append("--plan")
    home.called(*words)


def comet(home, rng):
    from headcount.meters import comet as ours

    answers = ["a b", "c"]
    rows = {"answer": [{"src": "x", "mt": answer, "ref": "y", "COMET": 0.5} for answer in answers]}

    def call(command, folder=None, **more):
        Path(folder, "scores.json").write_bytes(changed_json(rows, rng))
        return subprocess.CompletedProcess(command, rng.choice((0, 0, 0, 1)), "", "ValueError: no")

    with mock.patch.object(ours, "_call", call):
        found = ours.comet_scores(["x", "x"], answers, ["y", "y"], command=Path("comet-score"))
    if not all(isinstance(score, float) for score in found):
        raise WrongError(f"scores {found}")


READERS = {"study": (8, study), "run": (1, real_run), "command": (8, command), "comet": (3, comet)}
