"""Studies: a TOML of panels becomes curves, a figure, tables and a summary."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runner import StudyResult as StudyResult
    from .runner import run as run


def __getattr__(name: str) -> Any:
    if name in ("run", "StudyResult"):
        from . import runner

        return getattr(runner, name)
    raise AttributeError(name)
