"""The one error that users see: it says what was wanted, what came, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class HeadcountError(Exception):
    """Input that headcount cannot work with. The command line prints it as one sentence and exits with code 2."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A closing clause for error messages: the nearest known word, and all of them."""
    known = sorted(known)
    return f"{nearest(word, known)} Known: {', '.join(known)}."


def nearest(word: str, known: Iterable[str]) -> str:
    """The nearest known word as a question, if there is one that is near: the same letters in another order first."""
    known = list(known)
    swapped = [other for other in known if sorted(other) == sorted(word)]
    found = swapped or get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean {found[0]!r}?" if found else ""


def require_known(word: object, known: Iterable[str], what: str) -> None:
    """`what` reads on from "There is no": a metric, an order of attention edges."""
    if word not in (known := list(known)):
        raise HeadcountError(f"There is no {what} {word!r}.{did_you_mean(str(word), known)}")


def require_seed(seed: int) -> None:
    if seed < 0:
        raise HeadcountError(f"A seed must be a whole number from 0 on; this is {seed}.")


def require_draws(draws: int) -> None:
    if draws < 1:
        raise HeadcountError(f"A chance order needs at least 1 draw; draws is {draws}.")


def in_short(error: BaseException, most: int = 160) -> str:
    """What another library said, on one line."""
    return " ".join(str(error).split())[:most] or type(error).__name__
