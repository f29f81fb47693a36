"""What `rankings.py` has measured: a line of rankings.jsonl for each method on each model and task."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

Span = tuple[float, float, float]  # a number and its interval
Place = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """One order of one method."""

    order: str
    auroc: float | None  # where the true units are known
    needed: tuple[int | None, int | None, int | None]  # units, and the interval; None where it is never enough
    cpr: Span
    cmd: Span
    with_two: float | None = None  # explained by the first two heads


@dataclass(frozen=True)
class Line:
    """One method on one model and task: its rows, or the reason why it has none."""

    model: str
    task: str
    method: str
    units: str
    state: str  # a hash of all that the numbers depend on
    facts: dict[str, str]  # date and versions
    pairs: int
    total: int
    true: int | None  # how many units are true, where that is known
    best_two: tuple[float, float] | None = None  # explained by the best head and by the best two, of all there are
    forwards: float | None = None
    rows: list[Row] = field(default_factory=list)
    reason: str = ""

    @property
    def place(self) -> Place:
        return self.model, self.task, self.method

    def units_needed(self, row: Row) -> int:
        """All of them where it is never enough."""
        return self.total if row.needed[0] is None else max(row.needed[0], 1)

    def written(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def read_lines(path: Path) -> dict[Place, Line]:
    """The last line of each model, task and method."""
    found: dict[Place, Line] = {}
    for text in path.read_text().splitlines() if path.exists() else []:
        facts = json.loads(text)
        line = Line(**{**facts, "rows": [Row(**row) for row in facts["rows"]]})
        found[line.place] = line
    return found


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    path.write_text("".join(line.written() for line in lines))
