"""COMET scores of translations, from the `comet-score` command in an environment of its own.

COMET needs transformers below 5 and numpy below 2, so it cannot be imported here. Texts go to the command as files,
scores come back as JSON.
"""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..core.cache import cache_folder
from ..core.errors import HeadcountError, in_short
from ..core.files import writable_folder, write_file
from ..core.progress import say
from ..core.reading import STUMBLED, local_path

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"
HOW_TO_GET_IT = "COMET is not installed. Run: headcount comet setup. Or name a comet-score with HEADCOUNT_COMET."
REQUIREMENTS = (
    "unbabel-comet==2.2.7",
    "transformers>=4.57,<5",
    "numpy>=1.26,<2",
    "setuptools<81",  # torchmetrics 0.10 asks for pkg_resources, which later ones have dropped
    "pytorch-lightning>=2.5,<2.6",  # from 2.6 on, checkpoints with more in them than tensors are refused
)
PYTHONS = ("3.10", "3.11", "3.12")  # for which there are both numpy 1 and a recent torch
COMMAND, MARKER = "bin/comet-score", "whole.txt"
Texts = Sequence[str]
_EXCEPTION = re.compile(r"^(?P<module>[a-z_][\w.]*\.)?(?P<name>[A-Z]\w*): *(?P<words>.*\S)")


def find_comet(command: str | None = None) -> Path | None:
    """The comet-score to use: the one named, else $HEADCOUNT_COMET, else headcount's own, else one on the PATH."""
    named = command or os.environ.get("HEADCOUNT_COMET")
    if not named and (_home() / MARKER).is_file():
        return _home() / COMMAND
    found = shutil.which(local_path(named) if named else "comet-score")
    if named and found is None:
        raise HeadcountError(f"{named!r} is no comet-score that runs. Name another or run: headcount comet setup")
    return Path(found).absolute() if found else None


def setup_comet(python: str | None = None, note: Callable[[str], None] = say) -> Path:
    """Make COMET's own environment in the cache folder; takes minutes and 1.4 GB, with CUDA several GB more.

    A virtual environment cannot be moved once made, so a marker that is written last says that this one is whole.
    """
    requirements = (*REQUIREMENTS, f"torch=={version('torch').partition('+')[0]}")
    wanted, place = "\n".join(requirements) + "\n", _home()
    command, marker = place / COMMAND, place / MARKER
    if marker.is_file() and marker.read_text(encoding="utf-8") == wanted:
        return command
    python = python or sys.executable
    found = _call([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).stdout.strip()
    if found not in PYTHONS:
        raise HeadcountError(
            f"COMET wants one of Python {', '.join(PYTHONS)}; {python} is {found or 'none'}."
            " Name another: headcount comet setup --python python3.12"
        )
    writable_folder(place)
    try:
        note(f"Making an environment for COMET in {place}")
        _step([python, "-m", "venv", "--clear", str(place)], "its virtual environment could not be made")
        note(f"Installing {', '.join(requirements)}; this takes some minutes")
        pip = [str(command.with_name("python")), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _step([*pip, *requirements], "pip failed")
        note("Trying it")
        _step([str(command), "--help"], "comet-score does not start")
        write_file(marker, wanted)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return command


def checkpoint(model: str) -> str:
    """What comet-score is told: a file that is there, or a name on the hub, which nothing but a download can try."""
    place = local_path(model)
    if (inside := place / "checkpoints" / "model.ckpt").is_file():  # a downloaded model, in the layout of the hub
        place = inside
    if place.suffix == ".ckpt" and place.is_file():
        return str(place.absolute())
    if place.suffix == ".ckpt" or place.is_absolute() or model.startswith(("~", ".")):
        raise HeadcountError(
            f"There is no COMET model at {model}: wanted a .ckpt file, a folder with checkpoints/model.ckpt in it,"
            f" or a name on the hub such as {DEFAULT_MODEL}."
        )
    return model


def comet_scores(
    sources: Texts, answers: Texts, references: Texts, *, command: Path, model: str = DEFAULT_MODEL, batch: int = 16
) -> list[float]:
    """One score a segment. The same three texts are scored once, however often they come."""
    if not len(sources) == len(answers) == len(references):
        raise HeadcountError(
            "COMET wants a source and a reference for every answer;"
            f" these are {len(sources)} sources, {len(answers)} answers and {len(references)} references."
        )
    triples = [tuple(map(_one_line, texts)) for texts in zip(sources, answers, references, strict=True)]
    unique = list(dict.fromkeys(triples))
    if not unique:
        return []
    scores = dict(zip(unique, _run(unique, command, checkpoint(model), batch), strict=True))
    return [scores[triple] for triple in triples]


def _run(triples: list[tuple[str, ...]], command: Path, model: str, batch: int) -> list[float]:
    import torch

    with tempfile.TemporaryDirectory() as scratch:
        for name, column in zip(("source", "answer", "reference"), zip(*triples, strict=True), strict=True):
            # Every line is ended, the last one too, or an empty text there would be no line.
            Path(scratch, name).write_bytes("".join(f"{text}\n" for text in column).encode())
        fixed = "-s source -t answer -r reference --quiet --only_system --to_json scores.json".split()
        chosen = ["--model", model, "--batch_size", str(batch), "--gpus", str(int(torch.cuda.is_available()))]
        done = _call([str(command), *fixed, *chosen], scratch, seconds=_patience(len(triples)))
        if done.returncode:
            raise HeadcountError(
                f"COMET gave no scores with {model}: {_reason(done)} Where the model could not be had, check the"
                " connection to the hub, whether its licence must be accepted there first, or name a .ckpt file."
            )
        try:
            (rows,) = json.loads(Path(scratch, "scores.json").read_text(encoding="utf-8")).values()
            scores = [float(row["COMET"]) for row in rows]
            answered = [row["mt"] for row in rows]
        except STUMBLED as error:
            raise HeadcountError(
                f"{command} ended well but wrote no scores that can be read ({in_short(error, 80)})."
                f" Is it the comet-score of {REQUIREMENTS[0]}?"
            ) from error
    if answered != [answer for _, answer, _ in triples]:  # a line lost would shift all the scores after it
        raise HeadcountError(f"{command} was given {len(triples)} answers and scored {len(rows)} other ones.")
    if not all(map(math.isfinite, scores)):
        raise HeadcountError(f"COMET gave scores with {model} that are no finite numbers. Try another model.")
    return scores


def _one_line(text: str) -> str:
    """comet-score reads a segment a line and strips it; lone surrogates, which no file can hold, become '?'."""
    return " ".join(text.split()).encode(errors="replace").decode()


def _home() -> Path:
    return cache_folder() / "comet"


def _step(command: list[str], trouble: str) -> None:
    done = _call(command)
    if done.returncode:
        raise HeadcountError(f"COMET could not be set up, {trouble}: {_reason(done, 3)} Nothing was kept.")


def _patience(answers: int) -> float:
    """Seconds after which COMET is given up: an hour, for its model may have to be downloaded, and what the answers
    take on a slow machine; or as the user says."""
    asked = os.environ.get("HEADCOUNT_COMET_SECONDS", "")
    try:
        return float(asked) if asked else 3600.0 + 5.0 * answers
    except ValueError as error:
        raise HeadcountError(f"HEADCOUNT_COMET_SECONDS must be a number of seconds; it is {asked!r}.") from error


def _call(
    command: list[str], folder: str | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of the other environment, which is not to see the packages of this one; where it takes longer than
    some seconds, or we are stopped, it is ended with all that it has started."""
    own = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    alone: Any = {"cwd": folder, "env": own, "text": True, "errors": "replace", "start_new_session": True}
    try:
        with subprocess.Popen(command, **quiet, **alone) as process:
            try:
                said, errors = process.communicate(timeout=seconds)
            except BaseException:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
    except OSError as error:
        raise HeadcountError(f"{command[0]} cannot be run: {error.strerror}. Name another one.") from error
    except subprocess.TimeoutExpired as error:
        raise HeadcountError(
            f"{command[0]} did not answer in {seconds:,.0f} seconds and was ended. Give it more with"
            " HEADCOUNT_COMET_SECONDS, or do without: --comet no."
        ) from error
    return subprocess.CompletedProcess(command, process.returncode, said, errors)


def _reason(done: subprocess.CompletedProcess[str], lines: int = 1) -> str:
    """The last words of a program. COMET hides why a model could not be had; the hub's own error stands above."""
    said = [line.strip() for line in (done.stderr.strip() or done.stdout).splitlines() if line.strip()]
    raised = [match for line in said if (match := _EXCEPTION.match(line))]
    hidden = [match for match in raised if (match["module"] or "").startswith(("huggingface_hub.", "requests."))]
    if raised and "not supported by COMET" in raised[-1]["words"] and hidden:
        said = [f"{hidden[-1]['name']}: {hidden[-1]['words']}"]
    words = " ".join(said[-lines:]) or f"it ended with code {done.returncode} and no reason"
    return words.rstrip(".!") + "."
