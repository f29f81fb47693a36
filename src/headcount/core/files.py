"""Files and folders that are either whole or absent, whoever writes beside us and whenever we are killed.

Everything is written under a hidden name, `.unfinished-…`, and then renamed. Its writer holds a lock on it, which a
killed process loses, so that the next one can tell what is dead from what is being written, and clears it away.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from .errors import HeadcountError
from .limits import refusal, telling

T = TypeVar("T")
UNFINISHED = ".unfinished-"
LEAST_SPACE = 2**25
"""Bytes that must be free before work begins: figures, tables and steps of most studies."""


def writable_folder(folder: Path, space: int = LEAST_SPACE) -> Path:
    """The folder, made where need be, without what killed runs have left in it; refused before any work is done where
    nothing can be written into it, or less than `space` bytes."""
    _made.extend(place for place in (folder, *folder.parents) if not place.exists())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        clear_unfinished(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        told = refusal(folder, error)
        raise told or HeadcountError(
            f"The folder {folder} cannot be written ({error.strerror}). Name another one: --out for results,"
            " HEADCOUNT_CACHE for the cache."
        ) from error
    if free < space:
        raise HeadcountError(
            f"{folder} is on a disk with {free / 1e6:,.0f} MB left, and this may need {space / 1e6:,.0f} MB. Make room,"
            " or name another folder: --out for results, HEADCOUNT_CACHE for the cache."
        )
    return folder


_made: list[Path] = []
"""Folders that were not there before, each before the one around it."""


def remove_empty_folders() -> None:
    """Those that were made for results that never came, as where a command was refused."""
    for folder in _made:
        with suppress(OSError):
            folder.rmdir()
    _made.clear()


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file that is never seen half done, also after a kill; a link of that name is replaced, not followed. What
    killed runs have left beside it goes."""
    data = content.encode() if isinstance(content, str) else content
    clear_unfinished(path.parent)
    with telling(path), _unfinished(path.parent, Path.touch) as (unfinished, _):
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)


@contextmanager
def write_folder(folder: Path, is_whole: Callable[[Path], bool] = Path.is_dir) -> Iterator[Path]:
    """Fill a folder that appears under its name only when the block has ended well. Where another process has put a
    whole one there meanwhile, that one stays; a damaged one makes room."""
    writable_folder(folder.parent)
    with telling(folder), _unfinished(folder.parent, Path.mkdir) as (unfinished, scrap):
        yield unfinished
        with held(folder.parent):
            if not is_whole(folder):
                with suppress(FileNotFoundError):
                    os.rename(folder, scrap)
                os.rename(unfinished, folder)


@contextmanager
def fill_folder(folder: Path, first: str, stale: Callable[[], Iterable[str]] = tuple) -> Iterator[Path]:
    """Write files beside those of a folder, into which they move when the block has ended well: `first` the one that
    says what the others are. Files that are `stale` then, and not written anew, go."""
    writable_folder(folder)
    with telling(folder), _unfinished(folder, Path.mkdir) as (unfinished, scrap):
        yield unfinished
        made = [path.relative_to(unfinished) for path in unfinished.rglob("*") if not path.is_dir()]
        with held(folder):
            for old in {Path(name) for name in stale()} - set(made):
                _remove(folder, old)
            for path in sorted(made, key=lambda path: (str(path) != first, path)):
                _make_way(folder, path, scrap)
                os.replace(unfinished / path, folder / path)


def _remove(folder: Path, path: Path) -> None:
    """A file below a folder, and the folders that it leaves empty; never what a link leads to."""
    above = list(path.parents)[:-1]
    if path.is_absolute() or ".." in path.parts or any((folder / parent).is_symlink() for parent in above):
        return
    with suppress(OSError):
        (folder / path).unlink()
        for parent in above:
            (folder / parent).rmdir()


def _make_way(folder: Path, path: Path, scrap: Path) -> None:
    """The folders above a file, in the place of links of that name."""
    for parent in list(path.parents)[-2::-1]:
        place = folder / parent
        if place.is_symlink():
            place.unlink()
        place.mkdir(exist_ok=True)
    if (folder / path).is_dir() and not (folder / path).is_symlink():
        scrap.mkdir(exist_ok=True)
        os.rename(folder / path, scrap / path.name)


# ---------------------------------------------------------------------------------------------------------------------
# Locks, and what killed runs leave


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """One process or thread at a time, of those that hold the same folder; all at once where the disk has no locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _unfinished(folder: Path, make: Callable[[Path], None]) -> Iterator[tuple[Path, Path]]:
    """A hidden name that is locked while the block lasts, and a name for scrap; both are gone afterwards."""
    path, handle = _claim(folder, make)
    scrap = path.with_name(f"{path.name}-scrap")
    try:
        yield path, scrap
    finally:
        _delete(path)
        _delete(scrap)
        os.close(handle)


def _claim(folder: Path, make: Callable[[Path], None]) -> tuple[Path, int]:
    while True:
        path = folder / f"{UNFINISHED}{secrets.token_hex(8)}"
        make(path)
        with suppress(FileNotFoundError):  # who clears up may have come before the lock
            handle = os.open(path, os.O_RDONLY)
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            if path.exists():
                return path, handle
            os.close(handle)


def clear_unfinished(folder: Path) -> None:
    """Remove what killed runs have left; of those that live, the lock is held."""
    for path in folder.glob(f"{UNFINISHED}*"):
        with suppress(OSError):
            owner = path.with_name(path.name.removesuffix("-scrap"))
            handle = os.open(owner if owner.exists() else path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _delete(path)
            finally:
                os.close(handle)


def _delete(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def read_toml(path: Path, kind: type[T]) -> T:
    """Of data that comes with the package; a user's file is read where its errors can be told."""
    return TypeAdapter(kind).validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
