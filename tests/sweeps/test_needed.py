"""How many units: reached or faithful, at first or from there on, how close prompt by prompt, and on other prompts."""

from dataclasses import replace

import numpy as np
import pytest

import headcount as hc
from curves_by_hand import curve_of
from families import random_task, tiny
from headcount.sweeps.sweep import points_around

TASK = random_task(8)


# ---------------------------------------------------------------------------------------------------------------------
# Reached and faithful


def test_units_needed_is_the_first_k_that_is_faithful():
    curve = curve_of([[0, 9.1, 5, 10]], [0, 3, 6, 9])
    needed = curve.units_needed(0.9)
    assert (needed.value, needed.low, needed.high) == (3, 3, 3)
    assert str(needed) == "3 heads, 90 % interval 3 to 3"
    assert curve.units_needed(0.95).value == 9


def test_an_order_that_overshoots_has_reached_before_it_is_faithful():
    curve = curve_of([[0, 9.5, 23, 14, 10.5, 10]], [0, 30, 31, 100, 200, 336])
    assert curve.units_needed(0.96, aim="reached").value == 31
    assert curve.units_needed(0.94).value == 30, "within 0.06 of the whole model on the way up"
    assert curve.units_needed(0.95).stays == 200
    overshoot = curve_of([[0, 5, 23, 14, 10.5, 10]], [0, 30, 31, 100, 200, 336])
    reached, faithful = (overshoot.units_needed(0.9, aim=aim) for aim in ("reached", "faithful"))
    assert (reached.value, faithful.value) == (31, 200)
    assert (reached.stays, faithful.stays) == (31, 200)


def curve_that_goes_astray(mode="keep", kl=(7.5, 20, 12, 0.2, 0)):
    curve = curve_of([[0, 9, 4, 9.5, 10], [0, 9.2, 5, 9.6, 10]], [0, 3, 6, 8, 9], mode=mode)
    return replace(curve, values={**curve.values, "kl": np.broadcast_to(np.array(kl)[None, :, None], (1, 5, 2))})


def test_a_model_that_says_something_else_altogether_is_not_faithful():
    """With three heads two answers are as far apart as in the whole model, and the next token is further from that of
    the whole model than with no head at all."""
    needed = curve_that_goes_astray().units_needed(0.9)
    assert (needed.value, needed.low, needed.high, needed.stays) == (8, 8, 8, 8)
    assert curve_that_goes_astray().first_k(0.9) == 8
    assert (curve_that_goes_astray().crossings(0.9, None) == 8).all()


def test_going_astray_forbids_neither_to_reach_nor_what_comes_nearer_than_nothing():
    assert curve_that_goes_astray().units_needed(0.9, aim="reached").value == 3
    assert curve_that_goes_astray(kl=(7.5, 7.4, 7, 0.2, 0)).units_needed(0.9).value == 3
    assert curve_of([[0, 9, 4, 9.5, 10]], [0, 3, 6, 8, 9]).units_needed(0.9).value == 3, "no divergence was measured"


def test_masking_asks_for_the_effect_to_go_wherever_the_model_goes():
    curve = curve_that_goes_astray("mask", kl=(0, 0.2, 12, 20, 7.5))
    assert (
        curve.units_needed(0.9).value
        == curve_of([[0, 9, 4, 9.5, 10], [0, 9.2, 5, 9.6, 10]], [0, 3, 6, 8, 9], "mask").units_needed(0.9).value
    )


def test_faithful_never_comes_before_reached():
    rng = np.random.default_rng(0)
    for _ in range(20):
        curve = curve_of(np.cumsum(rng.normal(1, 2, (5, 30)), axis=1), range(30))
        reached, faithful = (curve.units_needed(0.9, aim=aim).value or np.inf for aim in ("reached", "faithful"))
        assert reached <= faithful


def test_stays_is_the_k_from_which_no_larger_k_falls_back():
    needed = curve_of([[0, 9.1, 5, 9.5, 10]], [0, 3, 6, 8, 9]).units_needed(0.9)
    assert (needed.value, needed.stays) == (3, 8)


def test_masking_needs_as_many_heads_as_take_the_effect_away():
    curve = curve_of([[10, 6, 0.5, 0]], [0, 1, 2, 3], mode="mask")
    assert curve.units_needed(0.9).value == 2
    np.testing.assert_allclose(curve.band().value, [1, 0.6, 0.05, 0])


def test_masking_that_turns_a_behaviour_round_has_taken_it_away_but_is_not_faithful():
    curve = curve_of([[10, 6, -4, 0.5, 0]], [0, 1, 2, 3, 4], mode="mask")
    assert curve.units_needed(0.9, aim="reached").value == 2
    assert curve.units_needed(0.9, aim="faithful").value == 3


def test_a_threshold_outside_its_range_is_refused():
    with pytest.raises(hc.HeadcountError, match="above 0 and not above 1; got 1.2"):
        curve_of([[0, 1]], [0, 1]).units_needed(1.2)


def test_a_task_without_an_effect_is_never_explained():
    needed = curve_of([[1, 1, 1]], [0, 1, 2]).units_needed()
    assert str(needed) == "not reached with all 2 heads"
    assert needed.stays is None


# ---------------------------------------------------------------------------------------------------------------------
# Intervals


def test_the_interval_of_units_needed_comes_from_resampled_pairs():
    """Half of the pairs are there with 1 head, the other half with 2 only: the sample decides."""
    curve = curve_of([[0, 10, 10]] * 5 + [[0, 8, 10]] * 5, [0, 1, 2])
    needed = curve.units_needed(0.9)
    assert (needed.value, needed.low, needed.high) == (1, 1, 2)
    band = curve.band()
    assert band.low[1] < 0.9 < band.high[1]
    assert (band.low[0], band.high[0], band.low[2], band.high[2]) == (0, 0, 1, 1)


def test_the_interval_holds_every_k_that_explained_effect_may_reach_the_threshold_at():
    """Prompts differ so much that 0.9 may be reached from the second k on, and is surely with the third."""
    curve = curve_of([[0, 2, 6, 9.6, 10], [0, 2, 11, 10, 10]] * 6, [0, 5, 10, 15, 20])
    band, needed = curve.band(), curve.units_needed(0.9)
    assert band.high[1] < 0.9 <= band.high[2]
    assert band.low[2] < 0.9 <= band.low[3]
    assert (needed.value, needed.low, needed.high) == (15, 10, 15)


def test_where_some_prompts_may_jump_over_the_range_the_interval_goes_to_where_they_come_back():
    """With one head explained effect is 1.08, give or take: faithful, or already beyond. No number of heads lies
    between it and none, at which those prompts could have been within the range."""
    curve = curve_of([[0, 9.8, 14, 10], [0, 11.8, 14, 10]] * 5, [0, 1, 10, 20])
    needed = curve.units_needed(0.9)
    assert (needed.value, needed.low, needed.high) == (1, 1, 20)
    assert curve.units_needed(0.9, aim="reached").high == 1


# ---------------------------------------------------------------------------------------------------------------------
# Prompt by prompt, and on other prompts


def test_closeness_is_the_distance_from_the_whole_model_in_mean_effects():
    """Two prompts of a mean effect of 5; with one head the first has 3 too few, the second 3 too many: on the mean
    nothing is missing."""
    curve = curve_of([[0, 5, 8], [0, 5, 2]], [0, 1, 2])
    assert curve.band().value[1] == 1
    close = curve.closeness(1)
    assert (close.distance, close.near, close.kl) == (pytest.approx(3 / 5), 0.0, None)
    assert curve.closeness(2).distance == 0
    assert curve.closeness(2).near == 1


def test_a_prompt_that_the_whole_model_fails_does_not_blow_up_closeness():
    """Its own effect is nothing: shares of it would be infinite."""
    curve = curve_of([[0, 10, 10], [0, 10, 10], [0, 0.1, 0]], [0, 1, 2])
    assert curve.closeness(1).distance == pytest.approx(0.1 / 3 / (20 / 3))
    assert curve.closeness(1).near == 1


def test_closeness_is_told_of_measured_k_alone():
    with pytest.raises(hc.HeadcountError, match="3 was not. The nearest one is 2"):
        curve_of([[0, 1, 2]], [0, 1, 2]).closeness(3)


def test_divergence_is_part_of_closeness_where_it_was_measured():
    model = tiny("llama-gqa")
    curve = hc.sweep(model, TASK, hc.score(model, TASK, "attribution"), ks=[6], threshold=0)
    assert curve.closeness(6).kl == pytest.approx(curve.values["kl"][0, 1].mean())
    assert curve.closeness(12).kl == pytest.approx(0, abs=1e-6)


def test_what_is_confirmed_was_chosen_on_other_prompts():
    """Every other prompt is there with 1 head, those between explain 0.7 with it, give or take."""
    curve = curve_of([[0, 10, 10], [0, 7.5, 10], [0, 10, 10], [0, 6.5, 10]] * 3, [0, 1, 2])
    found = curve.confirmed(0.9)
    assert found.k == 1
    assert found.value == pytest.approx(0.7)
    assert 0.6 < found.low < 0.7 < found.high < 0.8
    words = f"1 head, chosen on other prompts, explain 0.70 of the effect, {found.low:.2f} to {found.high:.2f}"
    assert str(found) == words


def test_prompts_of_one_template_choose_or_confirm_together():
    groups = tuple("aabbccdd")
    curve = curve_of([[0, 10, 10]] * 2 + [[0, 6, 10]] * 2 + [[0, 10, 10]] * 2 + [[0, 8, 10]] * 2, [0, 1, 2])
    grouped = hc.Curve(**{**vars(curve), "groups": groups})
    assert grouped.confirmed(0.9).k == 1
    assert grouped.confirmed(0.9).value == pytest.approx(0.7)


def test_few_prompts_confirm_nothing():
    assert curve_of([[0, 10]] * 3, [0, 1]).confirmed() is None
    assert curve_of([[0, 10]] * 4, [0, 1]).confirmed() is not None


# ---------------------------------------------------------------------------------------------------------------------
# Points that a sweep adds


def test_points_are_added_where_a_curve_is_reached_and_then_where_it_is_faithful():
    coarse = curve_of([[0, 5, 23, 14, 10.5, 10]], [0, 30, 60, 100, 200, 336])
    assert all(30 < k < 60 for k in points_around(coarse, 0.9, 0.0, at_once=6)), "the k between may be faithful"
    jumping = curve_of([[0, 5, 23, 14, 10.5, 10]], [0, 30, 31, 100, 200, 336])
    assert all(100 < k < 200 for k in points_around(jumping, 0.9, 0.0, at_once=6)), "no k between is"
    assert points_around(jumping, 0.9, 0.6, at_once=6) == [], "as close as asked for"
    known = curve_of([[0, 5, 23, 14, 10.5, 10]], [0, 30, 31, 199, 200, 336])
    assert points_around(known, 0.9, 0.0, at_once=6) == []


def test_a_jump_past_the_range_is_followed_to_one_unit_whatever_the_precision():
    rising, jumping = (curve_of([[0, 8, at, 10]], [0, 100, 110, 1000]) for at in (9.5, 12))
    assert points_around(rising, 0.9, 0.1, at_once=3) == []
    assert points_around(jumping, 0.9, 0.1, at_once=3) == [102, 105, 108]


@pytest.mark.parametrize("order", ["absolute", "signed"])
def test_both_crossings_are_found_to_one_head(order):
    model = tiny("llama-gqa")
    curve = hc.sweep(model, TASK, hc.score(model, TASK, "patching"), keep=order, ks=[6])
    explained = dict(zip(curve.ks, curve.band().value, strict=True))
    reached, faithful = (curve.units_needed(0.9, aim=aim).value for aim in ("reached", "faithful"))
    assert explained[reached - 1] < 0.9 <= explained[reached]
    assert abs(1 - explained[faithful - 1]) > 0.1 >= abs(1 - explained[faithful])
