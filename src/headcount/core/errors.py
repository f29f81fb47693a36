"""The one error that users see: it says what was wanted, what came, and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from .plain import plain, quoted, shortened

MOST_LETTERS = 300
LISTED_LETTERS = 130
"""Of all known words that a message lists."""
LONG_PATH, PATH_END = re.compile(r"/\S{60,}"), 45
"""Of paths, what is told of them where a message is too long."""
MOST_DRAWS = 10_000
MOST_SEED = 2**31 - 1
"""Every library that draws takes twice as much, so that repeats can count on from it."""


class HeadcountError(Exception):
    """Input that headcount cannot work with. The command line prints it as one sentence and exits with code 2. It is
    one line of at most `MOST_LETTERS` characters, whatever is quoted in it."""

    def __init__(self, words: str = "") -> None:
        told = plain(" ".join(str(words).split()))
        if len(told) > MOST_LETTERS:
            told = LONG_PATH.sub(lambda found: f"/…{found[0][-PATH_END:]}", told)
        super().__init__(shortened(told, MOST_LETTERS))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A closing clause for error messages: the nearest known word, and all of them, or as many as a sentence takes."""
    known = sorted(known)
    return f"{nearest(word, known)} Known: {listed(known)}."


def listed(words: Iterable[str], most: int = LISTED_LETTERS) -> str:
    """Words with commas between them; of many the first, and how many more there are."""
    words = list(words)
    taken, length = 0, 0
    while taken < len(words) and (taken == 0 or length + len(words[taken]) + 2 <= most):
        length += len(words[taken]) + 2
        taken += 1
    more = f" and {len(words) - taken} more" if taken < len(words) else ""
    return f"{', '.join(shortened(word, most) for word in words[:taken])}{more}"


def nearest(word: str, known: Iterable[str]) -> str:
    """The nearest known word as a question, if there is one that is near."""
    found = nearest_word(word, known)
    return "" if found is None else f" Did you mean {found!r}?"


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """The same letters in another order first."""
    known = list(known)
    swapped = [other for other in known if sorted(other) == sorted(word)]
    return next(iter(swapped or get_close_matches(word[:100], known, n=1, cutoff=0.5)), None)


def require_known(word: object, known: Iterable[str], what: str) -> None:
    """`what` reads on from "There is no": a metric, an order of attention edges."""
    if word not in (known := list(known)):
        raise HeadcountError(f"There is no {what} {quoted(word)}.{did_you_mean(str(word), known)}")


def require_seed(seed: int) -> None:
    if type(seed) is not int or not 0 <= seed <= MOST_SEED:
        raise HeadcountError(f"A seed must be a whole number from 0 to {MOST_SEED}; got {quoted(seed)}.")


def require_draws(draws: int) -> None:
    if not 1 <= draws <= MOST_DRAWS:
        raise HeadcountError(f"A chance order needs at least 1 draw, {MOST_DRAWS:,} at most; draws is {quoted(draws)}.")


def in_short(error: BaseException, most: int = 160) -> str:
    """What another library said, on one line."""
    words = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    return shortened(" ".join(words.split()), most) or type(error).__name__
