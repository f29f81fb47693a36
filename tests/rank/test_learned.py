"""Learned rankings and pruned edges: better than where they began, the same after a kill, and a sentence where they
cannot be had."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import pairs, random_task, tiny
from golden_folders import PLANTED
from headcount.edit import Filler
from headcount.meters import HeadMeter
from headcount.rank import descent, learned
from headcount.rank.fit import Learning, Pruning
from headcount.rank.learned import SoftTopK

SHORT = Learning(updates=12, batch=3)
SHORT_PRUNING = Pruning(updates=12, batch=3)
CASES = [("learned", SHORT), ("edge-learned", SHORT), ("edge-pruning", SHORT_PRUNING)]
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def trained():
    """A model that knows its task."""
    return hc.load("tiny")


@pytest.fixture(scope="module")
def ioi(trained):
    return hc.task("ioi", trained, n=16)


@pytest.fixture(scope="module")
def model():
    return tiny("gpt2")


@pytest.fixture(scope="module")
def task():
    return random_task()


def area(model, task, scores, keep="absolute"):
    """How far the train prompts are from the whole model, over budgets evenly spread in their logarithm: what a ranking
    is trained for, measured with hard masks by the sweep."""
    train = hc.Task(task.name, task.title, task.metric, task.train, task.train)
    curve = hc.sweep(model, train, scores, keep=keep, ks="log", points=6, threshold=0)
    return float(np.abs(1 - curve.band().value[1:]).mean())


def test_learned_heads_are_nearer_to_the_whole_model_than_the_attribution_they_begin_at(trained, ioi):
    learned = hc.score(trained, ioi, "learned", fit=Learning(updates=40, batch=4))
    first = hc.score(trained, ioi, "attribution-ig")
    assert area(trained, ioi, learned) < min(area(trained, ioi, first, keep) for keep in ("absolute", "signed"))


def test_learned_edges_are_nearer_to_the_whole_model_than_the_attribution_they_begin_at(trained, ioi):
    learned = hc.score(trained, ioi, "edge-learned", fit=Learning(updates=24, batch=4))
    first = hc.score(trained, ioi, "eap-ig")
    assert area(trained, ioi, learned) < min(area(trained, ioi, first, keep) for keep in ("absolute", "signed"))


def test_the_choice_of_the_top_k_hardens_by_the_same_factor_each_time(monkeypatch, model, task):
    chosen, temperatures = learned.soft_top, []

    def noting(scores, k, temperature):
        temperatures.append(temperature)
        return chosen(scores, k, temperature)

    monkeypatch.setattr(learned, "soft_top", noting)
    hc.score(model, task, "learned", fit=Learning(updates=4, batch=3, temperature=(0.8, 0.1)))
    np.testing.assert_allclose(temperatures, [0.8, 0.4, 0.2, 0.1])
    assert Learning(updates=1).temperature_at(0) == 0.5


@pytest.mark.parametrize(("method", "first"), [("learned", "attribution-ig"), ("edge-learned", "eap-ig")])
def test_an_order_that_learning_has_made_worse_is_not_taken(trained, ioi, monkeypatch, method, first):
    """As where soft masks tell nothing of hard ones; here the training turns the order round."""
    monkeypatch.setattr(SoftTopK, "run", lambda self, start, facts: (-start).clone())
    begun, found = hc.score(trained, ioi, first), hc.score(trained, ioi, method)
    assert found.top(9) in [begun.top(9, by) for by in ("absolute", "signed")]


def test_a_learned_order_is_followed_as_far_as_it_is_better(trained, ioi, monkeypatch):
    """Here the nearest order is known. The training begins with its first six heads behind the next six, puts them
    right, and turns all others round; six heads are one of the lengths that are tried."""
    nearest = torch.randperm(trained.head_count, generator=torch.Generator().manual_seed(0))
    begun = torch.cat([nearest[6:12], nearest[:6], nearest[12:]])

    def turned(self, start, facts):
        theta = (-start).clone()
        theta[:, 6:12] = start[:, 6:12] + 10
        return theta

    monkeypatch.setattr(learned, "_ranked", lambda examples, scores, signed: begun)
    monkeypatch.setattr(learned, "_distance", lambda examples, order: int((order != nearest).sum()))
    monkeypatch.setattr(SoftTopK, "run", turned)
    found = hc.score(trained, ioi, "learned").order("absolute")
    assert [layer * trained.n_heads + head for layer, head in found] == nearest.tolist()


def test_pruned_edges_do_the_task_at_the_size_that_was_aimed_for(trained, ioi):
    found = hc.score(trained, ioi, "edge-pruning", fit=Pruning(updates=40, batch=4, target=0.9))
    k = found.graph.n_edges // 8
    explained = [
        hc.sweep(
            trained, ioi, hc.score(trained, ioi, method) if method else found, keep="absolute", ks=[k], threshold=0
        )
        for method in ("", "edge-chance")
    ]
    assert abs(1 - explained[0].band().value[1]) < 0.25
    assert explained[1].band().value[1] < 0.25


def test_the_planted_heads_come_first_without_counterfactuals(planted_task):
    """On completions, with zero fill: the two heads that copy are needed, and most others write nothing."""
    planted = hc.load(str(PLANTED))
    exact = hc.score(planted, planted_task, "patching", fill="zero")
    found = hc.score(planted, planted_task, "learned", fit=Learning(updates=40))
    assert set(found.order("absolute")[:2]) == set(exact.order("signed")[:2])


@pytest.mark.parametrize(("method", "fit"), CASES)
def test_a_kill_changes_no_bit(model, task, monkeypatch, method, fit):
    monkeypatch.setattr(descent, "SAVE_EVERY", 0.0)
    whole = hc.score(model, task, method, fit=fit)
    told = []

    def advance(prompts):
        told.append(prompts)
        if len(told) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hc.score(model, task, method, fit=fit, advance=advance)
    told.clear()
    again = hc.score(model, task, method, fit=fit, advance=lambda prompts: told.append(prompts))
    assert len(told) < fit.updates, "finished updates were not run again"
    np.testing.assert_array_equal(again.values, whole.values)


@pytest.mark.parametrize(("method", "fit"), CASES)
def test_seeds_share_a_batch_and_differ(model, task, method, fit):
    one, two = (hc.score(model, task, method, fit=fit.changed(seeds=seeds)) for seeds in (1, 2))
    if method == "learned":
        assert one.by_pair.shape == (1, 3, 4)
        assert two.by_pair.shape == (2, 3, 4)
        np.testing.assert_allclose(two.by_pair[0], one.by_pair[0], atol=1e-3)
        assert not np.allclose(two.by_pair[0], two.by_pair[1])
    else:
        assert not np.allclose(one.values, two.values)


def test_units_beyond_the_share_follow_in_the_order_of_attribution(model, task):
    found = hc.score(model, task, "learned", fit=SHORT.changed(share=0.25))
    first = hc.score(model, task, "attribution-ig")
    orders = [first.order(by) for by in ("absolute", "signed")]
    assert any(found.order("absolute")[3:] == order[3:] for order in orders)
    assert len(set(found.values.ravel())) == 12, "no two scores fall together"
    assert any(set(found.order("absolute")[:3]) == set(order[:3]) for order in orders)


@pytest.mark.parametrize("loss", ["distance", "reach", "kl", "metric"])
@pytest.mark.parametrize("method", ["learned", "edge-learned"])
def test_every_loss_gives_a_ranking_of_its_own(model, task, method, loss):
    found = hc.score(model, task, method, fit=SHORT.changed(loss=loss, updates=4))
    assert np.isfinite(found.values).all()
    assert found.values.min() == 0


def test_losses_mean_what_they_say():
    """By hand, from the metric under the same gates."""
    from headcount.rank.training import Examples

    model, made = tiny("gpt2", torch.float64), tuple(pairs(5))
    filler = Filler.prepare(model, "counterfactual", examples=made, reference=made)
    real = torch.ones(3, 4, dtype=torch.bool)
    ready = Examples(made, 5, lambda some: HeadMeter(model, some, filler), "logit_diff", real)
    gates = torch.rand(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    by_hand = HeadMeter(model, made, filler).measure(torch.cat([gates, torch.ones(1, 3, 4), torch.zeros(1, 3, 4)]))
    metric = torch.from_numpy(by_hand["logit_diff"])
    gaps = metric[2] - metric[3]
    short = (metric[2] - metric[:2]) / gaps.abs().mean().copysign(gaps.mean())
    wanted = {"distance": short.abs(), "reach": short.clamp(min=0), "metric": short}
    wanted["kl"] = torch.from_numpy(by_hand["kl"])[:2]
    for loss, values in wanted.items():
        assert torch.allclose(ready.losses(0, gates, loss), values.mean(1), atol=1e-5)


def test_other_positions_and_fills_are_learned_too(model, task):
    fit = SHORT.changed(updates=4)
    everywhere = hc.score(model, task, "learned", fit=fit)
    for changed in ({"positions": "last"}, {"fill": "zero"}, {"fill": "mean"}):
        found = hc.score(model, task, "learned", fit=fit, **changed)
        assert not np.allclose(found.values, everywhere.values)


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "gemma2", "gpt_neox"])
def test_every_kind_of_family_is_learned(family):
    for method in ("learned", "edge-learned"):
        found = hc.score(tiny(family), random_task(), method, fit=SHORT.changed(updates=2))
        assert np.isfinite(found.values).all()


def test_a_model_that_gives_no_numbers_ends_in_a_sentence(task):
    broken = tiny("llama-gqa")
    with torch.no_grad():
        broken.hf.lm_head.weight[:] = torch.nan
    with pytest.raises(hc.HeadcountError, match="not a finite number at update 1 of learned, in the batch that begins"):
        hc.score(broken, task, "learned", fit=SHORT)


def test_what_cannot_be_learned_is_said(model, task, planted_task):
    with pytest.raises(hc.HeadcountError, match=r"learned takes a headcount.Learning as its fit; got Fit\("):
        hc.score(model, task, "learned", fit=hc.Fit())
    with pytest.raises(hc.HeadcountError, match=r"edge-pruning takes a headcount.Pruning as its fit"):
        hc.score(model, task, "edge-pruning", fit=SHORT)
    with pytest.raises(hc.HeadcountError, match="learned takes the fill zero or mean.*; got 'resample'"):
        hc.score(model, task, "learned", fill="resample", fit=SHORT)
    with pytest.raises(hc.HeadcountError, match="two temperatures, the first and the last"):
        Learning(temperature=(0.5,))
    with pytest.raises(hc.HeadcountError, match="'kl' needs pairs of prompts"):
        hc.score(hc.load(str(PLANTED)), planted_task, "learned", fit=SHORT.changed(loss="kl"))
