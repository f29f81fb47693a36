"""headcount in a process of its own, forked from the tests' so that torch need not be imported again; it can be killed
like any other."""

import multiprocessing
import os
import resource
import sys


def start(*arguments, cache, said=os.devnull, errors=None, limits=None, first=None):
    """Begin `headcount …` with a cache folder of its own; what it says goes to a file, or to two. `first` is called in
    the process before all else. Gives the process."""
    import torch  # noqa: F401 so that the child finds them there
    import transformers  # noqa: F401

    words = ["headcount", *map(str, arguments)]
    told = str(said), str(errors or said)
    process = multiprocessing.get_context("fork").Process(
        target=_main, args=(words, str(cache), told, limits or {}, first)
    )
    process.start()
    return process


def ended(process):
    """Its exit code, once it has ended."""
    process.join(240)
    return process.exitcode


def _main(words, cache, told, limits, first):
    os.environ["HEADCOUNT_CACHE"] = cache
    for number, place in enumerate(told, start=1):
        with open(place, "a") as file:
            os.dup2(file.fileno(), number)
    for limit, ends in limits.items():
        resource.setrlimit(limit, ends)
    if first is not None:
        first()
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    sys.argv = words
    from headcount.cli import main

    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
