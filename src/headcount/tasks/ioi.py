"""Indirect object identification (Wang et al. 2023, arXiv 2211.00593), in templates of our own.

"When Mary and John went to the park, John gave the ball to" -> " Mary", not " John". The counterfactual puts three
unrelated names in the three places (the paper's ABC), so that neither answer is favoured.
Metric: logit(indirect object) - logit(subject).
"""

import random
from dataclasses import dataclass

from ..core.files import read_toml
from .source import WORDS, Draft, Tokens, halves

_WORDS = read_toml(WORDS / "ioi.toml")
NAMES, PLACES, THINGS = (_WORDS[kind].split() for kind in ("names", "places", "things"))
TEMPLATES, LONG_TEMPLATES, FILLERS = (tuple(_WORDS[kind]) for kind in ("templates", "long-templates", "fillers"))


@dataclass(frozen=True)
class IndirectObject:
    title: str = "IOI"
    metric: str = "logit_diff"
    templates: tuple[str, ...] = TEMPLATES
    fillers: tuple[str, ...] = ()

    def pools(self, tokens: Tokens, rng: random.Random) -> tuple[list[str], list[str]]:
        return halves(tokens.single(NAMES), rng, least=5, what="first names")

    def draft(self, pool: list[str], rng: random.Random) -> Draft:
        template = rng.choice(self.templates)
        place, thing = rng.choice(PLACES), rng.choice(THINGS)
        in_front = rng.sample(self.fillers, rng.randint(2, 3)) if self.fillers else []
        prefix = "".join(f"{sentence} " for sentence in in_front)
        giver, receiver, *others = rng.sample(pool, 5)
        one, two = rng.sample([giver, receiver], 2)
        clean = template.format(one=one, two=two, subject=giver, place=place, thing=thing)
        corrupt = template.format(one=others[0], two=others[1], subject=others[2], place=place, thing=thing)
        return Draft(prefix + clean, prefix + corrupt, [f" {receiver}"], [f" {giver}"])


ioi = IndirectObject()
ioi_long = IndirectObject(title="IOI Long", templates=LONG_TEMPLATES, fillers=FILLERS)
