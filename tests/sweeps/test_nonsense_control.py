"""What a ranking explains of nonsense, on the scale of the real task; and scores that are shuffled."""

from dataclasses import replace

import numpy as np
import pytest

import headcount as hc
from headcount.sweeps.curve import Curve


@pytest.fixture(scope="module")
def model():
    return hc.load("tiny")


def curve(values, ks=(0, 1, 4), total=4, **facts):
    given = {"model": "m", "task": "t", "title": "T", "units": "heads", "method": "x", "order": "absolute",
             "mode": "keep", "fill": "zero", "metric": "logit_diff", "ranking": ()}  # fmt: skip
    return Curve(**{**given, **facts}, ks=ks, total=total, values={"logit_diff": np.asarray(values, dtype=float)})


def test_it_is_the_rise_of_nonsense_over_the_real_effect():
    real = curve([[[0, 2], [1, 1], [4, 6]]])
    nonsense = curve([[[1, 0], [2, 1], [0, 0]]])
    assert hc.control(real, nonsense, 1).value == pytest.approx(1 / 4)
    assert hc.control(real, nonsense, 0) == (0, 0, 0)
    assert hc.control(real, nonsense, 4).value == pytest.approx(-0.5 / 4)


def test_masking_it_begins_with_everything_masked():
    real = curve([[[4, 6], [1, 1], [0, 2]]], mode="mask")
    nonsense = curve([[[0, 0], [2, 1], [1, 0]]], mode="mask")
    assert hc.control(real, nonsense, 1).value == pytest.approx(1 / 4)


def test_prompts_are_resampled_together():
    """Where nonsense moves every prompt by a tenth of its real effect, no resampling says anything else."""
    rng = np.random.default_rng(0)
    effect = rng.uniform(1, 9, 50)
    real = curve([[effect * 0, effect, effect]])
    low, high = hc.control(real, curve([[effect * 0, effect / 10, effect * 0]]), 1)[1:]
    assert (low, high) == (pytest.approx(0.1), pytest.approx(0.1))
    value, low, high = hc.control(real, curve([[effect * 0, rng.normal(size=50), effect * 0]]), 1)
    assert low < value < high


def test_of_a_chance_order_the_mean_over_its_draws_counts():
    real = curve([[[0, 0], [1, 1], [4, 4]]])
    assert hc.control(real, curve([[[0, 0], [2, 2], [0, 0]], [[0, 0], [0, 0], [0, 0]]]), 1).value == pytest.approx(0.25)


def test_what_was_not_measured_alike_is_refused():
    real, nonsense = curve([[[0, 2], [1, 1], [4, 6]]]), curve([[[1, 0], [2, 1], [0, 0]]])
    with pytest.raises(hc.HeadcountError, match=r"not measured at k = 3, only at 0, 1, 4. Add ks=\[3\]"):
        hc.control(real, nonsense, 3)
    with pytest.raises(hc.HeadcountError, match="differ in fill, metric"):
        hc.control(real, replace(nonsense, fill="mean", metric="log_prob", values={"log_prob": np.zeros((1, 3, 2))}), 1)


@pytest.mark.parametrize("units", ["heads", "edges"])
def test_a_ranking_learned_on_nonsense_explains_little_of_its_test_prompts(model, units):
    """`tiny`, ioi, as many units as the real task needs."""
    method = "attribution-ig" if units == "heads" else "eap-ig"
    real = hc.task("ioi", model, n=40)
    found = hc.sweep(model, real, hc.score(model, real, method, steps=3), points=4, precision=0.5)
    k = found.units_needed(0.9).value
    nonsense = hc.nonsense(real)
    scores = hc.score(model, nonsense, method, steps=3)
    value = hc.control(found, hc.sweep(model, nonsense, scores, ks=[k], threshold=0), k).value
    assert abs(value) < 0.2


def test_shuffled_scores_are_the_same_numbers_on_other_heads(model):
    scores = hc.score(model, hc.task("ioi", model, n=8), "attribution")
    mixed = scores.shuffled(1)
    assert mixed.method == "shuffled attribution"
    np.testing.assert_array_equal(np.sort(mixed.values.ravel()), np.sort(scores.values.ravel()))
    assert not np.array_equal(mixed.values, scores.values)
    assert not np.array_equal(mixed.values, scores.shuffled(2).values)
    np.testing.assert_array_equal(mixed.values, scores.shuffled(1).values)
    # A head keeps its own examples together.
    columns = {tuple(column) for column in scores.by_pair.reshape(len(scores.by_pair), -1).T}
    assert columns == {tuple(column) for column in mixed.by_pair.reshape(len(mixed.by_pair), -1).T}


def test_shuffled_scores_of_edges_stay_on_edges(model):
    scores = hc.score(model, hc.task("ioi", model, n=8), "eap")
    mixed = scores.shuffled(1)
    assert not mixed.values[~mixed.graph.real].any()
    np.testing.assert_array_equal(np.sort(mixed.values[mixed.graph.real]), np.sort(scores.values[scores.graph.real]))
    assert not np.array_equal(mixed.values, scores.values)
