"""Checksums, by which a result that was damaged on disk is told from a whole one.

A folder has the file SHA256SUMS, with the hash of every other file and, before its name, that of the folder: what was
put into another folder is noticed too. `sha256sum --check KEY/SHA256SUMS` reads it, beside the folders. A file can hold
its own hash: a safetensors file among its facts, a JSON file as one of its fields.
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

from .errors import HeadcountError
from .files import write_file

SUMS = "SHA256SUMS"
LINE = re.compile(rb"[0-9a-f]{64}  .+/.+")
BLANK = b"0" * 64


def write_sums(folder: Path, name: str = "") -> None:
    """Of all that is in a folder; `name` is what it will be called."""
    write_file(folder / SUMS, _sums(folder, name or folder.name))


def damage(folder: Path) -> str:
    """What is wrong with a folder, in words; empty where every file is as it was written."""
    try:
        written, found = (folder / SUMS).read_bytes(), _sums(folder, folder.name).encode()
    except FileNotFoundError:
        return f"{SUMS} is missing"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if written == found:
        return ""
    lines = written.splitlines()
    if not all(map(LINE.fullmatch, lines)):
        return f"{SUMS} is not as it was written"
    apart = sorted(set(lines) ^ set(found.splitlines()), key=lambda line: line[::-1])
    named = apart[0].partition(b"  ")[2].decode(errors="replace") if apart else SUMS
    return f"{named[-80:]} is not as it was written"


def is_whole(folder: Path) -> bool:
    return not damage(folder)


def _sums(folder: Path, name: str) -> str:
    lines = []
    for path in sorted(path for path in folder.rglob("*") if not path.is_dir() and path != folder / SUMS):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}/{path.relative_to(folder)}\n")
    return "".join(lines)


# ---------------------------------------------------------------------------------------------------------------------
# One file


def sealed(serialise: Callable[[dict[str, str]], bytes], facts: dict[str, str]) -> bytes:
    """A safetensors file with the hash of itself among its facts."""
    return stamped(serialise({**facts, "sha256": BLANK.decode()}))


def unsealed(path: Path) -> tuple[bytes, dict[str, str]]:
    """Such a file and its facts; an error where it is not as it was written."""
    data = path.read_bytes()
    try:
        facts: dict[str, str] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        whole = is_as_stamped(data, facts["sha256"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HeadcountError(f"{path} is damaged: its facts cannot be read.") from error
    if not whole:
        raise HeadcountError(f"{path} is damaged: it is not as it was written.")
    return data, facts


def stamped(data: bytes, beside: bytes = b"") -> bytes:
    """What has room for a hash (`BLANK`), with the hash there: of itself, with zeros in that place, and of a file that
    lies beside it."""
    return data.replace(BLANK, _hash(data, beside), 1)


def is_as_stamped(data: bytes, stamp: str, beside: bytes = b"") -> bool:
    """Whether what `stamped` wrote is what it was; `stamp` is the hash that it holds."""
    mark = stamp.encode()
    place = data.find(mark)
    if len(mark) != len(BLANK) or place < 0:
        return False
    view = memoryview(data)
    return _hash(view[:place], BLANK, view[place + len(mark) :], beside) == mark


def _hash(*parts: bytes | memoryview) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest().encode()
