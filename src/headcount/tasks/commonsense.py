"""Questions of everyday knowledge with four lettered answers, in our own words.

"Which animal makes honey?", four animals after the letters A to D -> the letter of the bee. The wrong answers are right
answers to other questions of the same relation, and never ones that could be argued for. One answered question stands
in front. Train and test share no questions, and no answers within a relation.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from ..core.files import read_toml
from .source import WORDS, Item, TwoSides, lettered

LETTERS = "ABCD"
RELATIONS = read_toml(WORDS / "commonsense.toml", dict[str, str])
"""Question -> table of things and answers."""


class Entry(NamedTuple):
    question: str
    answer: str
    group: tuple[str, int]  # the relation, and the number of the group in its table


def read_entries(relation: str) -> list[Entry]:
    entries = []
    for number, group in enumerate(RELATIONS[relation].split(";")):
        for row in group.split(","):
            thing, answer = " ".join(row.split()).split(": ")
            entries.append(Entry(relation.format(thing), answer, (relation, number)))
    return entries


def split_entries(rng: random.Random) -> tuple[list[Entry], list[Entry]]:
    """Every relation shuffled and cut in two."""
    train, test = [], []
    for relation in RELATIONS:
        entries = read_entries(relation)
        rng.shuffle(entries)
        train += entries[::2]
        test += entries[1::2]
    return train, test


def _side(entries: Sequence[Entry], rng: random.Random) -> list[Item]:
    items = []
    for entry in entries:
        shown = rng.choice([other for other in entries if other != entry])
        (example, letter), (asked, right) = (_ask(either, entries, rng) for either in (shown, entry))
        items.append(Item(f"{example} {letter}\n\n{asked}", f" {right}", tuple(f" {name}" for name in LETTERS)))
    rng.shuffle(items)
    return items


def _ask(entry: Entry, side: Sequence[Entry], rng: random.Random) -> tuple[str, str]:
    """The question with the right answer and three wrong ones in random order, and the right letter."""
    relation = entry.group[0]
    wrong = [other.answer for other in side if other.group[0] == relation and other.group != entry.group]
    four = [entry.answer, *rng.sample(wrong, 3)]
    rng.shuffle(four)
    return lettered(entry.question, four), LETTERS[four.index(entry.answer)]


commonsense = TwoSides("Common Sense", split_entries, _side)
