"""The built-in questions of some seeds, for the tests of what they are and of whether their answers are right."""

import re

from headcount.tasks.questions import questions


def sides_of(seed):
    found = questions(seed=seed)
    return {"train": found.train, "validation": found.validation, "test": found.test}


SIDES = sides_of(0)
ALL = [question for side in SIDES.values() for question in side]
SEEDS = range(3)


def of_function(name):
    return [question for seed in SEEDS for side in sides_of(seed).values() for question in side
            if question.function == name]  # fmt: skip


def words_of(text):
    return set(re.findall(r"\w+", text))


def options_of(question):
    """The options that a question ends with: ": one, two or three?"."""
    found = re.search(r": ([^:?]+ or [^:?]+)\?", question.text)
    return re.split(r", | or ", found[1]) if found else []
