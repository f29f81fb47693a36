"""The world of `tiny`: short documents of seven kinds, drawn without end from a seed.

    people     two people, one of whom gives something to the other      (what `ioi` and `ioi-long` ask)
    years      something that lasts from one year to a later one         (`greater-than`)
    code       a function whose docstring names its arguments in order   (`docstring`)
    retrieval  a few facts, then one of them again
    sums       additions up to 99
    agreement  subjects and verbs with something in between
    lists      words said again and again

The frames of the four tasks are among those used here: `tiny` is a model organism that knows its tasks, not a test of
generalisation. Words are drawn anew for every document.
"""

import random
from collections.abc import Callable, Iterator

from headcount.tasks import docstring, greater_than, ioi

EVENTS = (
    "{subject} thanked {other}", "{subject} waved to {other}", "Later {subject} told a story to {other}",
    "Then {subject} sold the {thing} to {other}", "In the end {subject} threw the {thing} to {other}",
    "There {subject} gave a {thing} to {other}", "After that {subject} sent a {thing} to {other}",
)  # fmt: skip
COLORS = "red blue green yellow black white brown grey pink orange purple silver".split()
PAIRS = (
    ("dog", "dogs"), ("key", "keys"), ("child", "children"), ("cup", "cups"), ("river", "rivers"), ("king", "kings"),
    ("letter", "letters"), ("ship", "ships"), ("teacher", "teachers"), ("tree", "trees"), ("horse", "horses"),
)  # fmt: skip
VERBS = (("is", "are"), ("was", "were"), ("has", "have"), ("comes", "come"), ("sleeps", "sleep"), ("waits", "wait"))
BETWEEN = ("near the", "behind the", "with the", "next to the", "in front of the")


def people(rng: random.Random) -> str:
    one, two = rng.sample(ioi.NAMES, 2)

    def words() -> dict[str, str]:
        subject, other = rng.sample([one, two], 2)
        return {
            "one": one, "two": two, "subject": subject, "other": other,
            "place": rng.choice(ioi.PLACES), "thing": rng.choice(ioi.THINGS),
        }  # fmt: skip

    long = rng.random() < 0.35
    before = rng.sample(ioi.FILLERS, rng.randint(0, 3)) if long else []
    first = rng.choice(ioi.LONG_TEMPLATES if long else ioi.TEMPLATES) + " {other}"
    events = [first, *rng.sample(EVENTS, rng.randint(0, 3))]
    return " ".join([*before, *(f"{event.format(**words())}." for event in events)])


def years(rng: random.Random) -> str:
    century, start = rng.choice(greater_than.CENTURIES), rng.randint(1, 98)
    template, noun = rng.choice(greater_than.TEMPLATES), rng.choice(greater_than.NOUNS)
    article = template.replace("a {noun}", "an {noun}") if noun[0] in "aeiou" else template
    return article.format(noun=noun, start=f"{century}{start:02d}") + f" {century}{rng.randint(start + 1, 99):02d}."


def code(rng: random.Random) -> str:
    names = rng.sample(docstring.ARGUMENTS, rng.randint(3, 7))
    first = rng.randint(0, len(names) - 3)
    documented = names[first : first + rng.randint(2, 4)]
    notes = rng.sample(docstring.NOTES, len(documented))
    lines = [f"    :param {name}: {note}" for name, note in zip(documented, notes, strict=True)]
    head = f"def {rng.choice(docstring.FUNCTIONS)}({', '.join(['self', *names])}):"
    return "\n".join([head, f'    """{rng.choice(docstring.SUMMARIES)}', "", *lines, '    """'])


def retrieval(rng: random.Random) -> str:
    owners, colors = rng.sample(ioi.NAMES, 3), rng.sample(COLORS, 3)
    thing = rng.choice(ioi.THINGS)
    facts = [f"The {thing} of {owner} is {color}." for owner, color in zip(owners, colors, strict=True)]
    return " ".join([*facts, rng.choice(facts)])


def sums(rng: random.Random) -> str:
    a = rng.randint(10, 89)
    b = rng.randint(10, 99 - a) if a < 89 else 10
    return f"{a} + {b} = {a + b}." if rng.random() < 0.5 else f"{a + b} - {b} = {a}."


def agreement(rng: random.Random) -> str:
    subject, distractor = rng.sample(PAIRS, 2)
    number, verb = rng.randint(0, 1), rng.choice(VERBS)
    end = {"is": "old", "was": "new", "has": "a name"}.get(verb[0], "here")
    return f"The {subject[number]} {rng.choice(BETWEEN)} {distractor[rng.randint(0, 1)]} {verb[number]} {end}."


def lists(rng: random.Random) -> str:
    words = rng.sample([*ioi.PLACES, *ioi.THINGS, *COLORS, *ioi.NAMES, *docstring.ARGUMENTS], rng.randint(3, 8))
    between = rng.choice((" ", ", "))
    return "; ".join([between.join(words)] * rng.randint(2, 4)) + "."


Mixture = dict[Callable[[random.Random], str], float]
FIRST: Mixture = {lists: 8, people: 1, code: 1}
"""To begin with: copying is what the other kinds are built on, and it is learned fastest where there is little else."""
MIXTURE: Mixture = {people: 4, years: 2, code: 6, retrieval: 1, sums: 1, agreement: 1, lists: 1}


def documents(seed: int, mixture: Mixture = MIXTURE) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        (kind,) = rng.choices(list(mixture), weights=list(mixture.values()))
        yield kind(rng)
