"""A counterfactual made for one prompt, where a rule allows: the words that decide the answer, exchanged or replaced.

    both the answer and the wrong answer stand in the prompt     exchanged, wherever they stand
    the answer alone stands in it                                the wrong answer in its place

A prompt that holds neither is known to nobody but its author; there no rule applies.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Counterfactual:
    text: str
    rule: str
    """In words."""


def make_counterfactual(prompt: str, answer: str, wrong: str) -> Counterfactual | None:
    """The prompt whose answer would be the wrong one; None where no rule applies."""
    right, other = answer.strip(), wrong.strip()
    if not right or not other or right == other or not _word(right).search(prompt):
        return None
    if not _word(other).search(prompt):
        return Counterfactual(_word(right).sub(lambda found: other, prompt), f"{other!r} in the place of {right!r}")
    either = re.compile(f"{_word(right).pattern}|{_word(other).pattern}")
    swapped = either.sub(lambda found: other if found[0] == right else right, prompt)
    return Counterfactual(swapped, f"{right!r} and {other!r} exchanged")


def _word(word: str) -> re.Pattern[str]:
    """A word that is no part of another."""
    return re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
