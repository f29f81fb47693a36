"""Memory that is freed and wanted again a moment later.

By default glibc gives large blocks back to the system and gets them again as fresh pages, which a training step on the
CPU pays for with a third of its time. Here the process keeps them.
"""

import ctypes
from contextlib import suppress

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4  # names of settings in malloc.h


def keep_freed_memory() -> None:
    """For the rest of this process; where the C library is another one, nothing happens."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
        mallopt(TOP_PAD, 2**28)
