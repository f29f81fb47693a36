"""Indirect object identification (Wang et al. 2023, arXiv 2211.00593), in templates of our own.

"When Mary and John went to the park, John gave the ball to" -> " Mary", not " John". The counterfactual puts three
unrelated names in the three places (the paper's ABC), so that neither answer is favoured.
Metric: logit(indirect object) - logit(subject).
"""

import random
from dataclasses import dataclass

from .source import Draft, Tokens, halves

NAMES = """
Aaron Adam Alan Albert Alex Alice Allison Amanda Amy Andrea Andrew Angela Anna Anne Anthony Arthur Ashley Barbara Ben
Beth Betty Brian Carl Carol Caroline Catherine Charles Charlie Chris Christina Christine Claire Daniel David Dean
Diana Donald Dorothy Edward Elizabeth Ellen Emily Emma Eric Francis Frank Fred Gary George Grace Grant Hannah Harold
Harry Heather Helen Henry Howard Ian Jack Jacob James Jane Jason Jay Jeff Jennifer Jeremy Jerry Jessica Jim Joan Joe
John Jonathan Joseph Joshua Julia Julie Justin Karen Kate Katherine Keith Kelly Kenneth Kevin Kim Larry Laura Lauren
Lawrence Leo Leon Lewis Linda Lisa Louis Lucy Luke Marcus Margaret Maria Marie Mark Martha Martin Mary Matthew Max
Melissa Michael Michelle Mike Nancy Nathan Neil Nicholas Nick Nicole Oliver Oscar Patricia Patrick Paul Peter Philip
Rachel Ralph Ray Rebecca Richard Robert Robin Roger Ron Rose Roy Russell Ruth Ryan Sam Samuel Sandra Sara Sarah Scott
Sean Simon Sophia Stephen Steve Steven Stuart Susan Taylor Teresa Thomas Tim Todd Tom Tony Tyler Victor Victoria
Vincent Walter Warren Wayne William
""".split()

PLACES = """
park market museum station library harbor garden school kitchen office theater beach farm hotel cafe bank
""".split()
THINGS = "book ball letter cup key map ticket coat lamp basket pen flower ring camera present sandwich".split()

# {one} and {two} are the two people in random order, {subject} the one of them who acts. Every verb wants a person
# next: after "returned the book to" a model may well name a place.
TEMPLATES = (
    "When {one} and {two} went to the {place}, {subject} gave the {thing} to",
    "After {one} and {two} came back from the {place}, {subject} handed a {thing} to",
    "While {one} and {two} were sitting in the {place}, {subject} passed the {thing} to",
    "Yesterday {one} and {two} met at the {place}, and {subject} brought a {thing} to",
    "Two friends, {one} and {two}, were at the {place} when {subject} gave a {thing} to",
    "On Sunday {one} and {two} drove to the {place}. There {subject} gave a {thing} to",
    "It was raining when {one} and {two} left the {place}, so {subject} gave a {thing} to",
    "Before {one} and {two} reached the {place}, {subject} lent a {thing} to",
    "The friends {one} and {two} found a {thing} near the {place}. Later {subject} gave it to",
    "Once {one} and {two} had closed the {place}, {subject} offered the {thing} to",
    "After work {one} and {two} went to the {place}, where {subject} gave a {thing} to",
    "Then {one} and {two} were looking for the {thing} in the {place}. {subject} found it and gave it to",
    "This morning {one} and {two} visited the {place}, and {subject} decided to give the {thing} to",
    "Outside the {place}, {one} and {two} began to talk. At the end {subject} gave the {thing} to",
    "At the {place}, {one} and {two} shared a table, and {subject} slid the {thing} over to",
    "Everyone saw {one} and {two} at the {place}. Nobody saw that {subject} gave a {thing} to",
)

LONG_TEMPLATES = (
    "When {one} and {two} went to the {place} early in the morning, it was still closed, so they waited on the steps"
    " and talked about the week. In the end {subject} gave the {thing} to",
    "After a long day of work {one} and {two} met in front of the {place}. They were tired but happy, and before they"
    " went home {subject} handed the {thing} to",
    "For many years {one} and {two} had planned to visit the {place} together. Now that they were there at last, and"
    " the sun was out, {subject} gave a {thing} to",
    "Nobody knew why {one} and {two} came to the {place} every Friday. They sat by the window, said very little, and"
    " now and then {subject} passed a {thing} to",
    "The rain had stopped when {one} and {two} left the {place}. On the way down the hill, where the road turns"
    " toward the river, {subject} showed the {thing} to",
    "In the middle of the summer {one} and {two} found work at the {place}. The pay was poor and the hours were long,"
    " yet at the end of the first day {subject} bought a {thing} for the team and brought it to",
    "It was late when {one} and {two} finally reached the {place}. The lights were off and the door was locked, and so"
    " {subject} quietly gave the {thing} to",
    "Everything was ready by the time {one} and {two} arrived at the {place}. The guests were waiting, the music"
    " played, and with a smile {subject} offered the {thing} to",
)

FILLERS = (
    "The town lay quiet that season, and most of the shops opened late.",
    "A light wind came in from the water and moved the leaves along the street.",
    "The newspaper had little to report except the price of bread and the weather.",
    "Two dogs were asleep beside the old fountain, as they were on most days.",
    "The bus to the next village had been delayed again by work on the bridge.",
    "Somewhere above the roofs a bell rang, and after a while it stopped.",
    "The fields beyond the last houses were already green.",
    "Children had drawn long lines of chalk on the pavement.",
    "A truck with boxes of fruit stood in the middle of the square.",
    "The clock above the hall was five minutes slow, and people had stopped noticing.",
    "There was a smell of coffee and of fresh paint in the air.",
    "A painter had set up a ladder against the wall of the post office.",
)


@dataclass(frozen=True)
class IndirectObject:
    title: str = "IOI"
    metric: str = "logit_diff"
    templates: tuple[str, ...] = TEMPLATES
    fillers: tuple[str, ...] = ()
    """Sentences of which a few are put in front, the same in both prompts of a pair."""

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
