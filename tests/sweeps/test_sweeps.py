"""Curves: exact ends, orders, grids, intervals, and the number of heads that they come down to."""

import numpy as np
import pytest
import torch

import headcount as hc
from curves_by_hand import curve_of
from families import FAMILIES, random_task, tiny
from headcount.edit import Filler
from headcount.meters import HeadMeter
from headcount.sweeps.orders import chance_orders, ranked_places
from headcount.sweeps.sweep import unit_grid
from headcount.sweeps.units import Heads

TASK = random_task(8)


@pytest.fixture(scope="module")
def model():
    return tiny("llama-gqa")


@pytest.fixture(scope="module")
def scores(model):
    return hc.score(model, TASK, "patching")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mode", ["keep", "mask"])
def test_all_heads_explain_exactly_everything_and_none_exactly_nothing(family, mode):
    model = tiny(family)
    curve = hc.sweep(model, TASK, hc.score(model, TASK, "attribution"), ks=[3, 7], **{mode: "absolute"})
    explained = curve.band().value
    whole, none = (-1, 0) if mode == "keep" else (0, -1)
    assert explained[whole] == 1.0
    assert explained[none] == 0.0
    assert (curve.ks[0], curve.ks[-1]) == (0, 12)


@torch.no_grad()
def test_the_ends_are_the_clean_and_the_counterfactual_run(model):
    """Prompts of a pair end in the same token, so with no head of its own the answer position is the other prompt's."""
    curve = hc.sweep(model, TASK, keep="chance", draws=1, ks=[])
    for index, pair in enumerate(TASK.test):
        for k, ids in ((0, pair.corrupt), (-1, pair.clean)):
            logits = model.logits(torch.tensor([ids]))[0, -1]
            wanted = float(logits[pair.answers[0]] - logits[pair.wrongs[0]])
            assert curve.values["logit_diff"][0, k, index] == pytest.approx(wanted, abs=1e-4)


def test_a_point_is_the_measurement_of_its_cut(model, scores):
    curve = hc.sweep(model, TASK, scores, keep="signed", ks=[5], threshold=0)
    keep = torch.zeros(1, 3, 4, dtype=torch.bool)
    for layer, head in scores.order("signed")[:5]:
        keep[0, layer, head] = True
    filler = Filler.prepare(model, "counterfactual", examples=TASK.test, reference=TASK.train)
    wanted = HeadMeter(model, TASK.test, filler).measure(keep)
    for name, values in wanted.items():
        np.testing.assert_allclose(curve.values[name][0, 1], values[0], atol=1e-5)
    assert curve.ranking[:2] == tuple(f"a{layer}.h{head}" for layer, head in scores.order("signed")[:2])


def test_masking_the_first_k_is_keeping_the_others(model, scores):
    masked = hc.sweep(model, TASK, scores, mask="absolute", ks=[4], threshold=0)
    by_hand = np.zeros((1, 3, 4))
    for layer, head in scores.order("absolute")[:4]:
        by_hand[0, layer, head] = -1  # last in the signed order
    others = hc.HeadScores("m", "t", "by hand", "logit_diff", by_hand)
    kept = hc.sweep(model, TASK, others, keep="signed", ks=[8], threshold=0)
    np.testing.assert_allclose(masked.values["logit_diff"][0, 1], kept.values["logit_diff"][0, 1], atol=1e-5)


def test_the_crossing_is_found_to_one_head(model, scores):
    every = hc.sweep(model, TASK, scores, keep="absolute", ks="all")
    coarse = hc.sweep(model, TASK, scores, keep="absolute", ks=[6])
    needed = coarse.units_needed(0.9).value
    before = coarse.ks[coarse.ks.index(needed) - 1]
    assert needed - before == 1
    assert abs(1 - every.band().value[needed]) <= 0.1 < abs(1 - every.band().value[before])


def test_chance_has_many_draws_and_its_line_is_their_mean(model):
    curve = hc.sweep(model, TASK, keep="chance", draws=7, ks=[4, 8], threshold=0)
    assert curve.values["logit_diff"].shape == (7, 4, 8)
    means = curve.values["logit_diff"].mean(2)
    explained = (means - means[:, :1]) / (means[:, -1:] - means[:, :1])
    np.testing.assert_allclose(curve.band().value, explained.mean(0))
    assert curve.ranking == ()


def test_matched_chance_takes_as_many_heads_of_each_layer(model, scores):
    ranked = scores.order("absolute")
    heads = Heads(model)
    like = ranked_places(heads.places, scores, "absolute")
    for order in chance_orders(heads.places, heads.layers, draws=5, seed=0, like=like):
        drawn = [(int(place) // 4, int(place) % 4) for place in order]
        assert [layer for layer, _ in drawn] == [layer for layer, _ in ranked]
        assert sorted(drawn) == sorted(ranked)
        assert drawn != ranked


def test_grids():
    assert unit_grid("heads", 12, "all", 5) == list(range(13))
    assert unit_grid("heads", 12, [3, 3, 12], 5) == [0, 3, 12]
    assert unit_grid("heads", 12, [], 5) == [0, 12]
    assert unit_grid("heads", 270, "linear", 4) == [0, 90, 180, 270]
    assert unit_grid("heads", 100, "quadratic", 6) == [0, 4, 16, 36, 64, 100]
    log = unit_grid("heads", 270, "log", 12)
    assert (log[:3], log[-1], len(log)) == ([0, 1, 2], 270, 12)
    assert unit_grid("heads", 4, "log", 50) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"keep": "absolute", "ks": [13]}, "between 0 and the model's 12 heads; 13 does not"),
        ({"keep": "absolute", "ks": [-1]}, "-1 does not"),
        ({"keep": "absolute", "ks": "logg"}, "no grid 'logg'"),
        ({"keep": "absolut"}, "no order 'absolut'. Did you mean 'absolute'"),
        ({"keep": "top", "mask": "top"}, "not both"),
        ({"keep": "top", "fill": "mene"}, "no fill 'mene'"),
        ({"keep": "top", "metric": "bleu"}, "no metric 'bleu'"),
        ({"keep": "top", "positions": "some"}, "no positions 'some'"),
        ({"keep": "chance", "draws": 0}, "at least 1 draw"),
        ({"keep": "top", "points": 1}, "from 2 to 10,000 points"),
        ({"keep": "chance", "seed": -1}, "from 0 to 2147483647; got -1"),
        ({"keep": "top", "precision": 1}, "from 0 to below 1"),
    ],
)
def test_bad_arguments_get_a_sentence(model, scores, arguments, words):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.sweep(model, TASK, scores, **arguments)


def test_an_order_needs_scores_of_the_same_model(model):
    with pytest.raises(hc.HeadcountError, match="comes from scores, and none were given"):
        hc.sweep(model, TASK)
    other = hc.HeadScores("other", "t", "x", "logit_diff", np.zeros((1, 2, 2)))
    with pytest.raises(hc.HeadcountError, match="scores are of 4 heads, but llama-gqa has 12"):
        hc.sweep(model, TASK, other)


def test_scores_of_another_kind_than_asked_for_are_refused(model, scores):
    with pytest.raises(hc.HeadcountError, match="The scores are of heads, and edges are wanted"):
        hc.sweep(model, TASK, scores, units="edges")
    with pytest.raises(hc.HeadcountError, match="There are no units 'neurons'"):
        hc.sweep(model, TASK, units="neurons", keep="chance")


# ---------------------------------------------------------------------------------------------------------------------
# Curves worked out by hand


def test_explained_effect_is_a_ratio_of_means():
    curve = curve_of([[0, 1, 2], [0, 5, 10]], [0, 1, 2])
    np.testing.assert_allclose(curve.band().value, [0, 0.5, 1])
    np.testing.assert_allclose(curve.band("logit_diff").value, [0, 3, 6])


def test_an_effect_that_may_be_nothing_is_warned_of():
    rng = np.random.default_rng(0)
    noise = np.stack([np.zeros(20), rng.normal(size=20)], axis=1)
    assert "does not tell from nothing" in curve_of(noise, [0, 1]).warning()
    assert "does not tell from nothing" in curve_of([[1, 0], [2, 1]], [0, 1]).warning(), "a metric that rises"
    assert "not a number" in curve_of([[0, np.nan]], [0, 1]).warning()
    assert curve_of(noise + np.array([0, 5]), [0, 1]).warning() is None
    assert curve_of([[5, 4, 0]] * 3, [0, 1, 2], mode="mask").warning() is None


def test_intervals_over_few_prompts_are_warned_of():
    assert "measured on one prompt," in curve_of([[0, 4, 5]], [0, 1, 2]).too_few()
    assert "measured on 4 prompts," in curve_of([[0, 4, 5]] * 4, [0, 1, 2]).too_few()
    assert curve_of([[0, 4, 5]] * 5, [0, 1, 2]).too_few() is None


def test_curves_survive_saving(tmp_path, model, scores):
    curve = hc.sweep(model, TASK, scores, ks=[2, 6])
    loaded = hc.Curve.load(curve.save(tmp_path))
    assert loaded.rows() == curve.rows()
    assert loaded.provenance == curve.provenance
    assert list(loaded.values) == list(curve.values)
    assert len(loaded.to_frame()) == len(curve.ks) * 6
    with pytest.raises(hc.HeadcountError, match="holds no curve.json"):
        hc.Curve.load(tmp_path / "elsewhere")
