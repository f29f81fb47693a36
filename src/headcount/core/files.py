"""Files and folders that are either whole or absent."""

import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import HeadcountError
from .provenance import Facts

TRIES = 5  # to put a folder in its place, while others remove it


def writable_folder(folder: Path) -> Path:
    """The folder, made where need be; refused before any work is done where nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise HeadcountError(
            f"The folder {folder} cannot be written ({error.strerror}). Name another one: --out for results,"
            " HEADCOUNT_CACHE for the cache."
        ) from error


@contextmanager
def write_folder(folder: Path) -> Iterator[Path]:
    """Fill a folder that appears under its name only when the block has ended well. Where another process has put the
    same one there meanwhile, that one stays."""
    writable_folder(folder.parent)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield unfinished
        for _ in range(TRIES):
            try:
                os.replace(unfinished, folder)
                return
            except OSError:
                if folder.is_dir():
                    return
        raise HeadcountError(f"The folder {folder} cannot be put in its place; does another program remove it?")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file that is never seen half done, also after a kill."""
    data = content.encode() if isinstance(content, str) else content
    handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def read_toml(path: Path) -> Facts:
    """Of data that comes with the package; a user's file is read where its errors can be told."""
    return tomllib.loads(path.read_text(encoding="utf-8"))
