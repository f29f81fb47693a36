"""The built-in completions: sides that share nothing tested, right grammar, clear answers and sums that come out."""

import random
import re
from collections import Counter

import pytest

from headcount.tasks import arithmetic, commonsense, syntax

SOURCES = {
    "syntax": syntax.syntax,
    "syntax_shots": syntax.syntax_shots,
    "commonsense": commonsense.commonsense,
    "math": arithmetic.math,
}
SEEDS = range(5)


def both_sides(name, seed=0):
    train, test = SOURCES[name].items(random.Random(seed))
    return [*train, *test]


def words_in(items):
    return set(re.findall(r"[a-z]+", " ".join(item.prompt + item.target for item in items).lower()))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SOURCES)
def test_each_side_has_enough_items_and_no_prompt_comes_twice(name, seed):
    train, test = SOURCES[name].items(random.Random(seed))
    assert min(len(train), len(test)) >= 150
    prompts = [item.prompt for item in (*train, *test)]
    assert len(set(prompts)) == len(prompts)


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_seed_gives_the_same_items_and_another_seed_others(name):
    assert both_sides(name, 3) == both_sides(name, 3)
    assert both_sides(name, 3) != both_sides(name, 4)


@pytest.mark.parametrize("name", SOURCES)
def test_targets_are_a_space_and_a_whole_response(name):
    for item in both_sides(name):
        assert re.fullmatch(r" \S.*\S| \S", item.target), item.target
        assert item.prompt == item.prompt.strip()
        assert not item.choices or item.target in item.choices


@pytest.mark.parametrize(
    ("name", "start", "asks"),
    [
        ("syntax", "Input: ", 2),
        ("syntax_shots", "Input: ", 5),
        ("commonsense", "Question: ", 2),
        ("math", "Problem: ", 2),
    ],
)
def test_other_worked_examples_stand_before_the_item(name, start, asks):
    for side in SOURCES[name].items(random.Random(0)):
        own = {item.prompt.split(start)[-1] for item in side}
        for item in side:
            instruction, *asked = item.prompt.split(start)
            assert len(set(asked)) == len(asked) == asks
            assert (instruction.strip() in syntax.KINDS) == (name == "syntax")
            for example in asked[:-1]:
                question, answer = re.fullmatch(r"(.*\n(?:Output|Answer|Solution):)( .+?)\s*", example, re.S).groups()
                assert answer.strip()
                assert name == "commonsense" or question in own, "an example is of the same side as its item"


# Syntax


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["syntax", "syntax_shots"])
def test_syntax_sides_share_no_verbs_nouns_or_people(name, seed):
    train, test = SOURCES[name].items(random.Random(seed))
    one, two = syntax.split_words(random.Random(seed))
    for words, other_side in ((one, test), (two, train)):
        forms = {form for verb in words.verbs for form in (verb.base, verb.third, verb.past)}
        forms |= {form for noun in (*words.nouns, *words.people) for form in (noun.singular, noun.plural)}
        assert not forms & words_in(other_side)


def test_the_five_kinds_of_syntax_are_balanced():
    for side in syntax.syntax.items(random.Random(0)):
        kinds = Counter(item.prompt.split("\n")[0] for item in side)
        assert kinds == dict.fromkeys(syntax.KINDS, 50)


def test_half_of_the_subjects_in_agreement_are_plural_and_the_order_of_the_forms_tells_nothing():
    items = [item for seed in range(10) for item in both_sides("syntax", seed) if "/" in item.prompt.split("\n")[-2]]
    first_is_right = [
        re.search(r"\((\w+)/\w+\)", item.prompt.split("\n")[-2])[1] in item.target.split() for item in items
    ]
    assert 0.44 < sum(first_is_right) / len(items) < 0.56
    people = {person.plural for person in syntax.PEOPLE}
    plurals = [item.target.split()[1] in people for item in items]
    assert 0.44 < sum(plurals) / len(items) < 0.56


@pytest.fixture(scope="module")
def rewritten():
    """What becomes of a sentence under an instruction, for the sentences of very many draws."""
    rng = random.Random(0)
    sides = syntax.split_words(rng)
    changes = [
        (instruction, change_of(side, rng))
        for instruction, change_of in syntax.KINDS.items()
        for side in sides
        for _ in range(20_000)
    ]
    return {(instruction, change.before): f" {change.after}" for instruction, change in changes}


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("past tense", "She carries the bags.", " She carried the bags."),
        ("past tense", "They go to school.", " They went to school."),
        ("past tense", "I teach history.", " I taught history."),
        ("past tense", "He stops at the corner.", " He stopped at the corner."),
        ("plural", "Where is the knife?", " Where are the knives?"),
        ("plural", "The sheep is here.", " The sheep are here."),
        ("plural", "The city is here.", " The cities are here."),
        ("plural", "Where is the goose?", " Where are the geese?"),
        ("question", "They can swim in the lake.", " Can they swim in the lake?"),
        ("question", "She flies to London.", " Does she fly to London?"),
        ("question", "They sat by the window.", " Did they sit by the window?"),
        ("question", "They eat bread.", " Do they eat bread?"),
        ("negative", "He washes the dishes.", " He does not wash the dishes."),
        ("negative", "She can sing loudly.", " She cannot sing loudly."),
        ("negative", "We paid the rent.", " We did not pay the rent."),
        ("negative", "You sleep well.", " You do not sleep well."),
    ],
)
def test_sentences_change_as_grammar_wants_it(rewritten, kind, before, after):
    (instruction,) = (instruction for instruction in syntax.KINDS if kind in instruction)
    assert rewritten[instruction, before] == after


def test_the_verb_agrees_with_the_subject_and_not_with_the_word_beside_it():
    verb, child = syntax.Verb("try", "tries", "tried", "the soup"), syntax.Noun("child", "children")
    words = syntax.Words([verb], [], [child])
    found = {syntax.agreement(words, random.Random(seed)).after for seed in range(200)}
    assert found == {
        "The child tries the soup.",
        "The children try the soup.",
        *(f"The child near {many} tries the soup." for many in ("us", "them")),
        *(f"The children near {one} try the soup." for one in ("me", "him", "her")),
    }


# Common sense


def test_there_are_at_least_three_hundred_different_questions_and_answers():
    entries = [entry for relation in commonsense.RELATIONS for entry in commonsense.read_entries(relation)]
    assert len({entry.question for entry in entries}) == len(entries) >= 300
    assert len({(entry.group[0], entry.answer) for entry in entries}) == len(entries)


@pytest.mark.parametrize("relation", commonsense.RELATIONS)
def test_every_question_finds_three_wrong_answers_however_the_sides_fall(relation):
    entries = commonsense.read_entries(relation)
    largest = max(Counter(entry.group for entry in entries).values())
    assert len(entries) // 2 - largest >= 3


def read_question(text):
    question, *lines = text.removeprefix("Question: ").split("\n")
    return question, [line[len("A. ") :] for line in lines[:4]]


@pytest.mark.parametrize("seed", SEEDS)
def test_sides_share_no_questions_and_no_answers_of_a_relation(seed):
    train, test = commonsense.split_entries(random.Random(seed))
    assert not {entry.question for entry in train} & {entry.question for entry in test}
    assert not {(entry.group[0], entry.answer) for entry in train} & {(entry.group[0], entry.answer) for entry in test}
    for entries, items in zip((train, test), commonsense.commonsense.items(random.Random(seed)), strict=True):
        asked = {read_question(question)[0] for item in items for question in item.prompt.split("\n\n")}
        assert asked == {entry.question for entry in entries}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_letter_is_that_of_the_answer_and_no_wrong_answer_is_of_its_group(seed):
    entries = [entry for relation in commonsense.RELATIONS for entry in commonsense.read_entries(relation)]
    by_question = {entry.question: entry for entry in entries}
    groups = {(entry.group[0], entry.answer): entry.group for entry in entries}
    for item in both_sides("commonsense", seed):
        example, asked = (item.prompt + item.target).split("\n\n")
        for text in (example, asked):
            question, options = read_question(text)
            entry = by_question[question]
            right = "ABCD".index(text[-1])
            assert options[right] == entry.answer
            assert len(set(options)) == 4
            wrong = {groups[entry.group[0], option] for i, option in enumerate(options) if i != right}
            assert entry.group not in wrong


def test_the_right_letter_is_spread_evenly():
    letters = Counter(item.target for seed in range(10) for item in both_sides("commonsense", seed))
    assert set(letters) == {" A", " B", " C", " D"}
    assert all(0.22 < count / letters.total() < 0.28 for count in letters.values())


# Math


@pytest.mark.parametrize("seed", SEEDS)
def test_every_step_comes_out_and_the_last_result_is_the_answer(seed):
    for item in both_sides("math", seed):
        *steps, answer, end = item.target.split(".")
        assert not end
        results = []
        for step in steps:
            one, sign, two, result = re.fullmatch(r" (\d+) ([-+*/]) (\d+) = (\d+)", step).groups()
            left, right = int(one), int(two)
            value = {"+": left + right, "-": left - right, "*": left * right, "/": left / right}[sign]
            assert value == int(result) > 0
            assert value < 200
            results.append(result)
        assert 1 <= len(results) <= 3
        assert answer == f" The answer is {results[-1]}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_solution_uses_every_number_of_its_problem(seed):
    for item in both_sides("math", seed):
        told = re.findall(r"\d+", item.prompt.split("Problem: ")[-1])
        assert not set(told) - set(re.findall(r"\d+", item.target))


@pytest.mark.parametrize("seed", SEEDS)
def test_math_sides_share_no_stories_names_or_things(seed):
    train, test = arithmetic.split_words(random.Random(seed))
    assert min(len(train.stories), len(test.stories)) >= 12
    assert not set(train.stories) & set(test.stories)
    items = arithmetic.math.items(random.Random(seed))
    for words, other_side in ((train, items[1]), (test, items[0])):
        assert not {name.lower() for name in words.names} & words_in(other_side)
        assert not set(words.things) & words_in(other_side)
    for side in (train, test):
        assert Counter(steps.count(",") + 1 for steps, _ in side.stories) == {1: 6, 2: 6, 3: 4}


def test_a_fraction_or_a_negative_result_is_refused():
    assert arithmetic.solve("a / b", {"a": 9, "b": 4}) is None
    assert arithmetic.solve("a - b", {"a": 4, "b": 9}) is None
    assert arithmetic.solve("a + b, x / c", {"a": 9, "b": 3, "c": 4}) == " 9 + 3 = 12. 12 / 4 = 3. The answer is 3."


def test_pronouns_follow_the_name():
    for item in both_sides("math"):
        told = item.prompt.split("Problem: ")[-1].split("\n")[0]
        if name := re.match(r"(\w+) (has|is|reads|earns)", told):
            wrong = {"she", "her"} if name[1] in arithmetic.BOYS else {"he", "him"}
            assert not wrong & set(re.findall(r"\w+", told.lower()))
