"""One cut measured: the numbers of a sweep at the same heads, on every family."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, random_task, tiny


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_sweep_at_the_same_heads(family):
    model, task = tiny(family, torch.float64), random_task()
    scores = hc.score(model, task, "attribution")
    for mode in ("keep", "mask"):
        alone = hc.sweep(model, task, scores, **{mode: "absolute"}, ks=[5], threshold=0)
        found = hc.measure(model, task, alone.ranking[:5], mode=mode)
        for name, values in alone.values.items():
            assert np.array_equal(found.values(name), values[0, 1]), name
        for metric in alone.metrics:
            assert found.of(metric) == tuple(end[1] for end in alone.band(metric))
        # How many masks share a forward pass may move the last digit of a product, and nothing more.
        curve = hc.sweep(model, task, scores, **{mode: "absolute"}, ks="all")
        for name, values in curve.values.items():
            assert np.allclose(found.values(name), values[0, 5], rtol=0, atol=1e-12), name
        for metric in curve.metrics:
            assert found.of(metric) == pytest.approx(tuple(end[5] for end in curve.band(metric)), abs=1e-11)


@pytest.mark.parametrize("fill", ["zero", "mean", "mean-global", "counterfactual", "resample", "scale(0.1)"])
def test_it_is_the_sweep_under_every_fill(fill):
    model, task = tiny("llama-gqa", torch.float64), random_task()
    scores = hc.score(model, task, "attribution")
    curve = hc.sweep(model, task, scores, ks=[4], fill=fill, threshold=0)
    found = hc.measure(model, task, curve.ranking[:4], fill, mode="keep")
    for name, values in curve.values.items():
        assert np.array_equal(found.values(name), values[0, 1]), name


def test_masked_and_kept_heads_are_the_two_sides_of_a_cut():
    model, task = tiny("gpt2"), random_task()
    some = [(0, 1), "a1.h2", (2, 3)]
    others = [(layer, head) for layer in range(3) for head in range(4) if (layer, head) not in ((0, 1), (1, 2), (2, 3))]
    masked, kept = hc.measure(model, task, some), hc.measure(model, task, others, mode="keep")
    assert masked.heads == ("a0.h1", "a1.h2", "a2.h3")
    assert masked.of("logit_diff") == pytest.approx(kept.of("logit_diff"), abs=1e-5)
    assert masked.whole("logit_diff") == pytest.approx(kept.whole("logit_diff"), abs=1e-5)
    assert masked.effect.value == pytest.approx(kept.effect.value, abs=1e-4)


def test_the_ends_are_the_whole_model_and_none_of_it():
    model, task = tiny("gpt2"), random_task()
    assert hc.measure(model, task, []).effect.value == 1
    assert hc.measure(model, task, [], mode="keep").effect.value == 0


def test_targets_without_a_counterfactual_are_measured_with_zeros():
    model = tiny("gpt2")
    made = tuple(hc.Completion((5, 6, 7, place), (8, 9)) for place in range(10, 16))
    task = hc.Task("t", "T", "log_prob", made[:3], made[3:])
    found = hc.measure(model, task, "a1.h1")
    assert found.curve.fill == "zero"
    assert {row["metric"] for row in found.rows()} == {
        "explained_effect", "log_prob", "log_prob_per_token", "accuracy"
    }  # fmt: skip
    assert "1 head masked (a1.h1; fill zero): log_prob" in str(found)


def test_what_is_wrong_is_said():
    model, task = tiny("gpt2"), random_task()
    with pytest.raises(hc.HeadcountError, match="there is no head"):
        hc.measure(model, task, (9, 0))
    with pytest.raises(hc.HeadcountError, match="no mode 'remove'"):
        hc.measure(model, task, (0, 0), mode="remove")


def test_what_a_study_warns_of_is_printed_with_the_numbers():
    model, task = tiny("gpt2"), random_task()
    few = hc.Task("few", "Few", task.metric, task.train, task.test[:2])
    said = str(hc.measure(model, few, "a1.h1"))
    assert "\nWarning: few, gpt2: " in said
    assert "measured on 2 prompts, and intervals over so few are too narrow" in said
    wrong = tuple(hc.Completion((5, 6, 7, place), (8, 9)) for place in range(10, 26))
    asked = hc.Task("t", "T", "log_prob", wrong[:8], wrong[8:])
    assert any("cannot do this task" in words for words in hc.measure(model, asked, "a1.h1").warnings)
