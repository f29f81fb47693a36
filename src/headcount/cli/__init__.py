"""The command line: parse, call, print. Nothing here imports torch until a command needs it.

This file and those above it import next to nothing, so that Ctrl-C is answered from the first moment on: the commands
take half a second to import, and an interrupt then would end in a traceback through other people's modules.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended."""
STOPPED = "headcount: stopped."


def main() -> None:
    """The entry point."""
    with _stopping_at_once():
        from .commands import run
    try:
        run()
    except KeyboardInterrupt:
        stopped()


def stopped(words: str = "") -> None:
    print(f"{STOPPED} {words}".rstrip(), file=sys.stderr)
    sys.exit(INTERRUPTED)


@contextmanager
def _stopping_at_once() -> Iterator[None]:
    """Inside the block Ctrl-C ends the process. Nothing has begun that would need an end, and a module that is stopped
    halfway through its import may turn the interrupt into another error. Who ignores Ctrl-C goes on doing so."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(*_: object) -> None:
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(INTERRUPTED)
