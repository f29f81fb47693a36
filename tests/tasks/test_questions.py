"""The built-in questions: counts, splits by template, balance."""

import re
from collections import Counter
from itertools import combinations

import pytest

from asked_questions import ALL, SEEDS, SIDES, of_function, options_of, sides_of, words_of
from headcount.tasks.questions import FUNCTIONS, questions
from headcount.tasks.questions.built_in import SPLITS, Story, Table, all_templates, all_words, pool

TEMPLATES = all_templates()
WORDS, WORDS_OF_ONE_SPLIT = all_words()["dealt-out"], all_words()["of-one-split"]


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
