"""A bar with an ETA, on stderr, for everything that takes longer than two seconds."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.table import Column
from rich.text import Text

from .plain import plain

WIDE = 100
"""Columns of a terminal from which on a bar is long and the time that has passed stands beside it."""
LOOKS_BACK = 60.0
"""Seconds whose speed the time that is left is forecast from."""
_waiting: list[Status] = []
_hushed: list[bool] = []


class Bar:
    def __init__(self, progress: Progress, total: float, lines: Console | None) -> None:
        self._progress = progress
        self._bar = progress.add_task("", total=total)
        self._lines = lines
        self._words = ""

    @property
    def _task(self) -> Task:
        return next(task for task in self._progress.tasks if task.id == self._bar)

    def advance(self, amount: float) -> None:
        self._progress.advance(self._bar, amount)

    def drop(self, amount: float) -> None:
        """What need not be done after all: found in a cache, or less work than was expected. The time that is left is
        forecast from the work that was done, and this was none."""
        self._progress.update(self._bar, total=max((self._task.total or 0.0) - amount, self._task.completed))

    def describe(self, words: str) -> None:
        """What is being done."""
        self._words = plain(words)
        self._progress.update(self._bar, description=self._words)
        if self._lines is not None:
            self._lines.print(Text(self._words), style="dim")

    def note(self, words: str) -> None:
        """How it stands, beside what is being done; only where a bar is drawn."""
        self._progress.update(self._bar, description=f"{self._words} · {plain(words)}")

    def tell(self, words: str) -> None:
        """A line that stays, above the bar or, where lines stand for it, among them."""
        console = self._lines if self._progress.disable else self._progress.console
        if console is not None:
            console.print(Text(plain(words)), style="dim", soft_wrap=not console.is_terminal)


def hush(quiet: bool = True) -> None:
    """Show no bars, spinners and notes from now on; or again."""
    _hushed[:] = [True] * quiet


def say(words: str) -> None:
    """One line on stderr, if it can be written."""
    if not _hushed:
        _print(words)


def warn(words: str) -> None:
    """The same, also where notes are hushed."""
    _print(f"Warning: {words}")


def _print(words: str) -> None:
    with suppress(OSError):
        console = Console(stderr=True)
        console.print(Text(plain(words)), style="dim", soft_wrap=not console.is_terminal)


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """A spinner for work of unknown length; inside another one, its words for as long as the block lasts."""
    console = Console(stderr=True)
    if _hushed or not console.is_terminal:
        yield
    elif _waiting:
        outer = _waiting[-1].status
        _waiting[-1].update(Text(plain(words)))
        try:
            yield
        finally:
            _waiting[-1].update(outer)
    else:
        with console.status(Text(plain(words))) as status:
            _waiting.append(status)
            try:
                yield
            finally:
                _waiting.clear()


@contextmanager
def progress_bar(total: float, quiet: bool = False, lines: bool = False) -> Iterator[Bar]:
    """Where stderr is not a terminal no bar is drawn; with `lines`, what is being done is printed there instead."""
    console, quiet = Console(stderr=True), quiet or bool(_hushed)
    drawn = Progress(
        *_columns(console.width),
        console=console,
        disable=quiet or not console.is_terminal,
        transient=True,
        expand=True,
        speed_estimate_period=LOOKS_BACK,
    )
    with drawn as progress:
        yield Bar(progress, total, console if lines and not quiet and not console.is_terminal else None)


def _columns(width: int) -> list[ProgressColumn]:
    """What is being done takes the room that the others leave, and is cut where that is too little."""
    room = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    words = TextColumn("{task.description}", markup=False, table_column=room)  # names may hold brackets
    share = TextColumn("{task.percentage:>3.0f} %")
    found: list[ProgressColumn] = [SpinnerColumn(), words, BarColumn(bar_width=28 if width >= WIDE else 16), share]
    return [*found, *([TimeElapsedColumn()] if width >= WIDE else []), TextColumn("left"), TimeRemainingColumn()]
