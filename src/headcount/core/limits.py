"""A machine's limits in one sentence: a full disk, a folder that may not be written, memory that has run out."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import HeadcountError, in_short

FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file there may not grow so large (ulimit -f)",
}
CLOSED = {
    errno.EACCES: "you have no right to",
    errno.EPERM: "you have no right to",
    errno.EROFS: "the disk can only be read",
    errno.ENOTDIR: "a file stands in the way of a folder",
    errno.EISDIR: "a folder stands in the way of a file",
    errno.ENAMETOOLONG: "its name is too long for the disk",
    errno.EIO: "the disk reports an error",
    errno.EMFILE: "too many files are open (ulimit -n)",
    errno.ENFILE: "too many files are open",
}
KEPT = "Finished steps are kept"
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "cannot allocate memory")
_IN_RUST = re.compile(r"os error (\d+)|code: (\d+)")
"""How safetensors and tokenizers, which write files themselves, tell the number of an error."""


def refusal(place: Path | None, error: BaseException) -> HeadcountError | None:
    """Why something could not be written to a place, or to where the output goes, where a limit is the reason."""
    number = _number(error)
    if number in FULL:
        what, cure = FULL[number], "Make room, or name another folder"
    elif number in CLOSED:
        what, cure = CLOSED[number], "Name another folder"
    else:
        return None
    if place is None:
        return HeadcountError(f"The output cannot be written: {what}. {KEPT}. Send it elsewhere, and run it again.")
    named = "--out for results, HEADCOUNT_CACHE for the cache"
    return HeadcountError(f"{place} cannot be written: {what}. {KEPT}. {cure} ({named}), and run it again.")


def limit_in_words(error: BaseException) -> str:
    """Whatever limit was run into, where nobody nearer to it has said so; empty where it was none."""
    words = in_short(error, 100)
    if isinstance(error, MemoryError) or _number(error) == errno.ENOMEM or any(no in words.lower() for no in NO_MEMORY):
        cure = "Give it fewer or shorter prompts, a smaller batch or --memory, or a smaller model, and run it again"
        return f"The machine has no memory left ({words}). {KEPT}. {cure}."
    place = getattr(error, "filename", None)
    found = refusal(Path(str(place)) if place else None, error)
    return "" if found is None else str(found)


@contextmanager
def telling(place: Path) -> Iterator[None]:
    """What the block writes there fails in one sentence."""
    try:
        yield
    except HeadcountError:
        raise
    except Exception as error:
        told = refusal(place, error)
        if told is None:
            raise
        raise told from error


def _number(error: BaseException) -> int | None:
    """The system's number of an error; it is looked for in the words of those that are not Python's own."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _IN_RUST.search(str(error))
    return int(found[1] or found[2]) if found else None
