"""A needle in a haystack: a code of five digits stands somewhere in a long text, and is asked for at its end.

"Anna left a lamp at the farm in the morning. … The secret code of Peter is 48213. … The secret code of Peter is" is
followed by " 48213". The haystack is plain sentences in our own words, some of which carry other numbers. Train and
test share no names.
"""

import random
from collections.abc import Sequence

from .source import Item, TwoSides, read_words

_WORDS = read_words("ioi")
PLACES, THINGS = _WORDS["places"], _WORDS["things"]
ITEMS, SENTENCES = 400, 24
"""Of each side; and of a prompt, which then has some 280 tokens."""


def _split(rng: random.Random) -> tuple[list[str], list[str]]:
    names = list(_WORDS["names"])
    rng.shuffle(names)
    return names[::2], names[1::2]


def _side(names: Sequence[str], rng: random.Random) -> list[Item]:
    return [_item(names, rng) for _ in range(ITEMS)]


def _item(names: Sequence[str], rng: random.Random) -> Item:
    owner, *others = rng.sample(names, SENTENCES)
    code = "".join(rng.choices("0123456789", k=5))
    hay = [_hay(name, rng) for name in others]
    hay.insert(rng.randrange(1, len(hay) // 2), f"The secret code of {owner} is {code}.")
    return Item(f"{' '.join(hay)} The secret code of {owner} is", f" {code}")


def _hay(name: str, rng: random.Random) -> str:
    place, thing = rng.choice(PLACES), rng.choice(THINGS)
    if rng.random() < 0.25:
        return f"{name} came to the {place} with {rng.randint(10, 99)} other people."
    return f"{name} left a {thing} at the {place} in the morning."


needle = TwoSides("Needle", _split, _side)
