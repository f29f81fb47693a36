"""The built-in questions: counts, splits by template, right answers worked out again from the text, balance."""

import re
from collections import Counter
from itertools import combinations, permutations, product
from operator import eq, gt, lt

import pytest

from headcount.tasks.questions import FUNCTIONS, questions
from headcount.tasks.questions.built_in import SPLITS, Story, Table, all_templates, all_words, number_word, pool

TEMPLATES = all_templates()
WORDS, WORDS_OF_ONE_SPLIT = all_words()["dealt-out"], all_words()["of-one-split"]


def sides_of(seed):
    found = questions(seed=seed)
    return {"train": found.train, "validation": found.validation, "test": found.test}


SIDES = sides_of(0)
ALL = [question for side in SIDES.values() for question in side]
SEEDS = range(3)


def of_function(name):
    return [question for seed in SEEDS for side in sides_of(seed).values() for question in side
            if question.function == name]  # fmt: skip


def words_of(text):
    return set(re.findall(r"\w+", text))


def options_of(question):
    """The options that a question ends with: ": one, two or three?"."""
    found = re.search(r": ([^:?]+ or [^:?]+)\?", question.text)
    return re.split(r", | or ", found[1]) if found else []


def test_every_function_has_enough_questions_and_three_fifths_of_them_to_train_on():
    assert len(FUNCTIONS) == 8
    for function in FUNCTIONS:
        counts = {split: sum(q.function == function for q in side) for split, side in SIDES.items()}
        total = sum(counts.values())
        assert total >= 120
        for split, share in {"train": 0.6, "validation": 0.2, "test": 0.2}.items():
            assert counts[split] / total == pytest.approx(share, abs=0.02)


def test_a_template_is_in_one_split_and_every_split_has_three_and_test_twelve():
    homes = {}
    for split, side in SIDES.items():
        for question in side:
            homes.setdefault(question.template, set()).add((question.function, split))
    assert all(len(home) == 1 for home in homes.values())
    counts = Counter(next(iter(home)) for home in homes.values())
    fewest = {"train": 6, "validation": 3, "test": 12}
    assert all(counts[function, split] >= fewest[split] for function in FUNCTIONS for split in SPLITS)


def test_a_limit_is_shared_out_evenly_to_the_templates():
    side = [q.template for q in questions().limited(80).test if q.function == "retrieval"]
    assert len(side) == 18
    assert set(Counter(side).values()) == {1, 2}
    assert len(set(side)) == 12


def test_no_row_of_a_table_is_asked_in_two_splits():
    """Neither the same thing of the same answer, nor the other way round."""
    for function, templates in TEMPLATES.items():
        rows = {}
        for split, named in templates.items():
            for table in (template for template in named.values() if isinstance(template, Table)):
                for row in table.rows.split(";"):
                    thing, _, answers = " ".join(row.lower().split()).rpartition(": ")
                    answer = answers.split(" / ")[0].split(" = ")[0]
                    rows.setdefault(frozenset((thing.strip(), answer)), set()).add(split)
        assert all(len(splits) == 1 for splits in rows.values()), function


def test_no_question_comes_twice():
    for seed in SEEDS:
        texts = [question.text for side in sides_of(seed).values() for question in side]
        assert len(set(texts)) == len(texts)


def test_the_same_seed_gives_the_same_questions_and_another_seed_others():
    assert questions(seed=4) == questions(seed=4) != questions(seed=5)


def test_the_questions_are_shuffled():
    for side in SIDES.values():
        assert set(FUNCTIONS) == {question.function for question in side[: len(side) // 4]}


def test_answers_are_short_and_nothing_of_the_templates_shows():
    for question in ALL:
        for answer in (question.answer, *question.accepted):
            assert 1 <= len(answer.split()) <= 5, question
        for text in (question.text, question.answer, *question.accepted):
            assert not re.search(r"[{}\[\]|;]|->| [/=] |  |\n", text), question
        assert text == text.strip()


def test_accepted_answers_are_different_from_the_answer_and_from_each_other():
    for question in ALL:
        answers = [question.answer, *question.accepted]
        assert len(set(answers)) == len(answers), question


def test_no_wrong_option_is_accepted():
    asked = [question for question in ALL if options_of(question)]
    assert len(asked) > 400
    for question in asked:
        options = [option.lower() for option in options_of(question)]
        right = {answer.lower() for answer in (question.answer, *question.accepted)}
        assert len(set(options)) == len(options), question
        assert [option in right for option in options].count(True) == 1, question
        assert question.answer.lower() in options, question


def test_the_right_option_stands_everywhere_equally_often():
    places = {}
    for question in ALL:
        options = options_of(question)
        if options and question.function != "math-calculation":
            found = places.setdefault(question.template, Counter(dict.fromkeys(range(len(options)), 0)))
            found[options.index(question.answer)] += 1
    assert len(places) >= 20
    for template, found in places.items():
        assert max(found.values()) - min(found.values()) <= 1, template


def test_yes_and_no_are_balanced():
    answers = {}
    for question in ALL:
        if "yes or no" in question.text:
            assert question.answer in ("yes", "no")
            answers.setdefault(question.template, []).append(question.answer == "yes")
    assert len(answers) >= 8
    for template, found in answers.items():
        assert abs(2 * sum(found) - len(found)) <= 1, template


def test_the_splits_share_no_words_of_stories_and_no_names_at_all():
    for one, other in combinations(SPLITS, 2):
        for kind in (*WORDS, "number"):
            assert not set(pool(kind, one)) & set(pool(kind, other))
    for split, side in SIDES.items():
        names = {name for other in SPLITS if other != split for name in pool("name", other)}
        for question in side:
            assert not words_of(question.text) & names, question


def test_words_of_one_split_are_asked_for_in_one_split():
    homes = {kind: set() for kind in WORDS_OF_ONE_SPLIT}
    for templates in TEMPLATES.values():
        for split, named in templates.items():
            for template in named.values():
                for kind in re.findall(r"\{([a-z]+)\d\}", template.text if isinstance(template, Story) else ""):
                    homes.get(kind, set()).add(split)
    assert all(len(home) == 1 for home in homes.values())


def test_retrieval_finds_the_answer_beside_what_is_asked_about_and_has_other_candidates():
    for question in of_function("retrieval"):
        *passage, asked = re.split(r"(?<=[.?]) ", question.text.partition("?")[0])
        split = next(split for split, templates in TEMPLATES["retrieval"].items() if question.template in templates)
        kinds = [pool(kind, split) for kind in (*WORDS, *WORDS_OF_ONE_SPLIT, "number")]
        words = {word for kind in kinds for word in kind}
        keys = words_of(asked) & words
        assert len(keys) == 1, question
        (beside,) = [sentence for sentence in passage if keys <= words_of(sentence) and " and " not in sentence]
        assert question.answer in words_of(beside), question
        same_kind = set(next(kind for kind in kinds if question.answer in kind))
        assert len(same_kind & words_of(" ".join(passage))) == 3, question
        assert not set(question.accepted) & (same_kind - {question.answer}), question


SUMS = {
    "plus": lambda a, b: a + b,
    "minus": lambda a, b: a - b,
    "times": lambda a, b: a * b,
    "bigger": max,
    "double": lambda a: a + a,
    "more": lambda a, b: a + b,
    "three-numbers": lambda a, b, c: a + b + c,
    "smallest": min,
    "given-away": lambda a, b: a - b,
    "half": lambda a: a / 2,
    "divided": lambda a, b: a / b,
    "price": lambda a, b: a * b,
    "quarter": lambda a: a / 4,
    "plus-and-minus": lambda a, b, c: a + b - c,
    "packs": lambda a, b, c: a * b + c,
    "years-older": lambda a, b: a + b,
    "change": lambda a, b: a - b,
    "shared": lambda a, b: a / b,
    "itself": lambda a: a * a,
    "added-to": lambda a, b: b - a,
    "together": lambda a, b: a + b,
}


def test_sums_worked_out_again_from_their_texts():
    for question in of_function("math-calculation"):
        numbers = [int(number) for number in re.findall(r"\d+", question.text)]
        assert int(question.answer) == SUMS[question.template](*numbers), question
        assert number_word(int(question.answer)) in question.accepted


def test_numbers_in_words():
    words = {0: "zero", 13: "thirteen", 20: "twenty", 47: "forty-seven", 100: "one hundred"}
    assert {number: number_word(number) for number in words} == words


ORDERS = {"taller": 1, "shorter": -1, "older": 1, "younger": -1, "in front": 1}
ASKED = {"tallest": 1, "shortest": -1, "oldest": 1, "youngest": -1, "first": 1, "last": -1}


def test_orders_of_three_worked_out_again_from_their_premises():
    seen = Counter()
    for question in of_function("logical-reasoning"):
        premises = re.findall(r"(\w+) is (\w+|in front) (?:than|of) (\w+)\.", question.text)
        if len(premises) == 2:
            above = [(one, two) if ORDERS[how] > 0 else (two, one) for one, how, two in premises]
            tops, bottoms = ({pair[i] for pair in above} - {pair[1 - i] for pair in above} for i in (0, 1))
            word = next(word for word in ASKED if re.search(rf"\b{word}\b", question.text))
            assert {question.answer} == (tops if ASKED[word] > 0 else bottoms), question
            seen[question.template] += 1
    assert len(seen) == 3


# What a premise says of two facts that are true or not; names are A and B in the order in which they come. The answer
# is what holds in every world that the premises allow.
WORLDS = {
    "unless": {
        "A goes to work unless it snows": lambda work, snow: work or snow,
        "A never goes to work when it snows": lambda work, snow: not (work and snow),
        "It snows today": lambda work, snow: snow,
        "It does not snow today": lambda work, snow: not snow,
        "A goes to work today": lambda work, snow: work,
        "A does not go to work today": lambda work, snow: not work,
        "Does A go to work today?": lambda work, snow: work,
        "Does it snow today?": lambda work, snow: snow,
    },
    "exactly-when": {
        "A opens the shop on exactly those days on which B is ill": lambda opens, ill: opens == ill,
        "B is ill today": lambda opens, ill: ill,
        "B is not ill today": lambda opens, ill: not ill,
        "A opens the shop today": lambda opens, ill: opens,
        "A does not open the shop today": lambda opens, ill: not opens,
        "Does A open the shop today?": lambda opens, ill: opens,
        "Is B ill today?": lambda opens, ill: ill,
    },
    "liar": {
        "A always lies": lambda honest, has: not honest,
        "A never lies": lambda honest, has: honest,
        "A says that B has the X": lambda honest, has: honest == has,
        "A says that B does not have the X": lambda honest, has: honest != has,
        "Does B have the X?": lambda honest, has: has,
    },
    "party": {
        "If A comes to the party, B comes too": lambda a, b: b or not a,
        "If A comes to the party, B stays at home": lambda a, b: not (a and b),
        "If A stays at home, B comes to the party": lambda a, b: a or b,
        "A comes to the party": lambda a, b: a,
        "A stays at home": lambda a, b: not a,
        "B does not come": lambda a, b: not b,
        "Does A come?": lambda a, b: a,
        "Does B come?": lambda a, b: b,
    },
}


def test_yes_and_no_follow_in_every_world_that_the_premises_allow():
    seen = set()
    for question in of_function("logical-reasoning"):
        if question.template in WORLDS:
            text = question.text.removesuffix(" Answer yes or no.")
            names = dict.fromkeys(re.findall("|".join(pool("name", "test")), text))
            for name, letter in zip(names, "AB", strict=False):
                text = text.replace(name, letter)
            text = re.sub(rf"the ({'|'.join(pool('thing', 'test'))})\b", "the X", text)
            says = WORLDS[question.template]
            *premises, asked = text.split(". ")
            worlds = [w for w in product((True, False), repeat=2) if all(says[premise](*w) for premise in premises)]
            assert {says[asked](*world) for world in worlds} == {question.answer == "yes"}, question
            seen.add(question.template)
    assert seen == set(WORLDS)


def only_left(named, ruled_out):
    (left,) = set(named) - set(ruled_out)
    return left


def in_order(pairs):
    """The three of two pairs (first, then second), in order."""
    return next(three for three in permutations({one for pair in pairs for one in pair})
                if all(three.index(a) < three.index(b) for a, b in pairs))  # fmt: skip


def test_other_reasoning_worked_out_again_from_its_premises():
    name, seen = r"\b([A-Z][a-z]+)\b", set()
    for question in of_function("logical-reasoning"):
        text = question.text
        match question.template:
            case "suspects":
                right = only_left(re.findall(name, text.split(" took")[0])[1:], re.findall(f"not {name}", text))
            case "boxes":
                ruled_out = re.findall(r"not in the (\w+) box", text)
                right = f"the {only_left(('left', 'middle', 'right'), ruled_out)} box"
            case "heavier":
                order = in_order(re.findall(r"The (\w+) is heavier than the (\w+)\.", text))
                one, other = re.search(r"Is the (\w+) heavier than the (\w+)\?", text).groups()
                right = "yes" if order.index(one) < order.index(other) else "no"
            case "arrival":
                pairs = [(a, b) if how == "before" else (b, a)
                         for a, how, b in re.findall(f"{name} arrived (before|after) {name}", text)]  # fmt: skip
                right = in_order(pairs)[0 if "first?" in text else -1]
            case "bench":
                order = in_order(re.findall(f"{name} sits to the left of {name}", text))
                right = order[["far left?", "the middle?", "far right?"].index(re.search(r"\w+ \w+\?", text)[0])]
            case "as-many":
                found = re.findall(f"{name} has (as many|more|fewer) coins (?:as|than) {name}", text)
                people = sorted({person for a, _, b in found for person in (a, b)})
                holds = {"as many": eq, "more": gt, "fewer": lt}
                counts = [dict(zip(people, coins, strict=True)) for coins in product(range(3), repeat=3)]
                counts = [coins for coins in counts if all(holds[how](coins[a], coins[b]) for a, how, b in found)]
                (right,) = {(max if "most" in text else min)(people, key=coins.get) for coins in counts}
            case _:
                continue
        assert right == question.answer, question
        seen.add(question.template)
    assert len(seen) == 6


def test_decisions_by_one_number_worked_out_again_from_their_texts():
    best = {"largest-house": max, "first-free": min, "most-valuable": max, "lightest": min}
    said = r"(?:The house in|Doctor|The)? ?\b([\w']+) (?:bag )?(?:has|is free in|is worth|weighs) (\d+)"
    seen = set()
    for question in of_function("decision-making"):
        if question.template == "back-in-time":
            most = int(re.search(r"back in (\d+) minutes", question.text)[1])
            walks = re.findall(r"The (\w+) is a walk of (\d+) minutes", question.text)
            (right,) = [f"the {spot}" for spot, minutes in walks if int(minutes) <= most]
        elif question.template in best:
            found = {option: int(number) for option, number in re.findall(said, question.text)}
            assert len(found) == len(options_of(question)), question
            right = best[question.template](found, key=found.__getitem__)
        else:
            continue
        assert question.answer.removeprefix("the ") == right.removeprefix("the "), question
        seen.add(question.template)
    assert len(seen) == 5


def test_decisions_about_numbers_worked_out_again_from_their_texts():
    seen = set()
    for question in of_function("decision-making"):
        number = r"(?<!dollars )\b(\w+) (?:costs|takes|is|offers|has space for) (\d+) (?:dollars|minutes|people)"
        found = {f"the {name}" if name.islower() else name: int(n) for name, n in re.findall(number, question.text)}
        need = re.search(r"(?:have|for) (\d+)", question.text)
        match question.template:
            case "cheapest" | "soonest" | "nearest":
                right = [min(found, key=found.__getitem__)]
            case "best-offer":
                right = [max(found, key=found.__getitem__)]
            case "budget":
                right = [name for name, price in found.items() if price <= int(need[1])]
            case "enough-room":
                right = [name for name, space in found.items() if space >= int(need[1])]
            case "soonest-in-budget":
                minutes = dict(re.findall(r"The (\w+) costs \d+ dollars and takes (\d+) minutes", question.text))
                within = [name for name, price in found.items() if price <= int(need[1])]
                assert len(within) == 2
                right = [min(within, key=lambda name: int(minutes[name.removeprefix("the ")]))]
            case _:
                continue
        assert right == [question.answer], question
        seen.add(question.template)
    assert len(seen) == 7
