"""headcount in a process of its own, forked from the tests' so that torch need not be imported again; it can be killed
like any other."""

import importlib
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

FORKED = multiprocessing.get_context("fork")


def start(*arguments, cache, said=os.devnull):
    """Begin `headcount …` with a cache folder of its own; what it says goes to a file. Gives the process."""
    _import_heavy_libraries()
    words = ["headcount", *map(str, arguments)]
    process = FORKED.Process(target=_main, args=(words, {"HEADCOUNT_CACHE": str(cache)}, said, said))
    process.start()
    return process


def ended(process):
    """Its exit code, once it has ended."""
    process.join(240)
    return process.exitcode


def run(code, *arguments, sites, folder, settings):
    """Run code as a new Python would that finds packages in `sites` too: headcount is imported anew. Gives what it
    prints."""
    _import_heavy_libraries()
    with tempfile.TemporaryDirectory() as scratch:
        out, err = Path(scratch, "out"), Path(scratch, "err")
        words = ["-c", *map(str, arguments)]
        process = FORKED.Process(target=_afresh, args=(code, words, list(map(str, sites)), folder, settings, out, err))
        process.start()
        assert ended(process) == 0, err.read_text()
        return out.read_text()


def _import_heavy_libraries():
    """So that a child finds them there."""
    formats = [f"matplotlib.backends.backend_{name}" for name in ("agg", "pdf", "svg")]
    for name in ("torch", "transformers", "peft", *formats):
        importlib.import_module(name)


def _main(words, settings, out, err):
    _settle(words, settings, out, err)
    from headcount.cli import main

    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _afresh(code, words, sites, folder, settings, out, err):
    _settle(words, settings, out, err)
    os.chdir(folder)
    sys.path[:0] = sites
    for name in [name for name in sys.modules if name.partition(".")[0] == "headcount"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        exec(code, {"__name__": "__main__"})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _settle(words, settings, out, err):
    """What the child is told, and where its output goes."""
    os.environ.update(settings)
    for number, place in ((1, out), (2, err)):
        file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    sys.argv = words
