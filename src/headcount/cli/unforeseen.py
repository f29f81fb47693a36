"""What nobody foresaw: one sentence for the user, and the traceback in a file for whoever mends it."""

import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

from ..core.cache import cache_folder
from ..core.errors import HeadcountError, in_short
from ..core.provenance import versions

LOGS = "logs"


def told_and_kept(error: BaseException) -> str:
    """What to tell of an error, which is written to a log in the cache folder, or where that cannot be had, among the
    temporary files."""
    where = _kept(error)
    log = f"The traceback is in {where}" if where else "Its traceback could not be written"
    said = f"{type(error).__name__}: {in_short(error, 90)}"
    return str(HeadcountError(f"an unexpected error occurred ({said}). {log}; finished steps are kept."))


def _kept(error: BaseException) -> Path | None:
    facts = {"command": sys.argv, "versions": versions(), "time": datetime.now(UTC).isoformat(timespec="seconds")}
    lines = [*(f"{name}: {fact!r}\n" for name, fact in facts.items()), *traceback.format_exception(error)]
    for folder in (cache_folder() / LOGS, Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=folder, prefix="headcount-", suffix=".log", encoding="utf-8", errors="replace", delete=False
            ) as file:
                file.writelines(lines)
                return Path(file.name)
        except OSError:
            continue
    return None
