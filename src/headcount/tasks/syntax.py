"""Small rewritings of a sentence that ask for English grammar and nothing else.

Five kinds: agreement of subject and verb, past tense, plural, question and negation. "They sing loudly." ->
" They sang loudly." The task `syntax` says what to do and shows one example, `syntax_shots` only shows four examples.
Train and test share no verbs, no nouns and no people.
"""

import random
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from ..core.files import read_toml
from .source import WORDS, Item, TwoSides

ITEMS_A_KIND = 50


class Verb(NamedTuple):
    base: str
    third: str
    past: str
    rest: str


class Noun(NamedTuple):
    singular: str
    plural: str


class Words(NamedTuple):
    """Those of one side."""

    verbs: Sequence[Verb]
    nouns: Sequence[Noun]
    people: Sequence[Noun]


class Change(NamedTuple):
    """A sentence before and after, and the base form of the word that the change is about."""

    word: str
    before: str
    after: str


class _Tables(TypedDict):
    verbs: str
    nouns: str
    people: str
    adjectives: str
    plurals: list[tuple[str, str]]


_TABLES = read_toml(WORDS / "syntax.toml", _Tables)
VERBS = [Verb(*row.split(maxsplit=3)) for row in _TABLES["verbs"].strip().split(",")]
NOUNS, PEOPLE = ([Noun(*row.split()) for row in rows.split(",")] for rows in (_TABLES["nouns"], _TABLES["people"]))
ADJECTIVES, PLURALS = _TABLES["adjectives"].split(), _TABLES["plurals"]


def split_words(rng: random.Random) -> tuple[Words, Words]:
    shuffled: list[list[Any]] = [[*VERBS], [*NOUNS], [*PEOPLE]]
    for kind in shuffled:
        rng.shuffle(kind)
    return Words(*(kind[::2] for kind in shuffled)), Words(*(kind[1::2] for kind in shuffled))


def agreement(words: Words, rng: random.Random) -> Change:
    verb = rng.choice(words.verbs)
    subject, many = rng.choice(words.people), rng.random() < 0.5
    start = f"The {subject.plural if many else subject.singular}"
    if rng.random() < 0.5:  # a word of the other number between the subject and its verb
        start += f" near {rng.choice(['me', 'him', 'her'] if many else ['us', 'them'])}"
    forms = "/".join(rng.sample([verb.base, verb.third], 2))
    right = verb.base if many else verb.third
    return Change(verb.base, f"{start} ({forms}) {verb.rest}.", f"{start} {right} {verb.rest}.")


def past(words: Words, rng: random.Random) -> Change:
    verb, subject, third = _start(words, rng, "I We You They")
    present = verb.third if third else verb.base
    return Change(verb.base, f"{subject} {present} {verb.rest}.", f"{subject} {verb.past} {verb.rest}.")


def plural(words: Words, rng: random.Random) -> Change:
    noun, adjective = rng.choice(words.nouns), rng.choice(ADJECTIVES)
    before, after = rng.choice(PLURALS)
    return Change(noun.singular, before.format(noun.singular, adjective), after.format(noun.plural, adjective))


def question(words: Words, rng: random.Random) -> Change:
    verb, subject, third = _start(words, rng, "They")
    said, helper, _ = _helper(verb, third, rng)
    asked = f"{helper.capitalize()} {subject[0].lower()}{subject[1:]} {verb.base} {verb.rest}?"
    return Change(verb.base, f"{subject} {said} {verb.rest}.", asked)


def negation(words: Words, rng: random.Random) -> Change:
    verb, subject, third = _start(words, rng, "I We You They")
    said, _, negated = _helper(verb, third, rng)
    return Change(verb.base, f"{subject} {said} {verb.rest}.", f"{subject} {negated} {verb.base} {verb.rest}.")


def _start(words: Words, rng: random.Random, others: str) -> tuple[Verb, str, bool]:
    """A verb, a subject and whether it takes the third person singular. `others` are the pronouns that do not."""
    verb, person = rng.choice(words.verbs), rng.choice(words.people)
    if rng.random() < 0.5:
        return verb, rng.choice(["He", "She", f"The {person.singular}"]), True
    return verb, rng.choice([*others.split(), f"The {person.plural}"]), False


def _helper(verb: Verb, third: bool, rng: random.Random) -> tuple[str, str, str]:
    """The verb of a statement, the word that a question begins with and what comes before the verb in a negation."""
    modal = rng.choice(["can", "will", "should"])
    with_modal = (f"{modal} {verb.base}", modal, "cannot" if modal == "can" else f"{modal} not")
    present = (verb.third, "does", "does not") if third else (verb.base, "do", "do not")
    return rng.choice([with_modal, (verb.past, "did", "did not"), present])


KINDS = {
    "Choose the right form of the verb.": agreement,
    "Write the verb in the past tense.": past,
    "Write the sentence in the plural.": plural,
    "Turn the statement into a question.": question,
    "Make the sentence negative.": negation,
}


def _side(words: Words, rng: random.Random, shots: int, instructed: bool) -> list[Item]:
    """Items behind so many examples of the same kind."""
    items = []
    for instruction, change_of in KINDS.items():
        changes: dict[str, Change] = {}
        while len(changes) < ITEMS_A_KIND:
            change = change_of(words, rng)
            changes[change.before] = change
        for change in changes.values():
            others = [other for other in changes.values() if other.word != change.word]
            lines = [instruction] if instructed else []
            for shot in rng.sample(others, shots):
                lines += [f"Input: {shot.before}", f"Output: {shot.after}"]
            lines += [f"Input: {change.before}", "Output:"]
            items.append(Item("\n".join(lines), f" {change.after}"))
    rng.shuffle(items)
    return items


syntax = TwoSides("Syntax", split_words, partial(_side, shots=1, instructed=True))
syntax_shots = TwoSides("Syntax, by examples", split_words, partial(_side, shots=4, instructed=False))
