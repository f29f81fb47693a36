"""Tables in the terminal."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..core.plain import plain, plain_lines

if TYPE_CHECKING:
    from ..rank.comparison import Comparison
    from ..sparse.evaluation import Evaluation

SHORT = 13
"""Letters of a cell up to which it stays on one line."""


def print_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Cells are texts, whatever they look like: `m[v2]` is a name, and no style. Where there is too little room, long
    cells are broken, and short ones, such as numbers, are not."""
    # A pipe has no width of its own; let the table have what it needs there.
    console = Console(width=None if Console().is_terminal else 200)
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    columns = [Column(_cell(name), no_wrap=width <= SHORT) for name, width in zip(header, widths, strict=True)]
    wide = sum(widths) + 3 * len(widths) <= console.width
    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1) if wide else (0, 1, 0, 0))
    for row in rows:
        table.add_row(*map(_cell, row))
    console.print(table)


def _cell(text: str) -> Text:
    return Text(_held_together(plain(text)))


def _held_together(words: str) -> str:
    """No line of a terminal ends between a number and its per cent, or inside `k = 6`."""
    if not Console().is_terminal:
        return words
    return words.replace(" %", "\u00a0%").replace("k = ", "k\u00a0=\u00a0")


def say(words: str = "") -> None:
    """A sentence, broken between words in a terminal."""
    console = Console()
    console.print(Text(_held_together(plain_lines(words))), highlight=False, soft_wrap=not console.is_terminal)


def say_hanging(words: str, by: int) -> None:
    """Lines whose rest, where a terminal is too narrow for them, is indented."""
    console = Console()
    for line in words.split("\n"):
        broken = wrap(line, console.width, subsequent_indent=" " * by) if console.is_terminal else []
        say("\n".join(broken or [line]))


def number(value: float | None, form: str) -> str:
    return "nan" if value is None else format(value, form)


def print_comparison(found: "Comparison") -> None:
    """A row a pair of scores, and the agreement between seeds where there are seeds."""
    header = ("first", "second", "Spearman", *(f"Jaccard of the top {k}" for k in found.jaccard))
    numbers = [tuple(row.values()) for row in found.rows()]
    print_table(header, [(str(first), str(second), *(f"{v:.2f}" for v in rest)) for first, second, *rest in numbers])
    by_name = zip(found.names, found.seed_spearman, found.seed_jaccard, strict=True)
    seeds = [(name, f"{rank:.2f}", f"{overlap:.2f}") for name, rank, overlap in by_name if None not in (rank, overlap)]
    if seeds:
        print("Between the seeds of one method, on average:")
        print_table(("method", "Spearman", f"Jaccard of the top {next(iter(found.jaccard))}"), seeds)


def print_evaluation(found: "Evaluation", folder: Path) -> None:
    """What a sparse model is worth on held-out text."""
    print(f"\nOn {found.in_words}, of {found.length} tokens:")
    print_table(("", ""), found.rows())
    forms = {"dense_loss": ".4f", "loss": ".4f", "sequences": ".0f"}
    rows = [(name, *(format(of[key], form) for key, form in forms.items())) for name, of in found.by_source.items()]
    print_table(("source", "dense loss", "loss", "sequences"), rows)
    head, rows_of_tasks = found.task_rows()
    if rows_of_tasks:
        print_table(head, rows_of_tasks)
    print(f"Model, card, log and plot: {folder}")
