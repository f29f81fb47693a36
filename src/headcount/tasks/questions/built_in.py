"""Short questions that each ask for one cognitive function, in our own words: eight functions, twelve templates each.

"Anna lives in Rome. Ben lives in Oslo. Where does Ben live?" -> "Oslo" is retrieval, "What is 7 times 8?" -> "56" is
math-calculation. A template stands in one split only: six a function in train, three in validation, three in test. The
splits share no names, things, places or other words that stories are filled with, and no rows of tables; they do share
the numbers of sums and prices.
"""

import random
from functools import cache
from pathlib import Path

from ...core.files import read_toml
from ...core.provenance import Facts
from .question import FUNCTIONS, Question, QuestionSet
from .templates import Story, Sum, Table, Template, Templates

QUESTIONS_A_TEMPLATE = {"train": 16, "validation": 11, "test": 11}


def built_in_questions(seed: int = 0) -> QuestionSet:
    """1,296 questions, shuffled. The same seed gives the same ones."""
    sides = {}
    for split, count in QUESTIONS_A_TEMPLATE.items():
        side = []
        for function, templates in all_templates().items():
            for name, template in templates[split].items():
                drafts = template.draw(count, split, random.Random(f"{seed} {function} {name}"))
                side += [Question(function, name, **vars(draft)) for draft in drafts]
        random.Random(f"{seed} {split}").shuffle(side)
        sides[split] = tuple(side)
    return QuestionSet("built-in", sides["train"], sides["validation"], sides["test"])


@cache
def all_templates() -> dict[str, Templates]:
    """The templates of every function. Each has a file beside this one, which says how it is written."""
    return {function: _read(Path(__file__).parent / f"{function}.toml") for function in FUNCTIONS}


def _read(path: Path) -> Templates:
    splits = read_toml(path).items()
    return {split: {name: _template(fields) for name, fields in named.items()} for split, named in splits}


def _template(fields: Facts) -> Template:
    match fields:
        case {"ask": ask, "steps": steps, "numbers": numbers}:
            return Sum(ask, steps, tuple(range(first, last + 1, *step) for first, last, *step in numbers))
        case {"rows": _}:
            return Table(**fields)
        case _:
            return Story(**fields)
