"""Word problems of one, two or three steps, with the steps written out.

"Problem: Tom has 12 apples. He buys 7 more and then gives 4 away. How many apples does he have now?\\nSolution:" ->
" 12 + 7 = 19. 19 - 4 = 15. The answer is 15." One solved problem with another story stands in front. Train and test
share no stories, no names and no things.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, floordiv, mul, sub

from .completions import Item

# Steps and story. a to d are small numbers, p and q middling ones and s is a big one; x and y are the results of the
# first and the second step.
STORIES = (
    ("p + a", "{name} has {p} {things}. {friend} gives {him} {a} more. How many does {he} have now?"),
    ("p + a", "{name} is {p} years old. {friend} is {a} years older. How old is {friend}?"),
    ("p + q", "{name} saw {p} white birds and {q} gray birds. How many birds is that in all?"),
    ("p - a", "There are {p} {things} in a box. {name} takes out {a}. How many are left?"),
    ("p - a", "There are {p} people on a bus. At a stop {a} get off. How many stay on the bus?"),
    ("s - p", "A show lasts {s} minutes. {name} has seen {p} minutes. How many minutes are left?"),
    ("a * b", "{name} fills {a} bags with {b} {things} each. How many {things} is that?"),
    ("a * b", "{name} cycles {a} miles every day. How many miles is that in {b} days?"),
    ("a * b", "One ticket costs {a} dollars. How many dollars do {b} tickets cost?"),
    ("p / a", "{name} shares {p} {things} equally among {a} friends. How many does each friend get?"),
    ("p / a", "A rope of {p} feet is cut into pieces of {a} feet. How many pieces are there?"),
    ("p / a", "{name} reads {a} pages a day. How many days does {he} need for {p} pages?"),
    ("p + a, x - b", "{name} has {p} {things}, buys {a} more and loses {b}. How many does {he} have now?"),
    ("p + q, x - a", "A farm has {p} hens and {q} ducks. Then {a} of the birds are sold. How many birds are left?"),
    ("p + q, s - x", "A trip is {s} miles long. {name} drives {p} miles, then {q} more. How many miles are left?"),
    (
        "p + a, p + x",
        "{name} sings for {p} minutes and {friend} for {a} minutes more. How many minutes is that in all?",
    ),
    ("a * b, s - x", "{name} has {s} dollars and buys {a} {things} for {b} dollars each. How many dollars are left?"),
    ("a * b, x - c", "A shelf has {a} rows of {b} {things}. {name} takes {c} of them. How many are left?"),
    ("a * b, p + x", "{name} has {p} dollars and saves {a} a week. How many dollars will {he} have in {b} weeks?"),
    ("a * b, x + c", "{name} runs {a} miles a day for {b} days, then walks {c} miles. How many miles is that in all?"),
    ("p + q, x / a", "There are {p} boys and {q} girls. They form teams of {a}. How many teams are there?"),
    (
        "s - p, x / a",
        "{name} has {s} {things}, keeps {p} and shares the rest equally among {a} boys. How many does each get?",
    ),
    (
        "a * b, x / c",
        "{name} bakes {a} trays of {b} rolls and puts them equally into {c} bags. How many are in each bag?",
    ),
    ("p / a, x * b", "A painter needs {a} hours for {p} doors. How many doors can he paint in {b} hours?"),
    (
        "a * b, x + c, s - y",
        "{name} has {s} dollars and buys {a} caps at {b} dollars each and a scarf at {c}. How many dollars are left?",
    ),
    (
        "p + q, x - a, y / b",
        "{name} has {p} {things}, finds {q} and loses {a}. The rest go equally to {b} girls. How many does each get?",
    ),
    (
        "a * b, x - c, y / d",
        "{name} picks {a} bags of {b} plums, eats {c} and puts the rest equally in {d} jars. How many are in each?",
    ),
    (
        "a * b, x - c, y + d",
        "{name} earns {a} dollars a day for {b} days, spends {c} and finds {d}. How many dollars does {he} have then?",
    ),
    (
        "p + a, p + x, y / b",
        "{name} has {p} roses and {friend} has {a} more. They fill {b} vases equally. How many are in each vase?",
    ),
    (
        "a * b, c * d, x + y",
        "A shop has {a} boxes of {b} {things} and {c} boxes of {d}. How many {things} is that in all?",
    ),
    (
        "a * b, c * d, x - y",
        "{name} lays {a} rows of {b} tiles and {friend} {c} rows of {d}. How many more tiles does {name} lay?",
    ),
    (
        "p - a, x + b, y - c",
        "A train has {p} riders. Then {a} leave, {b} enter and {c} leave. How many riders are there now?",
    ),
)
SMALL, MIDDLING, BIG = range(2, 10), range(10, 41), range(50, 100)
RESULTS = range(2, 200)
OPERATIONS = {"+": add, "-": sub, "*": mul, "/": floordiv}

BOYS = "Tom Ben Sam Jack Leo Max Paul Adam Mark Luke Peter David Eric Frank Henry Oscar Simon Walter".split()
GIRLS = "Ann Mary Lucy Emma Kate Rose Julia Sarah Helen Alice Grace Laura Clara Nina Ruth Jane Diana Ella".split()
THINGS = """
apples pears marbles stickers cards shells stamps buttons balloons pencils cookies beads candles ribbons postcards books
cups pens lemons spoons
""".split()

ITEMS_A_STORY = 16


@dataclass(frozen=True)
class Words:
    """What one side tells its problems with."""

    stories: Sequence[tuple[str, str]]
    names: Sequence[str]
    things: Sequence[str]


@dataclass(frozen=True)
class Problem:
    story: str
    text: str
    solution: str
    steps: int


@dataclass(frozen=True)
class Math:
    title: str = "Math"

    def items(self, rng: random.Random) -> tuple[list[Item], list[Item]]:
        train, test = split_words(rng)
        return _side(train, rng), _side(test, rng)


def split_words(rng: random.Random) -> tuple[Words, Words]:
    """All words shuffled and cut in two. Either side gets half of the stories of one, of two and of three steps."""
    names, things = rng.sample(BOYS + GIRLS, len(BOYS + GIRLS)), rng.sample(THINGS, len(THINGS))
    stories = sorted(rng.sample(STORIES, len(STORIES)), key=lambda story: story[0].count(","))
    return Words(stories[::2], names[::2], things[::2]), Words(stories[1::2], names[1::2], things[1::2])


def _side(words: Words, rng: random.Random) -> list[Item]:
    problems = [problem for steps, story in words.stories for problem in _problems(steps, story, words, rng)]
    items = []
    for problem in problems:
        # An example of one step keeps the prompt short.
        shown = rng.choice([other for other in problems if other.story != problem.story and other.steps == 1])
        example = f"Problem: {shown.text}\nSolution:{shown.solution}"
        items.append(Item(f"{example}\n\nProblem: {problem.text}\nSolution:", problem.solution))
    rng.shuffle(items)
    return items


def _problems(steps: str, story: str, words: Words, rng: random.Random) -> list[Problem]:
    """Different problems that tell one story."""
    found: dict[str, Problem] = {}
    while len(found) < ITEMS_A_STORY:
        drawn = (*rng.sample(SMALL, 4), *rng.sample(MIDDLING, 2), rng.choice(BIG))
        numbers = dict(zip("abcdpqs", drawn, strict=True))
        solution = solve(steps, numbers)
        if solution is not None:
            text = _tell(story, numbers, words, rng)
            found[text] = Problem(story, text, solution, steps.count(",") + 1)
    return list(found.values())


def solve(steps: str, numbers: dict[str, int]) -> str | None:
    """The steps written out, or None where a result is no whole number or too small or too big."""
    known = dict(numbers)
    sentences = []
    for name, step in zip("xyz", steps.split(", "), strict=False):
        left, sign, right = step.split()
        one, two = known[left], known[right]
        known[name] = result = OPERATIONS[sign](one, two)
        if result not in RESULTS or (sign == "/" and result * two != one):
            return None
        sentences.append(f" {one} {sign} {two} = {result}.")
    return "".join(sentences) + f" The answer is {result}."


def _tell(story: str, numbers: dict[str, int], words: Words, rng: random.Random) -> str:
    name, friend = rng.sample(words.names, 2)
    he, him = ("he", "him") if name in BOYS else ("she", "her")
    things = rng.choice(words.things)
    return story.format(name=name, friend=friend, he=he, He=he.capitalize(), him=him, things=things, **numbers)


math = Math()
