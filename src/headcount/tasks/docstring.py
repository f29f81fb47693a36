"""Docstring completion (Heimersheim and Janiak 2023): the next documented argument is the next one in the signature.

The counterfactual replaces the three arguments in the signature, and the two that are documented, by unrelated names
(their `random_random`). Metric: logit of the third argument - the largest logit of any other argument in either prompt.
"""

import random

from ..core.files import read_toml
from .source import WORDS, Draft, Tokens, halves

_WORDS = read_toml(WORDS / "docstring.toml")
ARGUMENTS, FUNCTIONS = _WORDS["arguments"].split(), _WORDS["functions"].split()
SUMMARIES, NOTES = _WORDS["summaries"], _WORDS["notes"]


class Docstring:
    title = "Docstring"
    metric = "logit_diff"

    def pools(self, tokens: Tokens, rng: random.Random) -> tuple[list[str], list[str]]:
        return halves(tokens.single(ARGUMENTS, prompt="def read(self,"), rng, least=12, what="argument names")

    def draft(self, pool: list[str], rng: random.Random) -> Draft:
        names = rng.sample(pool, 11)
        before, (a, b, c), after, in_signature, in_doc = names[:2], names[2:5], names[5], names[6:9], names[9:11]
        function, summary = rng.choice(FUNCTIONS), rng.choice(SUMMARIES)
        notes = rng.sample(NOTES, 2)

        def prompt(signature: list[str], documented: list[str]) -> str:
            arguments = ", ".join(["self", *before, *signature, after])
            lines = [f"    :param {name}: {note}" for name, note in zip(documented, notes, strict=True)]
            return "\n".join([f"def {function}({arguments}):", f'    """{summary}', "", *lines, "    :param"])

        wrongs = [*before, a, b, after, *in_signature, *in_doc]
        clean, corrupt = prompt([a, b, c], [a, b]), prompt(in_signature, in_doc)
        return Draft(clean, corrupt, [f" {c}"], [f" {name}" for name in wrongs])


docstring = Docstring()
