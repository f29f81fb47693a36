"""Means of rankings: ranks with their sign, by name or of saved scores."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import random_task, tiny
from headcount.rank import METHODS
from headcount.rank.ensemble import mean_of_ranks

TASK = random_task()


@pytest.fixture(scope="module")
def model():
    return tiny("llama-gqa")


def test_ranks_keep_their_sign_and_ties_share_a_rank():
    rows = [np.array([0.5, -8.0, 0.0, 2.0]), np.array([3.0, 3.0, 1.0, -1.0])]
    first, second = np.array([2, -4, 0, 3]) / 4, np.array([3.5, 3.5, 1.5, -1.5]) / 4
    np.testing.assert_allclose(mean_of_ranks(rows, signed=True), (first + second) / 2)
    np.testing.assert_allclose(mean_of_ranks(rows, signed=False), (np.array([2, 4, 1, 3]) / 4 + np.abs(second)) / 2)


@pytest.mark.parametrize("methods", [("attribution", "patching-restore"), ("eap", "eap-ig", "eap-clean-corrupted")])
def test_a_method_named_mean_is_the_mean_of_the_scores_of_its_members(model, methods):
    by_name = hc.score(model, TASK, "mean:" + ",".join(methods))
    by_hand = hc.mean_scores([hc.score(model, TASK, method) for method in methods])
    assert by_name.method == by_hand.method == "mean:" + ",".join(methods)
    np.testing.assert_allclose(by_name.values, by_hand.values, atol=1e-12)
    assert by_name.signed
    assert hc.sweep(model, TASK, by_name, ks=[3], threshold=0).method == by_name.method


def test_the_mean_of_edges_does_not_see_places_without_an_edge(model):
    scores = hc.score(model, TASK, "eap")
    mean = hc.mean_scores([scores, scores])
    assert not mean.values[~scores.graph.real].any()
    assert np.abs(mean.values).max() == 1.0
    found = np.abs(mean.values[scores.graph.real])
    assert found[found > 0].min() == pytest.approx((1 + (found == 0).sum()) / scores.graph.n_edges)
    assert mean.order() == scores.order()
    helpful = int((scores.values > 0).sum())
    assert mean.order("signed")[:helpful] == scores.order("signed")[:helpful]


def test_a_member_without_a_sign_takes_the_sign_of_all():
    model = tiny("gpt2")
    mean = hc.score(model, TASK, "mean:attribution,gate-gradient")
    assert not mean.signed
    assert (mean.values > 0).all()
    with pytest.raises(hc.HeadcountError, match="have no sign"):
        hc.sweep(model, TASK, mean, keep="signed")


def test_a_member_that_runs_on_the_other_prompts_gets_its_own_means():
    model = tiny("gpt2")
    by_name = hc.score(model, TASK, "mean:patching,patching-restore", fill="mean")
    members = [hc.score(model, TASK, method, fill="mean") for method in ("patching", "patching-restore")]
    np.testing.assert_allclose(by_name.values, hc.mean_scores(members).values)


def test_a_mean_costs_what_its_members_cost_and_is_as_particular():
    mean = METHODS.named("mean:eap-ig,eap")
    assert mean.units == "edges"
    assert mean.needs_pairs
    assert mean.forwards(heads=12, steps=5) == 11 + 3
    assert METHODS["mean:attribution,gating"].metric == "log_prob_per_token"
    assert "mean:eap-ig,eap" in METHODS
    assert "mean:eap-ig,eap" not in list(METHODS)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("mean:eap-ig,epa", "There is no scoring method 'epa'. Did you mean 'eap'"),
        ("mean:eap-ig", "A mean needs two methods or more, such as mean:eap-ig,eap; got 'mean:eap-ig'"),
        ("mean:eap,patching", "that score the same units; these are eap edges and patching heads"),
        ("mean:eap,mean:eap", "There is no scoring method 'mean:eap'"),
    ],
)
def test_what_cannot_be_averaged_is_said(model, method, words):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.score(model, TASK, method)


def test_saved_scores_must_be_of_the_same_units(model):
    heads, edges = hc.score(model, TASK, "attribution"), hc.score(model, TASK, "eap")
    with pytest.raises(hc.HeadcountError, match="of 12 heads of llama-gqa and of 190 edges of llama-gqa"):
        hc.mean_scores([heads, edges])
    with pytest.raises(hc.HeadcountError, match="at least two scores, and 1 came"):
        hc.mean_scores([heads])


def test_the_code_of_a_member_from_outside_is_part_of_the_key(monkeypatch):
    monkeypatch.setattr(METHODS, "_own", dict(METHODS._own))

    @hc.register_method("constant", summary="one for all", cost="0")
    def constant(model, examples, request):
        return torch.ones(len(examples), model.n_layers, model.n_heads)

    assert METHODS.named("mean:attribution,constant").source == METHODS["constant"].source != ""
    assert METHODS.named("mean:attribution,patching").source == ""
