"""Greater-than (Hanna et al. 2023, arXiv 2305.00586), for tokenizers that split years in any way.

"The war lasted from the year 1732 to the year 17" -> a later year. The counterfactual starts in the year 1701, after
which every end is later. Metric: probability of later years - probability of years that are not.

GPT-2 splits 1732 as 17|32: the next token is the whole ending, as in the paper. SmolLM2 splits it as 1|7|3|2: the next
token is the tens digit. Llama-3 splits it as 173|2: the prompt ends before the year, the next token is its first three
digits. In the last two the token that holds the start year's own decade is neither right nor wrong, and is left out.

Train and test share no nouns and no start years. Split by templates they share no templates either.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..core.errors import HeadcountError
from ..core.words import SplitBy
from .examples import first_difference
from .source import Draft, Tokens, halves, read_words, wordings

_WORDS = read_words("greater-than")
NOUNS, TEMPLATES = _WORDS["nouns"], _WORDS["templates"]
CENTURIES = tuple(range(11, 18))
CORRUPT_ENDING = 1


class Century(NamedTuple):
    """How one tokenizer continues '... the year' within one century."""

    digits: str
    shown: tuple[int, ...]  # tokens that the prompt still shows after '... the year'
    next_of: dict[int, int]  # ending (0 to 99) -> the token that comes next; only endings split in the regular way

    def answers(self, start: int) -> tuple[list[int], list[int]]:
        """Tokens of later and of not later endings. A token that stands for several endings, the start among them,
        is in neither."""
        endings: dict[int, list[int]] = defaultdict(list)
        for ending, token in self.next_of.items():
            endings[token].append(ending)
        later = [token for token, group in endings.items() if min(group) > start]
        not_later = [token for token, group in endings.items() if max(group) <= start]
        return later, not_later


class Pool(NamedTuple):
    nouns: Sequence[str]
    years: Sequence[tuple[Century, int]]
    templates: Sequence[str]
    tokens: Tokens


@dataclass(frozen=True)
class GreaterThan:
    title: str = "Greater Than"
    metric: str = "prob_diff"
    split: SplitBy = "words"

    def by_templates(self) -> "GreaterThan":
        return GreaterThan(split="templates")

    def pools(self, tokens: Tokens, rng: random.Random) -> tuple[Pool, Pool]:
        centuries = [century for digits in CENTURIES if (century := _read_century(tokens, str(digits)))]
        years = [(century, ending) for century in centuries for ending in _usable_starts(century, tokens)]
        if len(years) < 20:
            raise HeadcountError(
                f"greater-than needs years that this tokenizer splits in a regular way, and it has {len(years)}."
                " Use a JSONL of your own."
            )
        train_nouns, test_nouns = halves(NOUNS, rng, least=5, what="nouns")
        rng.shuffle(years)
        (train,), (test,) = wordings((TEMPLATES,), self.split, rng)
        return Pool(train_nouns, years[::2], train, tokens), Pool(test_nouns, years[1::2], test, tokens)

    def draft(self, pool: Pool, rng: random.Random) -> Draft:
        century, start = rng.choice(pool.years)
        template, noun = rng.choice(pool.templates), rng.choice(pool.nouns)
        article = template.replace("a {noun}", "an {noun}") if noun[0] in "aeiou" else template
        later, not_later = century.answers(start)

        texts = (article.format(noun=noun, start=f"{century.digits}{ending:02d}") for ending in (start, CORRUPT_ENDING))
        clean, corrupt = ([*pool.tokens.encode(text), *century.shown] for text in texts)
        return Draft(clean, corrupt, later, not_later)


def _read_century(tokens: Tokens, digits: str) -> Century | None:
    """How the tokenizer splits the hundred years of a century, or None where it has no regular way."""
    before = "It was over by the year"
    splits = {ending: tokens.after(before, f" {digits}{ending:02d}") for ending in range(100)}
    known = {ending: split for ending, split in splits.items() if split}
    if not known:
        return None
    # The prompt shows the century where the tokenizer has it as tokens of its own, else what all years have in common,
    # which the first and the last of them in order decide.
    first, last = min(known.values()), max(known.values())
    for shown in (tokens.after(before, f" {digits}"), first[: first_difference(first, last)]):
        if shown is None:
            continue
        regular = {ending: split for ending, split in known.items() if split[: len(shown)] == shown}
        following = {ending: split[len(shown)] for ending, split in regular.items() if len(split) > len(shown)}
        if len(following) >= 50 and len(set(following.values())) >= 10:
            return Century(digits, tuple(shown), following)
    return None


def _usable_starts(century: Century, tokens: Tokens) -> list[int]:
    """Start years that leave something later and something not later, as long in tokens as the counterfactual."""
    years = {ending: tokens.encode(f"the year {century.digits}{ending:02d}") for ending in range(100)}
    later = [ending for ending in century.next_of if ending > CORRUPT_ENDING and all(century.answers(ending))]
    return [ending for ending in later if len(years[ending]) == len(years[CORRUPT_ENDING])]


greater_than = GreaterThan()
