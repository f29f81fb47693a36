"""The same question with other seeds: the median answer, its range, and an interval that holds how far they differ."""

from dataclasses import replace

import numpy as np
import pytest

import headcount as hc
from curves_by_hand import curve_of
from headcount.sweeps.repeats import middle

KS = range(0, 101)


def needing(k, model="m", prompts=1, apart=0.0, seed=0):
    """A curve that is whole with more than k heads, or about so many from prompt to prompt."""
    at = k * np.exp(apart * np.random.default_rng(seed).standard_normal((prompts, 1)))
    return curve_of(np.where((np.array(KS) > at) | (np.array(KS) == 100), 10, 0), KS, model=model)


def test_units_needed_are_the_median_of_the_repeats():
    needed = hc.Repeats(tuple(map(needing, (9, 19, 39)))).units_needed(0.9)
    assert (needed.value, needed.each, needed.span) == (20, (10, 20, 40), (10, 40))
    assert str(needed).endswith("10 to 40 in 3 repeats")


def test_the_interval_is_students_on_logarithms():
    """With a factor of 2 from one to the next, and none of it from prompts: 20 · 2^(± 2.92 / √3)."""
    needed = hc.Repeats(tuple(map(needing, (9, 19, 39)))).units_needed(0.9)
    assert (needed.low, needed.high) == (int(20 / 2**1.6859), int(20 * 2**1.6859) + 1)


def test_an_interval_ends_with_all_units():
    needed = hc.Repeats(tuple(map(needing, (9, 39)))).units_needed(0.9)
    assert (needed.low, needed.high) == (1, 100), "two repeats know next to nothing"


def test_repeats_that_agree_by_luck_still_have_the_noise_of_their_prompts():
    curves = tuple(needing(20, prompts=20, apart=0.5, seed=seed) for seed in range(40))
    alike = [curve for curve in curves if curve.first_k(0.9) == curves[0].first_k(0.9)][:3]
    assert len(alike) == 3
    needed = hc.Repeats(tuple(alike)).units_needed(0.9)
    within = np.mean([np.log(curve.crossings(0.9, None)).var() for curve in alike])
    assert needed.low < needed.value < needed.high
    assert np.log(needed.high / needed.low) == pytest.approx(2 * 2.92 * np.sqrt(within / 3), abs=0.15)


def test_one_curve_has_its_own_interval():
    curve = needing(20, prompts=20, apart=0.5)
    alone, again = curve.units_needed(0.9), hc.Repeats((curve,)).units_needed(0.9)
    assert replace(again, each=()) == alone


def test_of_two_in_the_middle_the_smaller_counts_and_never_is_more_than_any():
    assert middle((4, 9, 7, 5)) == 5
    assert middle((4, None, 9)) == 9
    assert middle((None, 3, None)) is None


def test_a_repeat_that_never_gets_there_leaves_no_interval():
    never = curve_of([[0.0] * 101], KS)
    needed = hc.Repeats((needing(10), needing(20), never)).units_needed()
    assert (needed.value, needed.low, needed.high) == (21, None, None)
    assert needed.span == (11, 100)


def test_ratios_are_between_medians_with_an_interval_over_repeats():
    dense = hc.Repeats(tuple(needing(k, "dense") for k in (39, 19, 79)))
    sparse = hc.Repeats(tuple(needing(k, "sparse") for k in (19, 9, 9)))
    for pair in ((dense, sparse), (sparse, dense)):
        ratio = hc.compare_repeats(*pair)
        assert (ratio.more, ratio.more_units, ratio.fewer_units) == ("dense", 40, 10)
        logs = np.log([2, 2, 8])
        half = 2.92 * logs.std(ddof=1) / np.sqrt(3)
        assert ratio.low == pytest.approx(np.exp(logs.mean() - half), rel=1e-3)
        assert ratio.high == pytest.approx(np.exp(logs.mean() + half), rel=1e-3)
    single = [hc.Repeats(side.curves[:1]) for side in (dense, sparse)]
    assert hc.compare_repeats(*single) == hc.compare(dense.curves[0], sparse.curves[0])


def test_repeats_are_of_one_question():
    with pytest.raises(hc.HeadcountError, match="one has the model 'm' and the next 'other'"):
        hc.Repeats((needing(3), needing(3, "other")))
    with pytest.raises(hc.HeadcountError, match="at least one curve"):
        hc.Repeats(())
