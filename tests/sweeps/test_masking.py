"""Masked answers: who is masked, controls that never touch the top heads, and curves that say what was written."""

import numpy as np
import pytest
import torch

import headcount as hc
from headcount.meters.answers import ask
from headcount.meters.generation import Cuts
from headcount.rank.scores import HeadScores
from headcount.sweeps.masking import (
    FILL,
    MaskedAnswers,
    generation_filling,
    mask_answers,
    masked_curve,
    masked_heads,
    masked_ks,
)
from headcount.sweeps.steering import Steering, directions, steer
from headcount.tasks.questions import Question, of_function
from planted_copying import COPYING, planted, planted_questions

HEADS_A_LAYER, LAYERS = 9, 30
TWO = {"heads": 2, "max_new_tokens": 3}
RANKED = np.random.default_rng(1).permutation(HEADS_A_LAYER * LAYERS)


def of_retrieval(side):
    return [side[place] for place in of_function(side, "retrieval")]


@pytest.fixture
def asked():
    return of_retrieval(planted_questions().test)


@pytest.fixture
def scores():
    """The heads that copy first, then the others."""
    values = np.linspace(0.1, 0.2, 8).reshape(2, 4)
    for head in COPYING:
        values[head] = -1 - head[1] / 10
    return HeadScores("planted", "retrieval", "probe", "importance", values[None], "seeds")


# Which heads


def test_the_default_is_the_published_numbers_for_a_thousand_heads_and_the_same_shares_for_others():
    assert masked_ks(1024) == (16, 32, 64, 128)
    assert masked_ks(270) == (4, 8, 17, 34)
    assert masked_ks(8) == (1,)


def test_numbers_asked_for_are_sorted_and_counted_once():
    assert masked_ks(270, (64, 16, 64)) == (16, 64)


@pytest.mark.parametrize("order", ["chance", "chance-matched"])
def test_random_heads_are_never_among_the_top_and_as_many(order):
    ks = (4, 34, 135)
    for seed in range(5):
        for draw in masked_heads(RANKED, HEADS_A_LAYER, order, ks, 10, seed):
            for k, heads in zip(ks, draw, strict=True):
                assert len(set(heads.tolist())) == len(heads) == k
                assert not set(heads.tolist()) & set(RANKED[:k].tolist())


def test_draws_differ_and_the_same_seed_repeats_them():
    one, other = (masked_heads(RANKED, HEADS_A_LAYER, "chance", (17,), 10, 0) for _ in range(2))
    assert [draw[0].tolist() for draw in one] == [draw[0].tolist() for draw in other]
    assert len({tuple(sorted(draw[0].tolist())) for draw in one}) == 10
    assert one[0][0].tolist() != masked_heads(RANKED, HEADS_A_LAYER, "chance", (17,), 1, 1)[0][0].tolist()


def test_every_head_outside_the_top_is_drawn_about_equally_often():
    counts = np.zeros(12)
    for draw in masked_heads(np.arange(12), 4, "chance", (3,), 3000, 0):
        counts[draw[0]] += 1
    assert (counts[:3] == 0).all()
    assert counts[3:] == pytest.approx(3000 * 3 / 9, rel=0.12)


def test_matched_draws_have_as_many_heads_of_each_layer_as_the_top():
    for draw in masked_heads(RANKED, HEADS_A_LAYER, "chance-matched", (17, 34), 10, 0):
        for k, heads in zip((17, 34), draw, strict=True):
            counts = [np.bincount(side // HEADS_A_LAYER, minlength=LAYERS) for side in (heads, RANKED[:k])]
            np.testing.assert_array_equal(*counts)


def test_where_a_layer_has_too_few_heads_left_the_nearest_layer_lends_some():
    ranked = np.array([0, 1, 2, 4, 8, 3, 5, 6, 7, 9, 10, 11])  # three of the four heads of layer 0 are in the top
    for draw in masked_heads(ranked, 4, "chance-matched", (5,), 20, 0):
        layers = sorted(draw[0] // 4)
        assert layers in ([0, 1, 1, 1, 2], [0, 1, 1, 2, 2])


def test_too_many_heads_to_leave_others_to_draw_from_are_refused():
    assert masked_ks(270, (135,)) == (135,)
    with pytest.raises(hc.HeadcountError, match="top 136 of 270 heads set aside, 134 are left.*at most 135"):
        masked_ks(270, (16, 136))
    with pytest.raises(hc.HeadcountError, match="at least 1"):
        masked_ks(270, (0,))


def test_fills_that_need_another_prompt_are_refused():
    assert generation_filling("zero").scale == 0
    assert generation_filling(FILL).scale == 0.001
    with pytest.raises(hc.HeadcountError, match="zero or scale\\(eps\\); got mean"):
        generation_filling("mean")


# What is written


def test_masking_the_heads_that_copy_takes_the_answers_away_and_masking_others_does_not(asked, scores):
    model = planted()
    top = mask_answers(model, asked, scores, "absolute", ks=(2,), max_new_tokens=3)
    assert top.heads == [[[7, 5]]]
    assert not any(text == question.answer for text, question in zip(top.texts[0][0], asked, strict=True))
    for order in ("chance", "chance-matched"):
        random = mask_answers(model, asked, scores, order, ks=(2,), draws=4, max_new_tokens=3)
        for draw in random.texts:
            assert draw[0] == [question.answer for question in asked]


def test_masked_answers_are_those_of_a_cut_by_hand(asked, scores):
    model = planted()
    found = mask_answers(model, asked, scores, "chance", ks=(1, 3), draws=2, fill="zero", max_new_tokens=3)
    for draw in range(2):
        for place in range(2):
            keep = torch.ones(8, dtype=torch.bool)
            keep[found.heads[draw][place]] = False
            by_hand = ask(model, asked, Cuts(keep.view(1, 2, 4)), max_new_tokens=3)
            assert by_hand.texts[0] == found.texts[draw][place]


def test_the_curve_has_every_answer_of_every_draw_in_its_place(asked, scores):
    model = planted()
    whole = ask(model, asked, max_new_tokens=3).texts[0]
    texts = [[[question.answer if (draw + k + place) % 2 else "wrong" for place, question in enumerate(asked)]
              for k in range(2)] for draw in range(3)]  # fmt: skip
    made = MaskedAnswers("chance", (1, 2), FILL, "generated", [[[0], [0, 1]]] * 3, texts)
    curve, missing = masked_curve(model, asked, scores, made, whole)
    assert not missing
    assert curve.values["accepted"].shape == (3, 2, len(asked))
    for draw, k, place in np.ndindex(3, 2, len(asked)):
        assert curve.values["accepted"][draw, k, place] == (draw + k + place) % 2
    assert curve.whole["accepted"] == 1
    assert "explained_effect" not in curve.metrics


def test_an_unknown_order_or_no_draw_is_refused(asked, scores):
    with pytest.raises(hc.HeadcountError, match="draws is 0"):
        mask_answers(planted(), asked, scores, "chance", draws=0)
    with pytest.raises(hc.HeadcountError, match="no order 'bottom'.*chance-matched"):
        mask_answers(planted(), asked, scores, "bottom")


def test_scores_of_another_model_are_refused(asked):
    other = HeadScores("m", "retrieval", "probe", "x", np.zeros((1, 3, 4)))
    with pytest.raises(hc.HeadcountError, match="scores are of 12 heads, but planted has 8"):
        mask_answers(planted(), asked, other, "absolute")


def test_masked_answers_are_the_same_after_saving(asked, scores, tmp_path):
    made = mask_answers(planted(), asked, scores, "chance", ks=(1,), draws=2, max_new_tokens=3)
    made.save(tmp_path)
    assert MaskedAnswers.load(tmp_path) == made


# Pushing


def test_a_direction_points_from_wrong_to_right_and_is_one_standard_deviation_long():
    rng = torch.Generator().manual_seed(0)
    values = torch.randn(400, 1, 1, 3, generator=rng)
    right = np.arange(400) % 2 == 0
    values[torch.from_numpy(right), 0, 0, 1] += 6
    found = directions(values, right)[0, 0]
    unit = found / found.norm()
    assert unit[1] > 0.99
    assert found.norm().item() == pytest.approx((values[:, 0, 0] @ unit).std().item(), rel=1e-5)


def test_too_few_right_or_wrong_answers_make_no_direction():
    with pytest.raises(hc.HeadcountError, match="at least 3 of each, and the model has 2 right and 8 wrong"):
        directions(torch.randn(10, 1, 1, 2), np.arange(10) < 2)


def test_a_push_along_what_is_missing_brings_right_answers(scores):
    """The model says d0 where no value stands in the prompt; pushed along v3 it says v3, at random it does not."""
    model = planted()
    plain = [q.text for q in planted_questions().test if q.function == "knowledge-recall"]
    wanted = [Question("retrieval", "t", text, "v3") for text in plain]
    toward = torch.zeros(2, 4, 16)
    for layer, head in COPYING:
        toward[layer, head, 3] = 1.0
    found = steer(
        model, wanted[:10], wanted[10:], scores, toward, heads=2, alphas=(0.01, 5.0), draws=6, max_new_tokens=3
    )
    assert found.alphas == (0.0, 0.01, 5.0)
    assert found.test.mean(1).tolist() == [0, 0, 1]
    assert found.alphas[found.chosen] == 5
    assert found.gain()[0] == 1
    assert found.control.mean() < 0.5
    assert found.test.shape == (3, 10)


def test_where_no_push_helps_none_is_chosen(asked, scores):
    found = steer(
        planted(), asked[:5], asked[5:], scores, torch.zeros(2, 4, 16), heads=2, alphas=(1.0,), max_new_tokens=3
    )
    assert found.alphas[found.chosen] == 0
    assert found.gain() == (0, 0, 0)


def test_steering_is_the_same_after_saving(asked, scores, tmp_path):
    made = steer(
        planted(), asked[:3], asked[3:], scores, torch.ones(2, 4, 16), heads=1, alphas=(1.0,), max_new_tokens=3
    )
    made.save(tmp_path)
    loaded = Steering.load(tmp_path)
    for name, value in vars(made).items():
        np.testing.assert_array_equal(value, getattr(loaded, name))


def test_a_push_backwards_or_of_more_heads_than_there_are_is_refused(asked, scores):
    with pytest.raises(hc.HeadcountError, match="alpha above 0; got -1"):
        steer(planted(), asked, asked, scores, torch.zeros(2, 4, 16), heads=2, alphas=(-1.0,))
    with pytest.raises(hc.HeadcountError, match="at least one alpha"):
        steer(planted(), asked, asked, scores, torch.zeros(2, 4, 16), heads=2, alphas=())
    with pytest.raises(hc.HeadcountError, match="8 heads to push; 9"):
        steer(planted(), asked, asked, scores, torch.zeros(2, 4, 16), heads=9)
