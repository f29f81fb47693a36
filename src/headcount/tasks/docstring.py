"""Docstring completion (Heimersheim and Janiak 2023): the next documented argument is the next one in the signature.

The counterfactual replaces the three arguments in the signature, and the two that are documented, by unrelated names
(their `random_random`). Metric: logit of the third argument - the largest logit of any other argument in either prompt.
"""

import random
from dataclasses import dataclass

from .source import Draft, Tokens, halves

# None of these is a word of the descriptions below, so that an argument is named nowhere but in its two places.
ARGUMENTS = """
index path size data key token line file user mode type code date host port label level limit list item end step width
height depth color image model input output offset buffer format prefix suffix target source result state query table
column row field node parent child group order rate scale shape weight batch cache client server url method filter
range sample score seed section stack status string style symbol tag task test time title topic total trace tree unit
version view window word angle area block body branch channel class config cost degree device distance domain element
engine error event factor flag frame function graph grid header id instance interval kernel language length link lock
log map mask matrix max message metric min module object option owner package page pair parameter pattern plan point
policy pool position price process product profile project queue radius rank ratio reason region resource role root
route rule scope screen script search session shift signal slot space span speed stage stream switch system team
temperature template term thread track transform variable vector volume worker
""".split()

FUNCTIONS = "load read open build send update create parse render compute export merge resolve encode collect".split()
SUMMARIES = (
    "handle incoming request", "prepare next round", "write final report", "copy missing entries", "check old records",
    "compare both sides", "sort known values", "fetch remote content", "draw small picture", "clean temporary storage",
    "count open tickets", "convert raw numbers", "start background service", "close idle connections",
)  # fmt: skip
NOTES = (
    "first choice", "upper bound", "plain text", "local copy", "default one", "known entry", "main part", "short form",
    "open handle", "old setting", "free place", "given side", "raw number", "inner layer", "public name", "late entry",
)  # fmt: skip


@dataclass(frozen=True)
class Docstring:
    title: str = "Docstring"
    metric: str = "logit_diff"

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
        return Draft(
            prompt([a, b, c], [a, b]), prompt(in_signature, in_doc), [f" {c}"], [f" {name}" for name in wrongs]
        )


docstring = Docstring()
