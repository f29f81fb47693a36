"""Workers, wherever they are: what the schedule asks of them, and what it hears."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ...core.cache import Result, Store
from ...core.errors import HeadcountError
from ...core.progress import Bar
from ..bench import Bench
from .errand import Errand

HERE = "here"


@dataclass(frozen=True)
class News:
    """What is heard of a worker and its errand."""

    worker: str
    kind: Literal["done", "refused", "failed", "lost", "paid"]
    words: str = ""
    """Why it was refused, or what went wrong."""
    paid: float = 0.0
    """Of the errand's cost, in all."""
    result: Result | None = None
    """Where it is in memory; else it is in the store."""


class Crew(Protocol):
    """Workers that take an errand at a time. They come when they are first asked for, and may come and go."""

    several: bool
    """Whether more than one may work at a time."""

    def idle(self) -> Sequence[str]:
        """The names of those who wait for an errand."""

    def begin(self, worker: str, errand: Errand) -> None: ...

    def news(self) -> list[News]:
        """What has happened; waits for it a moment. An error where nobody is left to work."""

    def close(self) -> None:
        """Send all home, at once."""


class Here:
    """This process, as a crew of one."""

    several = False

    def __init__(self, bench: Bench, store: Store, bar: Bar) -> None:
        self.bench, self.store, self.bar = bench, store, bar
        self.known: Mapping[str, object] = {}
        """Results by key; the schedule keeps them up to date."""
        self._news = list[News]()

    def idle(self) -> Sequence[str]:
        return () if self._news else (HERE,)

    def begin(self, worker: str, errand: Errand) -> None:
        paid = Paid(self.bar)
        try:
            result = errand.run(self.bench, self.store, paid, self.bar.note, self.known)
            self._news.append(News(HERE, "done", paid=paid.total, result=result))
        except HeadcountError as error:
            self._news.append(News(HERE, "refused", str(error), paid.total))

    def news(self) -> list[News]:
        news, self._news = self._news, []
        return news

    def close(self) -> None:
        """Nothing is left to do."""


@dataclass
class Paid:
    """How much of an errand's cost has been paid; a bar is told at once, where there is one."""

    bar: Bar | None = None
    total: float = 0.0

    def __call__(self, amount: float) -> None:
        self.total += amount
        if self.bar is not None:
            self.bar.advance(amount)
