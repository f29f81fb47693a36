"""Which heads matter for one prompt: the exact effect of removing each, with a counterfactual where one can be had."""

import numpy as np
import pytest

import headcount as hc
from families import FAMILIES, SENTENCE, with_words
from headcount.tasks.counterfactual import make_counterfactual


@pytest.mark.parametrize("family", FAMILIES)
def test_a_heads_part_is_what_the_logit_difference_falls_by_without_it(family):
    model = with_words(family)
    found = hc.explain(model, SENTENCE, " Mary", " John")
    assert found.counterfactual == "When John and Mary went to the park Mary gave the ball to"
    whole = hc.measure(model, found.task, []).of("logit_diff").value
    for layer, head in found.top(2):
        without = hc.measure(model, found.task, (layer, head)).of("logit_diff").value
        assert found.scores.values[layer, head] == pytest.approx(whole - without, abs=1e-4)


def test_rows_say_where_heads_look_the_largest_part_first():
    found = hc.explain(with_words("gpt2"), SENTENCE, " Mary", " John")
    rows = found.rows()
    assert len(rows) == 12
    sizes = [abs(row["logit_diff"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert rows[0]["looks_at"] == SENTENCE.split()[rows[0]["position"]]
    assert "made: 'Mary' and 'John' exchanged" in str(found)
    assert len(hc.plot(found).axes) == 2


def test_without_a_wrong_answer_the_log_probability_counts_and_heads_carry_zeros():
    model = with_words("gpt2")
    found = hc.explain(model, SENTENCE, " Mary")
    assert (found.fill, found.scores.metric, found.counterfactual) == ("zero", "log_prob", "")
    whole = hc.measure(model, found.task, []).of("log_prob").value
    assert np.exp(whole) == pytest.approx(found.probability, rel=1e-4)
    assert "removed heads carry zero" in str(found)


def test_answers_that_do_not_stand_in_the_prompt_are_compared_under_zeros():
    found = hc.explain(with_words("gpt2"), SENTENCE, " Anna", " Tom")
    assert (found.fill, found.scores.metric) == ("zero", "logit_diff")
    assert "'Anna' does not stand in the prompt" in found.origin


def test_the_wrong_answer_is_what_the_model_says_to_the_counterfactual():
    model, other = with_words("gpt2"), SENTENCE.replace("Mary", "Anna")
    said = hc.explain(model, SENTENCE, " Mary", counterfactual=other).wrong
    top = next(iter(hc.explain(model, other, " Mary").predictions))
    assert said == top
    with pytest.raises(hc.HeadcountError, match="nothing to compare"):
        hc.explain(model, SENTENCE, f" {said}", counterfactual=other)


def test_an_answer_of_several_tokens_is_a_target():
    model = with_words("gpt2")
    found = hc.explain(model, SENTENCE, " Mary and John")
    assert found.task.test[0].target == tuple(model.tokenizer.encode("Mary and John"))


def test_what_is_wrong_is_said():
    model = with_words("gpt2")
    with pytest.raises(hc.HeadcountError, match="equal length"):
        hc.explain(model, SENTENCE, " Mary", " John", "When Mary went to")
    with pytest.raises(hc.HeadcountError, match="scores edges"):
        hc.explain(model, SENTENCE, " Mary", " John", method="eap")
    with pytest.raises(hc.HeadcountError, match="mean-global"):
        hc.explain(model, SENTENCE, " Mary", " John", fill="mean")


@pytest.mark.parametrize(
    ("prompt", "answer", "wrong", "made"),
    [
        ("Mary met John. John saw", " Mary", " John", "John met Mary. Mary saw"),
        ("The key is 7. The key is", " 7", " 8", "The key is 8. The key is"),
        ("Marys and Mary", " Mary", " Tom", "Marys and Tom"),
        ("The tower stands in", " Paris", " Rome", None),
        ("Mary saw", " Mary", " Mary", None),
    ],
)
def test_counterfactuals_by_rule(prompt, answer, wrong, made):
    found = make_counterfactual(prompt, answer, wrong)
    assert (found and found.text) == made
