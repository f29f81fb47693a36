"""Checksums, by which a result that was damaged on disk is told from a whole one.

A folder has the file SHA256SUMS, with the hash of every other file and, before its name, that of the folder: what was
put into another folder is noticed too. `sha256sum --check KEY/SHA256SUMS` reads it, beside the folders. A safetensors
file can hold its own hash, among its facts.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from .errors import HeadcountError
from .files import write_file

SUMS = "SHA256SUMS"
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
    apart = sorted(set(written.splitlines()) ^ set(found.splitlines()), key=lambda line: line[::-1])
    named = apart[0].partition(b"  ")[2].decode(errors="replace") if apart else SUMS
    return f"{named[-80:] or SUMS} is not as it was written"


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


def sealed(serialise: Callable[[dict[str, str]], bytes], facts: dict[str, str]) -> bytearray:
    """A safetensors file with the hash of itself among its facts; it is hashed with zeros in the place of the hash."""
    data = bytearray(serialise({**facts, "sha256": BLANK.decode()}))
    place = data.index(BLANK)
    data[place : place + len(BLANK)] = hashlib.sha256(data).hexdigest().encode()
    return data


def unsealed(path: Path) -> tuple[bytes, dict[str, str]]:
    """Such a file and its facts; an error where it is not as it was written."""
    data = memoryview(path.read_bytes())
    try:
        end = 8 + int.from_bytes(data[:8], "little")
        header = bytes(data[8:end])
        facts: dict[str, str] = json.loads(header)["__metadata__"]
        mark = facts["sha256"].encode()
        place = 8 + header.index(mark)
        rest = data[:place], BLANK, data[place + len(mark) :]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HeadcountError(f"{path} is damaged: its facts cannot be read.") from error
    found = hashlib.sha256()
    for part in rest:
        found.update(part)
    if found.hexdigest().encode() != mark:
        raise HeadcountError(f"{path} is damaged: it is not as it was written.")
    return data.obj, facts  # type: ignore[return-value]
