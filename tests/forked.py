"""headcount in a process of its own, forked from the tests' so that torch need not be imported again; it can be killed
like any other."""

import importlib
import multiprocessing
import os
import resource
import sys
import tempfile
from pathlib import Path

CPU_SECONDS = 240
"""After which a process that does not end is ended."""
FORKED = multiprocessing.get_context("fork")
WARM = (
    "torch", "transformers", "transformers.models.llama.modeling_llama", "peft", "accelerate", "headcount.cli.commands",
    "headcount.tasks.ioi", "headcount.rank.score", "headcount.sparse.run", "headcount.studies.runner",
    "headcount.studies.report", "headcount.studies.kept.steps", "headcount.studies.kept.outputs",
    *(f"matplotlib.backends.backend_{name}" for name in ("agg", "pdf", "svg")),
)  # fmt: skip


def start(*arguments, cache, said=os.devnull, errors=None, limits=None, first=None):
    """Begin `headcount …` with a cache folder of its own; what it says goes to a file, or to two. `first` is called in
    the process before all else. Gives the process."""
    _warm_up()
    words, told = ["headcount", *map(str, arguments)], (said, errors or said)
    process = FORKED.Process(target=_main, args=(words, {"HEADCOUNT_CACHE": str(cache)}, told, limits or {}, first))
    process.start()
    return process


def ended(process):
    """Its exit code, once it has ended; a busy machine is waited for."""
    process.join(1800)
    return process.exitcode


def run(code, *arguments, sites, folder, settings):
    """Run code as a new Python would that finds packages in `sites` too: headcount is imported anew. Gives what it
    prints."""
    _warm_up()
    with tempfile.TemporaryDirectory() as scratch:
        told = out, err = Path(scratch, "out"), Path(scratch, "err")
        words = ["-c", *map(str, arguments)]
        process = FORKED.Process(target=_afresh, args=(code, words, list(map(str, sites)), folder, settings, told))
        process.start()
        assert ended(process) == 0, err.read_text()
        return out.read_text()


def _warm_up():
    """So that the child finds them there."""
    for name in WARM:
        importlib.import_module(name)


def _main(words, settings, told, limits, first):
    _settle(words, settings, told)
    for limit, ends in {resource.RLIMIT_CPU: (CPU_SECONDS, CPU_SECONDS + 5), **limits}.items():
        resource.setrlimit(limit, ends)
    if first is not None:
        first()
    from headcount.cli import main

    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _afresh(code, words, sites, folder, settings, told):
    _settle(words, settings, told)
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


def _settle(words, settings, told):
    """What the child is told, and where what it says goes."""
    os.environ.update(settings)
    for number, place in enumerate(told, start=1):
        with open(place, "a") as file:
            os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    sys.argv = words


class Worker:
    """In the place of `subprocess.Popen`, a worker of `--on local` that is forked from its driver."""

    def __init__(self, command, **options):
        *_, folder, driver = command
        self._process = FORKED.Process(target=_work, args=(folder, int(driver)), daemon=True)
        self._process.start()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def wait(self):
        self._process.join()


def _work(folder, driver):
    from headcount.studies.executors.mailbox import serve

    serve(Path(folder), lambda: os.getppid() == driver, beat=0.2)
