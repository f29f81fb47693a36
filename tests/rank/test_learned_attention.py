"""Learned rankings of attention edges: each prompt its own, nearer to the whole model than the attribution they begin
at."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import pairs, random_task, tiny
from headcount.edit.attention_fills import AttentionFiller
from headcount.meters.attention_edges import real_edges
from headcount.rank import descent
from headcount.rank.attention_attribution import attention_attribution
from headcount.rank.fit import Learning
from headcount.rank.learned_attention import learned_attention
from headcount.tasks.batches import collate

SHORT = Learning(updates=6)
pytestmark = pytest.mark.usefixtures("own_cache")


def learned(model, made, fit=SHORT, seed=0, **more):
    batch = collate(made, model.device)
    fill = AttentionFiller.prepare(model, "counterfactual", made, (), 10**6).terms(model, batch)
    first = attention_attribution(model, batch, "logit_diff", fill).abs()
    return learned_attention(model, batch, "logit_diff", fill, first, fit=fit, facts={"seed": seed}, **more)


def area(curve):
    return float(np.abs(1 - curve.band().value[1:]).mean())


def test_they_are_nearer_to_the_whole_model_than_attribution():
    model = hc.load("tiny")
    task = hc.task("greater-than", model, n=12)
    asked = {"units": "attention-edges", "keep": "absolute", "ks": "log", "points": 10, "threshold": 0}
    first = hc.sweep(model, task, **asked)
    trained = hc.sweep(model, task, method="learned", fit=Learning(updates=40), **asked)
    assert (first.method, trained.method) == ("attribution", "learned")
    assert area(trained) < area(first)
    assert trained.band().value[-1] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "gemma3"])
def test_a_prompt_gets_the_same_scores_alone_and_among_others(family):
    model, made = tiny(family, torch.float64), pairs(3)
    together = learned(model, made)
    for number, pair in enumerate(made):
        alone = learned(model, [pair])[0]
        length = alone.shape[-1]
        real = real_edges(collate([pair], model.device))[0].expand_as(alone)
        assert torch.allclose(together[number][..., :length, :length][real], alone[real], atol=1e-3)


def test_what_is_no_edge_stays_below_all_that_are():
    model, made = tiny("gpt2"), pairs(3)
    found = learned(model, made)
    real = real_edges(collate(made, model.device)).expand_as(found)
    assert found[~real].max() < found[real].min() - 100


def test_a_kill_changes_no_bit(monkeypatch):
    monkeypatch.setattr(descent, "SAVE_EVERY", 0.0)
    model, made, told = tiny("gpt2"), pairs(3), []
    whole = learned(model, made)

    def advance(prompts):
        told.append(prompts)
        if len(told) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learned(model, made, advance=advance)
    told.clear()
    assert torch.equal(learned(model, made, advance=told.append), whole)
    assert len(told) < 6 + 2, "finished updates were not run again"


@pytest.mark.parametrize("loss", ["distance", "reach", "kl", "metric"])
def test_every_loss_trains(loss):
    assert learned(tiny("gpt2"), pairs(3), SHORT.changed(loss=loss)).isfinite().all()


@pytest.mark.parametrize("fill", ["zero", "mean"])
def test_other_fills_are_learned_too(fill):
    model, task = tiny("gpt2"), random_task()
    curve = hc.sweep(model, task, units="attention-edges", method="learned", fill=fill, fit=SHORT, ks=[5], threshold=0)
    assert np.isfinite(curve.values["logit_diff"]).all()


def test_an_unknown_method_is_named():
    with pytest.raises(
        hc.HeadcountError, match="There is no method for attention edges 'lerned'. Did you mean 'learned'?"
    ):
        hc.sweep(tiny("gpt2"), random_task(), units="attention-edges", method="lerned")
