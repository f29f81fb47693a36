"""Docstring completion (Heimersheim and Janiak 2023): the next documented argument is the next one in the signature.

The counterfactual replaces the three arguments in the signature, and the two that are documented, by unrelated names
(their `random_random`). Metric: logit of the third argument - the largest logit of any other argument in either prompt.

Train and test share no argument names. Split by templates they share no names of functions, summaries and notes either;
the layout of a docstring is one, and both have it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..core.words import SplitBy
from .source import Draft, Tokens, halves, read_words, wordings

_WORDS = read_words("docstring")
ARGUMENTS, FUNCTIONS = _WORDS["arguments"], _WORDS["functions"]
SUMMARIES, NOTES = _WORDS["summaries"], _WORDS["notes"]


class Pool(NamedTuple):
    arguments: Sequence[str]
    functions: Sequence[str]
    summaries: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True)
class Docstring:
    title: str = "Docstring"
    metric: str = "logit_diff"
    split: SplitBy = "words"

    def by_templates(self) -> "Docstring":
        return Docstring(split="templates")

    def pools(self, tokens: Tokens, rng: random.Random) -> tuple[Pool, Pool]:
        known = tokens.single(ARGUMENTS, prompt="def read(self,")
        arguments = halves(known, rng, least=12, what="argument names")
        told = wordings((FUNCTIONS, SUMMARIES, NOTES), self.split, rng)
        train, test = (Pool(own, *kinds) for own, kinds in zip(arguments, told, strict=True))
        return train, test

    def draft(self, pool: Pool, rng: random.Random) -> Draft:
        names = rng.sample(pool.arguments, 11)
        before, (a, b, c), after, in_signature, in_doc = names[:2], names[2:5], names[5], names[6:9], names[9:11]
        function, summary = rng.choice(pool.functions), rng.choice(pool.summaries)
        notes = rng.sample(pool.notes, 2)

        def prompt(signature: list[str], documented: list[str]) -> str:
            arguments = ", ".join(["self", *before, *signature, after])
            lines = [f"    :param {name}: {note}" for name, note in zip(documented, notes, strict=True)]
            return "\n".join([f"def {function}({arguments}):", f'    """{summary}', "", *lines, "    :param"])

        wrongs = [*before, a, b, after, *in_signature, *in_doc]
        clean, corrupt = prompt([a, b, c], [a, b]), prompt(in_signature, in_doc)
        return Draft(clean, corrupt, [f" {c}"], [f" {name}" for name in wrongs])


docstring = Docstring()
