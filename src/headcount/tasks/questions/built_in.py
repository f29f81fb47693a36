"""Short questions that each ask for one cognitive function, in our own words: eight functions, 21 templates each.

"Anna lives in Rome. Ben lives in Oslo. Where does Ben live?" -> "Oslo" is retrieval, "What is 7 times 8?" -> "56" is
math-calculation. A template stands in one split only: six a function in train, three in validation, twelve in test.
What is measured on test questions is resampled by template, so that there they have many templates and few questions of
each. The splits share no names, things, places or other words that stories are filled with, and no rows of tables; they
do share the numbers of sums and prices. Templates are tables of rows, stories with slots to fill, or sums.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import add, floordiv, mul, sub
from pathlib import Path

from typing_extensions import TypedDict

from ...core.files import read_toml
from . import FUNCTIONS, Question, QuestionSet

QUESTIONS_A_TEMPLATE = {"train": 16, "validation": 11, "test": 3}
SPLITS = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}
"""Which of every five words are for a split."""
NUMBERS = range(2, 62)
"""What {number1}, {number2}, … stand for; dealt out to the splits like the words."""
STEPS = range(5, 65, 5)
"""What {up1}, {up2}, … stand for, in rising order; so do {rise1}, {rise2}, …"""
YES_OR_NO = ("yes", "no")
OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul, "/": floordiv, "max": max, "min": min}


def built_in_questions(seed: int = 0) -> QuestionSet:
    """1,320 questions, shuffled. The same seed gives the same ones."""
    sides = {}
    for split, count in QUESTIONS_A_TEMPLATE.items():
        side = []
        for function, templates in all_templates().items():
            for name, template in templates[split].items():
                drafts = template.draw(count, split, random.Random(f"{seed} {function} {name}"))
                side += [Question(function, name, **draft) for draft in drafts]
        random.Random(f"{seed} {split}").shuffle(side)
        sides[split] = tuple(side)
    return QuestionSet("built-in", sides["train"], sides["validation"], sides["test"])


class Draft(TypedDict):
    """The fields of a question that a template fills in."""

    text: str
    answer: str
    accepted: tuple[str, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """One question for many things. Rows are set apart by semicolons: "thing: answer = other right answer / wrong /
    wrong". The thing goes where the question has {}, and the right answer and the wrong ones go to {options}."""

    ask: str
    rows: str
    articles: bool = False
    """Whether the answers are nouns that may have an article."""

    def draw(self, count: int, split: str, rng: random.Random) -> list[Draft]:
        """So many different questions, as fields of `Question`, with the words of a split."""
        rows = [" ".join(row.split()).rpartition(": ") for row in self.rows.split(";")]
        return [
            _draft(self.ask.replace("{}", thing), answers, turn, self.articles, rng)
            for turn, (thing, _, answers) in enumerate(rng.sample(rows, count))
        ]


@dataclass(frozen=True)
class Story:
    """A text with slots such as {name1} and {name2}, an arrow and the answer, written as in a table. The variants are
    set apart by bars and take turns. Sentences in square brackets, set apart by plus signs, come in random order."""

    text: str
    articles: bool = False

    def draw(self, count: int, split: str, rng: random.Random) -> list[Draft]:
        variants = [" ".join(variant.split()) for variant in self.text.split("|")]
        found: dict[str, Draft] = {}
        while len(found) < count:
            turn, number = divmod(len(found), len(variants))
            text, answers = _fill(_mix(variants[number], rng), split, rng).split(" -> ")
            draft = _draft(text, answers, turn + number, self.articles, rng)
            found[draft["text"]] = draft
        return list(found.values())


@dataclass(frozen=True)
class Sum:
    """A story with the numbers {a}, {b} and {c}, and how to work out the answer, step by step from the left."""

    ask: str
    steps: str
    numbers: Sequence[Sequence[int]]
    """Of each: the first, the last, and how far apart they lie where that is not one."""

    def draw(self, count: int, split: str, rng: random.Random) -> list[Draft]:
        choices = [range(first, last + 1, *step) for first, last, *step in self.numbers]
        found: dict[tuple[int, ...], Draft] = {}
        while len(found) < count:
            values = tuple(map(rng.choice, choices))
            named = dict(zip("abc", values, strict=False))
            result = _work_out(self.steps, named)
            if result is not None and len(set(values)) == len(values):
                text = self.ask
                for letter, value in named.items():
                    text = text.replace(f"{{{letter}}}", str(value))
                found[values] = _draft(_fill(text, split, rng), str(result), 0, False, rng)
        return list(found.values())


Template = Table | Story | Sum


@cache
def all_templates() -> dict[str, dict[str, dict[str, Template]]]:
    """Function -> split -> name -> template. Each function has a file beside this one, which says how it is written."""
    here, kind = Path(__file__).parent, dict[str, dict[str, Template]]
    return {function: read_toml(here / f"{function}.toml", kind) for function in FUNCTIONS}


@cache
def all_words() -> dict[str, dict[str, str]]:
    """What slots are filled with: dealt-out to the splits or of-one-split -> kind -> words; and numbers in words."""
    return read_toml(Path(__file__).parent / "words.toml", dict[str, dict[str, str]])


def pool(kind: str, split: str) -> list[str]:
    """The words of a kind that are for a split."""
    dealt_out, of_one_split = all_words()["dealt-out"], all_words()["of-one-split"]
    if kind in of_one_split:
        return of_one_split[kind].split()
    words = [str(number) for number in NUMBERS] if kind == "number" else dealt_out[kind].replace(",", " ").split()
    return [word for place, word in enumerate(words) if place % 5 in SPLITS[split]]


def number_word(number: int) -> str:
    """A number up to 100 in words."""
    small, tens = (all_words()["numbers"][kind].split() for kind in ("small", "tens"))
    if number < 20:
        return small[number]
    if number == 100:
        return "one hundred"
    ten, one = divmod(number, 10)
    return tens[ten - 2] + (f"-{small[one]}" if one else "")


def _mix(text: str, rng: random.Random) -> str:
    def mixed(found: re.Match[str]) -> str:
        sentences = found[1].split(" + ")
        return " ".join(rng.sample(sentences, len(sentences)))

    return re.sub(r"\[(.+?)\]", mixed, text)


def _fill(text: str, split: str, rng: random.Random) -> str:
    """The text with words in its slots, different ones in different slots."""
    slots = sorted(set(re.findall(r"\{([a-z]+)(\d)\}", text)))
    for kind, alike in groupby(slots, key=lambda slot: slot[0]):
        digits = [digit for _, digit in alike]
        if kind in ("up", "rise"):
            words = [str(number) for number in sorted(rng.sample(STEPS, len(digits)))]
        else:
            words = rng.sample(pool(kind, split), len(digits))
        for digit, word in zip(digits, words, strict=True):
            text = text.replace(f"{{{kind}{digit}}}", word)
    return text


def _work_out(steps: str, known: Mapping[str, int]) -> int | None:
    """The result of "a + b - 2", or None where a step gives no whole number above zero."""
    first, *rest = (known.get(word, word) for word in steps.split())
    result = int(first)
    for sign, word in zip(rest[::2], rest[1::2], strict=True):
        number = int(word)
        if sign == "/" and result % number:
            return None
        result = OPERATIONS[str(sign)](result, number)
        if result <= 0:
            return None
    return result


def _draft(text: str, answers: str, turn: int, articles: bool, rng: random.Random) -> Draft:
    """A question with its options; the turn says where the right one stands."""
    right, *wrong = answers.split(" / ")
    answer, *others = right.split(" = ")
    if wrong:
        options = rng.sample(wrong, len(wrong))
        options.insert(turn % (len(wrong) + 1), answer)
        text = text.replace("{options}", f"{', '.join(options[:-1])} or {options[-1]}")
    elif answer in YES_OR_NO:
        wrong = [other for other in YES_OR_NO if other != answer]
    accepted = _accepted([answer, *others], articles)
    return {"text": text, "answer": answer, "accepted": accepted, "wrong": tuple(wrong)}


def _accepted(answers: Sequence[str], articles: bool) -> tuple[str, ...]:
    """All right answers but the first: numbers also in words, nouns also with and without an article."""
    accepted = list(answers)
    for answer in answers:
        if answer.isdigit():
            word = number_word(int(answer))
            accepted += [word, word.replace("-", " ")]
        article, _, noun = answer.partition(" ")
        if article in ("a", "an", "the"):
            accepted += [noun, f"the {noun}"]
        elif articles:
            accepted += [f"{'an' if answer[0] in 'aeiou' else 'a'} {answer}", f"the {answer}"]
    return tuple(dict.fromkeys(accepted))[1:]
