"""A bar with an ETA, on stderr, for everything that takes longer than two seconds."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from .plain import plain


class Bar:
    def __init__(self, progress: Progress, total: float, lines: Console | None) -> None:
        self._progress = progress
        self._bar = progress.add_task("", total=total)
        self._lines = lines
        self._words = ""

    def advance(self, amount: float) -> None:
        self._progress.advance(self._bar, amount)

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
            console.print(Text(plain(words)), style="dim", soft_wrap=True)


def say(words: str) -> None:
    """One line on stderr, if it can be written."""
    with suppress(OSError):
        Console(stderr=True).print(Text(plain(words)), style="dim", soft_wrap=True)


def waiting(words: str) -> AbstractContextManager[object]:
    """A spinner for work of unknown length."""
    console = Console(stderr=True)
    return console.status(Text(plain(words))) if console.is_terminal else nullcontext()


@contextmanager
def progress_bar(total: float, quiet: bool = False, lines: bool = False) -> Iterator[Bar]:
    """Where stderr is not a terminal no bar is drawn; with `lines`, what is being done is printed there instead."""
    console = Console(stderr=True)
    words = TextColumn("{task.description}", markup=False)  # names may hold brackets
    done = SpinnerColumn(), words, BarColumn(bar_width=28), "{task.percentage:>3.0f} %"
    columns = *done, TimeElapsedColumn(), "left:", TimeRemainingColumn()
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        yield Bar(progress, total, console if lines and not quiet and not console.is_terminal else None)
