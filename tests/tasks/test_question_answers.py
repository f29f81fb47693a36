"""The answers of the built-in questions, worked out again from their texts."""

import re
from collections import Counter
from itertools import permutations, product
from operator import eq, gt, lt

from asked_questions import of_function, options_of
from headcount.tasks.questions.built_in import number_word, pool

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
