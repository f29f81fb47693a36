"""The same question with other seeds: one curve from all of them, and an interval that holds how far they differ."""

from dataclasses import replace

import numpy as np
import pytest

import headcount as hc
from curves_by_hand import curve_of
from headcount.sweeps.resampling import ends_of

KS = range(0, 101)


def rising(k, model="m", prompts=4, apart=0.0, seed=0, ks=KS):
    """A curve that rises evenly to the whole effect with k heads, or about so many from prompt to prompt."""
    at = k * np.exp(apart * np.random.default_rng(seed).standard_normal((prompts, 1)))
    return curve_of(10 * np.minimum(np.array(ks) / at, 1), ks, model=model)


def test_units_needed_are_those_of_the_mean_curve():
    """k/10, k/20 and k/40, each up to 1: their mean is (2 + k/40) / 3 from 20 on, and 0.9 at 28."""
    repeats = hc.Repeats(tuple(map(rising, (10, 20, 40))))
    needed = repeats.units_needed(0.9)
    assert (needed.value, needed.each, needed.span) == (28, (9, 18, 36), (9, 36))
    assert repeats.pooled.band().value[28] == pytest.approx((2 + 28 / 40) / 3)
    assert needed.low < needed.value < needed.high
    assert str(needed).endswith("9 to 36 in 3 repeats")


def test_a_lucky_crossing_of_one_repeat_is_not_the_answer():
    """One touches the threshold at 3 and falls back, one jumps past it and comes back at 60; the mean of all is there
    from 20 on."""
    lucky, jumping = rising(20), rising(20)
    lucky.values["logit_diff"][:, 3] = 9.5
    jumping.values["logit_diff"][:, 10:60] = 11.5
    assert (lucky.first_k(0.9), jumping.first_k(0.9)) == (3, 60)
    assert 15 <= hc.Repeats((lucky, jumping, rising(20), rising(20), rising(20))).units_needed(0.9).value <= 18


def test_the_mean_may_be_faithful_before_any_repeat_is():
    """One does too much from 4 to 7, the other too little: together they are right at 4, each alone at 8."""
    over, under = (curve_of([[0, 0, 0, 0, *[at] * 4, 10]] * 4, range(9)) for at in (13, 7))
    needed = hc.Repeats((over, under)).units_needed(0.9)
    assert (needed.value, needed.each) == (4, (8, 8))
    assert "Each repeat alone takes more (8): in the mean of all, too much in one makes up for" in str(needed)


def test_between_its_own_points_a_curve_is_straight():
    fine, coarse = rising(20), rising(20, ks=(0, 10, 20, 100))
    pooled = hc.Repeats((fine, coarse)).pooled
    assert pooled.ks == fine.ks
    np.testing.assert_allclose(pooled.band().value, fine.band().value)
    assert pooled.pairs == fine.pairs + coarse.pairs


def test_points_that_were_measured_later_join_a_curve():
    whole = rising(20, apart=0.3)
    said = {"said": np.arange(101 * 4.0).reshape(101, 4)}
    first, later = (
        replace(
            curve_of(whole.values["logit_diff"][0, list(ks)].T, ks), said={"said": said["said"][list(ks)]}, words=words
        )
        for ks, words in (((0, 10, 100), {"1": " a"}), ((0, 5, 60, 100), {"2": " b"}))
    )
    joined = first.joined(later)
    assert joined.ks == (0, 5, 10, 60, 100)
    np.testing.assert_array_equal(joined.values["logit_diff"], whole.values["logit_diff"][:, list(joined.ks)])
    np.testing.assert_array_equal(joined.said["said"], said["said"][list(joined.ks)])
    assert joined.words == {"1": " a", "2": " b"}


def test_the_interval_of_the_mean_curve_is_students_over_repeats():
    curves = tuple(map(rising, (11, 14, 17, 20, 26)))
    low, high = np.quantile(hc.Repeats(curves).pooled._samples("explained_effect", 0.9)[:, 10], ends_of(0.9))
    each = np.array([curve.band().value[10] for curve in curves])
    assert (high - low) / 2 == pytest.approx(2.132 * each.std(ddof=1) / np.sqrt(5), rel=0.1)


def test_repeats_that_agree_by_luck_still_have_the_noise_of_their_prompts():
    curve = rising(20, prompts=20, apart=0.5)
    needed, alone = hc.Repeats((curve, curve, curve)).units_needed(0.9), curve.units_needed(0.9)
    assert needed.value == alone.value
    assert alone.low <= needed.low < needed.value < needed.high <= alone.high


def test_a_resampling_that_passes_the_range_between_two_points_was_in_it():
    """Fine around 20, where the mean is near the whole effect, and coarse behind it, where the lower resamplings are:
    they go from below 0.9 to beyond 1.1 between two points, and come back only at the end."""
    ks = (0, 10, 19, 20, 21, 60, 99, 100)
    mean = np.array([0, 4, 8.8, 9.1, 9.2, 15, 15, 10])
    prompts = mean * (1 + 0.35 * np.random.default_rng(0).standard_normal((40, 1)))
    prompts[:, [0, -1]] = mean[[0, -1]]
    needed = curve_of(prompts, ks).units_needed(0.9)
    assert needed.high in (21, 60)


def test_one_curve_has_its_own_interval():
    curve = rising(20, prompts=20, apart=0.5)
    alone, again = curve.units_needed(0.9), hc.Repeats((curve,)).units_needed(0.9)
    assert replace(again, each=()) == alone


def test_a_repeat_that_never_gets_there_counts_as_it_is():
    flat = curve_of([[0.0, *[8.5] * 99, 10.0]] * 4, KS)
    needed = hc.Repeats((rising(10), rising(20), rising(20), flat)).units_needed()
    assert needed.each == (9, 18, 18, 100)
    assert 9 < needed.value <= 20


def test_ratios_are_between_pooled_curves_with_an_interval_over_repeats():
    dense = hc.Repeats(tuple(rising(k, "dense") for k in (40, 20, 80, 40)))
    sparse = hc.Repeats(tuple(rising(k, "sparse") for k in (20, 10, 10, 10)))
    wanted = dense.units_needed().value, sparse.units_needed().value
    for pair in ((dense, sparse), (sparse, dense)):
        ratio = hc.compare_repeats(*pair)
        assert (ratio.more, ratio.more_units, ratio.fewer_units) == ("dense", *wanted)
        assert 1 < ratio.low < ratio.value < ratio.high
    single = [hc.Repeats(side.curves[:1]) for side in (dense, sparse)]
    assert hc.compare_repeats(*single) == hc.compare(dense.curves[0], sparse.curves[0])


def test_repeats_are_of_one_question():
    with pytest.raises(hc.HeadcountError, match="one has the model 'm' and the next 'other'"):
        hc.Repeats((rising(3), rising(3, "other")))
    with pytest.raises(hc.HeadcountError, match="at least one curve"):
        hc.Repeats(())


def test_a_resampling_of_repeats_that_jumps_at_one_head_does_not_need_all_of_them():
    """Each repeat goes past the range at a head of its own, so that the mean of many would rise evenly; that of four is
    within it at 12, while many of its resamplings go from too little to too much at once."""
    jumping = tuple(curve_of([[0] * at + [13] * (30 - at) + [10]] * 4, range(31)) for at in (9, 10, 12, 14))
    needed = hc.Repeats(jumping).units_needed(0.9)
    assert needed.value == 12
    assert 12 < needed.high <= 14
    assert hc.Repeats(jumping).pooled.units_needed(0.9).high == 30, "as a single ranking would have it"


NEAR_AN_END = {
    "kl": ([0.0, 0.01, 0.4], "low", 0.0),
    "log_prob": ([-0.01, -0.5, -0.02], "high", 0.0),
    "log_prob_per_token": ([-0.01, -0.5, -0.02], "high", 0.0),
    "prob_diff": ([-0.99, -0.2, -1.0], "low", -1.0),
    "accuracy": ([1.0, 0.75, 1.0], "high", 1.0),
    "accuracy_change": ([-1.0, -0.75, -0.2], "low", -1.0),
}
"""Means of three repeats, and the end that their interval would pass."""


@pytest.mark.parametrize("metric", NEAR_AN_END)
def test_no_interval_goes_beyond_what_a_metric_can_be(metric):
    means, end, bound = NEAR_AN_END[metric]
    plain = [rising(20, ks=(0, 50, 100)) for _ in means]
    curves = [
        replace(c, values={**c.values, metric: np.full((1, 3, 4), mean)}) for c, mean in zip(plain, means, strict=True)
    ]
    pooled = hc.Repeats(tuple(curves)).pooled
    free = replace(pooled, values={**pooled.values, "unbounded": pooled.values[metric]}).band("unbounded")
    assert (free.low < bound if end == "low" else free.high > bound).all(), "it would pass it"
    band = pooled.band(metric)
    assert (getattr(band, end) == bound).all()
    other = "high" if end == "low" else "low"
    np.testing.assert_array_equal(getattr(band, other), getattr(free, other))
    assert all(row["low"] <= row["value"] <= row["high"] for row in pooled.rows())
