"""The order `best`: a mix of the signed and the absolute order, chosen on the train split."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import pairs, random_task, six_heads, tiny
from headcount.rank.scores import ranked
from headcount.studies.kept.table import show
from headcount.sweeps import mix
from headcount.sweeps.mix import MIXES
from headcount.sweeps.units import Asked, Heads

TASK = random_task(8)


@pytest.fixture(scope="module")
def model():
    return tiny("llama-gqa", torch.float64)


@pytest.fixture(scope="module")
def scores(model):
    return hc.score(model, TASK, "attribution")


@pytest.mark.parametrize("share", [*MIXES, 0.1, 0.9])
def test_the_first_k_are_the_most_helpful_and_then_the_largest_of_those_left(share):
    """Sets by their definition, for every k: they are nested, so one order has them all."""
    for seed in range(5):
        values = np.random.default_rng(seed).normal(size=40).round(1)  # with ties
        order = ranked(values, "best", share)
        helpful, large = ranked(values, "signed").tolist(), ranked(values, "absolute").tolist()
        for k in range(41):
            wanted = set(helpful[: int(share * k)])
            wanted |= set([unit for unit in large if unit not in wanted][: k - len(wanted)])
            assert set(order[:k].tolist()) == wanted


def test_the_ends_of_the_mix_are_the_plain_orders():
    values = np.random.default_rng(0).normal(size=30)
    assert ranked(values, "best", 0.0).tolist() == ranked(values, "absolute").tolist()
    assert ranked(values, "best", 1.0).tolist() == ranked(values, "signed").tolist()


def needed_on_train(model, scores, share):
    """The fewest heads, not all of them, with which the effect on train is faithful; by a sweep at every k."""
    order = scores.order("best", share)
    by_hand = np.zeros((1, *scores.values.shape))
    for place, head in enumerate(order):
        by_hand[0][head] = len(order) - place
    twin = hc.Task("twin", "Twin", TASK.metric, TASK.train, TASK.train)
    explained = hc.sweep(model, twin, hc.HeadScores("m", "t", "by hand", TASK.metric, by_hand), ks="all").band().value
    return next((k for k in range(1, len(order)) if abs(1 - explained[k]) <= 0.1), None)


def test_with_a_rung_for_every_k_the_mix_with_the_fewest_faithful_heads_on_train_is_chosen(monkeypatch):
    """Models of six heads, all train prompts: what the short cuts stand in for."""
    monkeypatch.setattr(mix, "rungs", lambda total: list(range(1, total)))
    monkeypatch.setattr(mix, "prompts_run", lambda task: len(task.train))
    differ = 0
    for seed in range(4):
        model = six_heads(seed)
        scores = hc.score(model, TASK, "attribution")
        curve = hc.sweep(model, TASK, scores, keep="best", ks="all")
        needed = {share: needed_on_train(model, scores, share) for share in MIXES}
        fewest = min(needed.values(), key=lambda k: 7 if k is None else k)
        assert needed[curve.mix] == fewest
        found = {row["mix"]: row["needed"] for row in curve.provenance["mixes"]}
        assert found == {share: k if k == fewest else None for share, k in needed.items()}  # the climb ends there
        assert curve.ranking == scores.top(6, "best", curve.mix)
        differ += len(set(needed.values())) > 1
    assert differ, "a choice among equals is none"


def test_rungs_grow_threefold_to_half_of_the_units():
    assert mix.rungs(270) == [5, 15, 45, 135]
    assert mix.rungs(32) == [5, 16]
    assert mix.rungs(3) == [1]
    assert mix.rungs(70_651)[-3:] == [3925, 11775, 35325]


@pytest.mark.parametrize(
    ("was", "now", "needed"),
    [
        (1.0, 0.55, np.inf),  # on the way
        (0.6, 0.1, 20),  # near at the upper rung, and not before
        (0.6, 0.0, 19),  # 0.1 at 18.3 of the way from 10 to 20
        (0.6, -0.4, 15),  # jumps past
        (-0.5, -0.1, 20),  # from above
        (0.05, 0.3, np.inf),  # leaves what it was near to
        (0.6, -np.inf, np.inf),
    ],
)
def test_units_between_two_rungs_are_those_of_a_straight_line(was, now, needed):
    assert mix._crossing(10, 20, was, now, 0.1) == needed
    assert mix._crossing(10, 11, 0.6, -0.4, 0.1) == np.inf  # there is no number between


@pytest.mark.parametrize(("threshold", "climbed"), [(1e-6, 1), (1.0, 2)])
def test_sets_that_mixes_share_are_run_once_and_the_climb_ends_at_the_first_rung_that_is_enough(
    model, scores, threshold, climbed
):
    """On half of the train prompts: none and all of the heads, and the different sets of each rung."""
    asked = Asked("best", "keep", "counterfactual", "all", "logit_diff", 1, 0)
    runs = list[int]()
    mix.choose_mix(Heads(model, scores), TASK, asked, threshold, runs.append)
    sets = [len({frozenset(scores.top(k, "best", share)) for share in MIXES}) for k in mix.rungs(12)]
    assert max(sets) < len(MIXES)
    assert sum(runs) == len(TASK.train) // 2 * (2 + sum(sets[:climbed]))


def test_the_curve_is_that_of_the_chosen_order(model, scores):
    curve = hc.sweep(model, TASK, scores, keep="best", ks=[5], threshold=0)
    keep = np.zeros((1, 3, 4))
    for head in scores.order("best", curve.mix)[:5]:
        keep[0][head] = 1
    by_hand = hc.sweep(model, TASK, hc.HeadScores("m", "t", "x", "logit_diff", keep), ks=[5], threshold=0)
    np.testing.assert_allclose(curve.values["logit_diff"], by_hand.values["logit_diff"], atol=1e-12)


def test_edges_are_mixed_too_and_their_circuit_takes_the_chosen_share():
    model = tiny("llama-gqa")
    scores = hc.score(model, TASK, "eap")
    curve = hc.sweep(model, TASK, scores, keep="best", points=6, threshold=0.5)
    assert curve.mix in MIXES
    assert curve.ranking == scores.top(190, "best", curve.mix)
    circuit = scores.circuit(20, "best", curve.mix)
    assert {scores.graph.edge_name(edge) for edge in np.argwhere(circuit.keep).tolist()} == set(curve.ranking[:20])
    with pytest.raises(hc.HeadcountError, match="which a sweep chooses on the train split; got None. Give mix="):
        scores.circuit(20, by="best")


def test_masking_mixes_by_what_takes_the_effect_away(model, scores):
    curve = hc.sweep(model, TASK, scores, mask="best", ks=[4], threshold=0.5)
    assert curve.mix in MIXES


def test_scores_without_a_sign_have_nothing_to_mix(model):
    scores = hc.score(model, TASK, "gate-gradient")
    best, absolute = (hc.sweep(model, TASK, scores, keep=order, ks=[4], threshold=0) for order in ("best", "absolute"))
    assert best.mix == 0.0
    assert best.ranking == absolute.ranking
    assert absolute.mix is None


def test_completions_have_a_best_order_too(model):
    made = tuple(hc.Completion(pair.clean, pair.answers + pair.wrongs) for pair in pairs(4))
    task = hc.Task("completions", "Completions", "log_prob", made, made)
    curve = hc.sweep(model, task, hc.score(model, task, "attribution"), keep="best", fill="mean", ks=[4])
    assert curve.mix in MIXES


def test_where_there_is_no_best_order_it_is_said(model, scores):
    with pytest.raises(hc.HeadcountError, match="Attention edges have no order 'best'. Known: absolute, signed"):
        hc.sweep_attention_edges(model, TASK, keep="best")
    with pytest.raises(hc.HeadcountError, match="The order 'best' comes from scores, and none were given"):
        hc.sweep(model, TASK, keep="best")
    with pytest.raises(hc.HeadcountError, match="compared by 'absolute' or 'signed'; got 'best'"):
        hc.compare_scores([scores, scores], by="best")
    with pytest.raises(hc.HeadcountError, match="orders cannot be 'best'"):
        hc.run("attention-edges-kept", models=["tiny"], tasks=["ioi"], overrides={"orders": ["best"]})


def test_a_study_draws_the_best_order_of_a_mean_and_reports_the_mix(shared_cache, tmp_path, capsys):
    asked = {"orders": ["best", "absolute"], "n": 8, "points": 3, "steps": 1, "threshold": 0.5}
    asked["method"] = "mean:eap,eap-ig"
    result = hc.run("edges-kept", models=["tiny"], tasks=["ioi"], out=tmp_path, overrides=asked)
    best, absolute = result.summary["curves"]
    assert best["mix"] in MIXES
    assert best["mixes"] == [best["mix"]]
    assert (absolute["mix"], absolute["mixes"]) == (None, [])
    assert best["method"] == "mean:eap,eap-ig"
    show(result)
    out = capsys.readouterr().out
    ends = {0.0: "all edges by the size of their effect", 1.0: "all edges by how much they help"}
    told = ends.get(best["mix"], f"{100 * best['mix']:.0f} % of the first edges by how much they help")
    assert f"IOI, tiny, best: {told}" in out
    circuit = hc.EdgeScores.load(tmp_path / "edges" / "ioi-tiny").circuit(best["needed"], "best", best["mix"])
    circuit.save_mib(tmp_path / "again.json")
    assert (tmp_path / "edges" / "ioi-tiny" / "circuit.json").read_text() == (tmp_path / "again.json").read_text()
