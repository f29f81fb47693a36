"""smollm2 without its download: an empty wheel, and in the place of what it is converted to the files of a small model.
All else is as users have it."""

import shutil
import zipfile
from pathlib import Path

from headcount.models import smollm2


def pretend(convert, change=setattr):
    """Put `convert(gguf, out)` and a wheel without content in the place of the real ones; `change` sets attributes."""
    for name, stand_in in (("_download", _empty_wheel), ("_check", lambda wheel: None), ("_convert", convert)):
        change(smollm2, name, stand_in)
    change(smollm2, "SPACE", 0)


def copy_of(folder):
    """A conversion that takes no time: it gives the files of this folder."""

    def convert(gguf, out):
        for path in sorted(Path(folder).iterdir()):
            shutil.copy(path, out / path.name)

    return convert


def _empty_wheel(scratch):
    wheel = scratch / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(smollm2.GGUF, b"")
    return wheel
