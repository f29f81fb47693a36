"""Word problems of one, two or three steps, with the steps written out.

"Problem: Tom has 12 apples. He buys 7 more and then gives 4 away. How many apples does he have now?\\nSolution:" ->
" 12 + 7 = 19. 19 - 4 = 15. The answer is 15." One solved problem with another story stands in front. Train and test
share no stories, no names and no things.
"""

import random
from collections.abc import Sequence
from operator import add, floordiv, mul, sub
from typing import NamedTuple

from typing_extensions import TypedDict

from ..core.files import read_toml
from .source import WORDS, Item, TwoSides

SMALL, MIDDLING, BIG = range(2, 10), range(10, 41), range(50, 100)
RESULTS = range(2, 200)
OPERATIONS = {"+": add, "-": sub, "*": mul, "/": floordiv}
ITEMS_A_STORY = 16


class _Tables(TypedDict):
    boys: str
    girls: str
    things: str
    stories: dict[str, list[str]]


_TABLES = read_toml(WORDS / "arithmetic.toml", _Tables)
BOYS, GIRLS, THINGS = _TABLES["boys"].split(), _TABLES["girls"].split(), _TABLES["things"].split()
STORIES = [(steps, story) for steps, stories in _TABLES["stories"].items() for story in stories]


class Words(NamedTuple):
    """What the problems of one side are told with."""

    stories: Sequence[tuple[str, str]]  # steps and story
    names: Sequence[str]
    things: Sequence[str]


class Problem(NamedTuple):
    story: str
    text: str
    solution: str
    steps: int


def split_words(rng: random.Random) -> tuple[Words, Words]:
    """All words shuffled and cut in two. Either side gets half of the stories of one, of two and of three steps."""
    names, things = (rng.sample(those, len(those)) for those in (BOYS + GIRLS, THINGS))
    stories = rng.sample(STORIES, len(STORIES))
    stories.sort(key=lambda story: story[0].count(","))
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
            name, friend = rng.sample(words.names, 2)
            he, him = ("he", "him") if name in BOYS else ("she", "her")
            people = {"name": name, "friend": friend, "he": he, "He": he.capitalize(), "him": him}
            text = story.format(things=rng.choice(words.things), **people, **numbers)
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


math = TwoSides("Math", split_words, _side)
