"""Indirect object identification (Wang et al. 2023, arXiv 2211.00593), in templates of our own.

"When Mary and John went to the park, John gave the ball to" -> " Mary", not " John". The counterfactual puts three
unrelated names in the three places (the paper's ABC), so that neither answer is favoured.
Metric: logit(indirect object) - logit(subject).

Train and test share no names. Split by templates they share no templates, places, things and filler sentences either.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..core.words import SplitBy
from .source import Draft, Tokens, halves, read_words, wordings

_WORDS = read_words("ioi")
NAMES, PLACES, THINGS = (_WORDS[kind] for kind in ("names", "places", "things"))
TEMPLATES, LONG_TEMPLATES, FILLERS = (tuple(_WORDS[kind]) for kind in ("templates", "long-templates", "fillers"))


class Pool(NamedTuple):
    names: Sequence[str]
    templates: Sequence[str]
    places: Sequence[str]
    things: Sequence[str]
    fillers: Sequence[str]


@dataclass(frozen=True)
class IndirectObject:
    title: str = "IOI"
    metric: str = "logit_diff"
    templates: tuple[str, ...] = TEMPLATES
    fillers: tuple[str, ...] = ()
    split: SplitBy = "words"

    def by_templates(self) -> "IndirectObject":
        return replace(self, split="templates")

    def pools(self, tokens: Tokens, rng: random.Random) -> tuple[Pool, Pool]:
        names = halves(tokens.single(NAMES), rng, least=5, what="first names")
        told = wordings((self.templates, PLACES, THINGS, self.fillers), self.split, rng)
        train, test = (Pool(own, *kinds) for own, kinds in zip(names, told, strict=True))
        return train, test

    def draft(self, pool: Pool, rng: random.Random) -> Draft:
        template = rng.choice(pool.templates)
        place, thing = rng.choice(pool.places), rng.choice(pool.things)
        in_front = rng.sample(pool.fillers, rng.randint(2, 3)) if pool.fillers else []
        prefix = "".join(f"{sentence} " for sentence in in_front)
        giver, receiver, *others = rng.sample(pool.names, 5)
        one, two = rng.sample([giver, receiver], 2)
        clean = template.format(one=one, two=two, subject=giver, place=place, thing=thing)
        corrupt = template.format(one=others[0], two=others[1], subject=others[2], place=place, thing=thing)
        return Draft(prefix + clean, prefix + corrupt, [f" {receiver}"], [f" {giver}"])


ioi = IndirectObject()
ioi_long = IndirectObject(title="IOI Long", templates=LONG_TEMPLATES, fillers=FILLERS)
