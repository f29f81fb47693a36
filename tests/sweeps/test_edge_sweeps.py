"""Curves over edges: exact ends, MIB's grid and areas, chance orders, and every point a circuit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import headcount as hc
from families import random_task, tiny
from headcount.meters import CircuitMeter
from headcount.models.graph import Graph
from headcount.sweeps.curve import MIB_SHARES, Curve
from headcount.sweeps.orders import chance_orders, ranked_places
from headcount.sweeps.sweep import unit_grid
from headcount.sweeps.units import Edges

TASK = random_task(8)


@pytest.fixture(scope="module")
def model():
    return tiny("llama-gqa")


@pytest.fixture(scope="module")
def scores(model):
    return hc.score(model, TASK, "eap-ig")


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "olmo2", "llama-gqa"])
@pytest.mark.parametrize("mode", ["keep", "mask"])
def test_all_edges_explain_exactly_everything_and_none_exactly_nothing(family, mode):
    model = tiny(family)
    curve = hc.sweep(model, TASK, hc.score(model, TASK, "eap"), ks=[30], threshold=0, **{mode: "absolute"})
    explained = curve.band().value
    assert (explained[0], explained[-1]) == ((0.0, 1.0) if mode == "keep" else (1.0, 0.0))
    assert curve.units == "edges"
    assert curve.ks[-1] == curve.total


def test_a_point_is_the_measurement_of_its_circuit(model, scores):
    curve = hc.sweep(model, TASK, scores, keep="signed", ks=[25], threshold=0)
    keep = torch.zeros(scores.values.shape, dtype=torch.bool)
    for edge in scores.order("signed")[:25]:
        keep[edge] = True
    wanted = CircuitMeter(model, TASK.test).measure(keep[None])
    for name, values in wanted.items():
        np.testing.assert_allclose(curve.values[name][0, 1], values[0], atol=1e-5)
    assert curve.ranking[0] == scores.graph.edge_name(scores.order("signed")[0])
    np.testing.assert_array_equal(scores.circuit(25, "signed").keep, keep.numpy())


@pytest.mark.parametrize("fill", ["zero", "mean", "mean-global"])
def test_other_fills_have_exact_ends_too(model, scores, fill):
    explained = hc.sweep(model, TASK, scores, ks=[30], fill=fill, threshold=0).band().value
    assert (explained[0], explained[-1]) == (0.0, 1.0)


def test_the_grid_is_logarithmic_and_holds_mibs_shares():
    grid = unit_grid("edges", 32_491, None, 20)
    assert {32, 64, 162, 324, 649, 1624, 3249, 6498, 16245, 32491} <= set(grid)
    assert grid[:3] == [0, 1, 2]
    assert unit_grid("edges", 32_491, [5, 9], 20) == [0, 5, 9, 32_491]
    with pytest.raises(hc.HeadcountError, match="between 0 and the model's 70 edges; 71 does not"):
        unit_grid("edges", 70, [71], 20)


def made(explained, total=1000):
    """A curve that explains what is given at MIB's shares."""
    rest = {"units": "edges", "fill": "zero", "metric": "logit_diff", "ranking": ()}
    ks = (0, *(int(share * total) for share in MIB_SHARES))
    values = {"logit_diff": np.array([[[value] * 3 for value in (0.0, *explained)]])}
    facts = {"model": "m", "task": "t", "title": "T", "method": "eap", "order": "absolute", "mode": "keep"}
    return Curve(**facts, **rest, ks=ks, total=total, values=values)


def test_areas_worked_out_by_hand():
    whole = made([1.0] * 10)
    assert whole.area("CPR").value == pytest.approx(0.999)
    assert whole.area("CMD").value == pytest.approx(0.0)
    late = made([0.0] * 9 + [1.0])  # nothing until 50 %, then a straight line to 1
    assert late.area("CPR").value == pytest.approx(0.25)
    assert late.area("CMD").value == pytest.approx(0.999 - 0.25)
    beyond = made([2.0] * 9 + [1.0])
    assert beyond.area("CPR").value == pytest.approx(0.499 * 2 + 0.75)
    assert beyond.area("CMD").value == pytest.approx(0.499 + 0.25)


def test_areas_have_intervals_and_are_not_made_up(model, scores):
    area = hc.sweep(model, TASK, scores, keep="signed", threshold=0, points=4).area("CPR")
    assert area.low <= area.value <= area.high
    assert hc.sweep(model, TASK, scores, ks=[3], threshold=0).area("CPR") is None


def test_the_crossing_is_found_to_one_edge(model, scores):
    curve = hc.sweep(model, TASK, scores, points=5, threshold=0.5)
    needed = curve.units_needed(0.5).value
    assert needed in curve.ks
    assert needed - 1 in curve.ks


def test_chance_needs_no_scores_and_matched_chance_follows_the_layers(model, scores):
    curve = hc.sweep(model, TASK, units="edges", keep="chance", draws=3, ks=[40], threshold=0)
    assert curve.values["logit_diff"].shape == (3, 3, 8)
    assert curve.ranking == ()
    edges = Edges(model, scores)
    like = ranked_places(edges.places, scores, "absolute")
    layer = dict(zip(edges.places.tolist(), edges.layers.tolist(), strict=True))
    for order in chance_orders(edges.places, edges.layers, draws=2, seed=0, like=like):
        assert [layer[place] for place in order] == [layer[place] for place in like]
        assert sorted(order) == sorted(like)
        assert list(order) != list(like)


def test_query_heads_are_swept_as_they_were_scored(model):
    scores = hc.score(model, TASK, "eap", readers="query-heads")
    curve = hc.sweep(model, TASK, scores, ks=[50], threshold=0)
    assert curve.total == scores.graph.n_edges > hc.score(model, TASK, "eap").graph.n_edges
    assert curve.provenance["arguments"]["readers"] == "query-heads"


def test_whole_edges_are_swept_as_they_were_scored_and_by_chance(model):
    scores = hc.score(model, TASK, "eap", readers="components")
    assert scores.readers_on(model) == "components"
    curve = hc.sweep(model, TASK, scores, ks=[20], threshold=0, fill="zero")
    assert curve.total == scores.graph.n_edges == Graph(3, 4, 4, whole=True).n_edges
    assert curve.provenance["arguments"]["readers"] == "components"
    assert curve.ranking[0] == scores.graph.edge_name(scores.order()[0])
    keep = torch.from_numpy(scores.circuit(20).split().keep)
    wanted = CircuitMeter(model, TASK.test, readers="query-heads", fill="zero").measure(keep[None])["logit_diff"][0]
    np.testing.assert_allclose(curve.values["logit_diff"][0, 1], wanted, atol=1e-5)
    chance = hc.sweep(model, TASK, units="edges", readers="components", keep="chance", draws=2, ks=[5], threshold=0)
    assert chance.total == curve.total


def test_what_cannot_be_is_said(model, scores):
    others = replace(scores, graph=Graph(2, 4, 4), values=np.zeros((11, 27)))
    with pytest.raises(
        hc.HeadcountError, match=f"The scores are of {others.graph.n_edges} edges, but llama-gqa has 190"
    ):
        hc.sweep(model, TASK, others)
    with pytest.raises(hc.HeadcountError, match="Edges are cut at all positions; got 'last'"):
        hc.sweep(model, TASK, scores, positions="last")
    with pytest.raises(hc.HeadcountError, match="Edges can be filled with"):
        hc.sweep(model, TASK, scores, fill="scale(0.5)")
