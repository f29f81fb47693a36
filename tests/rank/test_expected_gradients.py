"""Expected gradients: one point of the path for each prompt, in the place of many for all."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import pairs, random_task, tiny
from headcount.edit import mix_inputs
from headcount.rank import gradients
from headcount.rank.gradients import drawn_share

TASK = random_task()
OF_ONE_LENGTH = hc.Task("short", "Short", "logit_diff", tuple(pairs(4, lengths=(8,))), tuple(pairs(4, lengths=(8,))))
both_units = pytest.mark.parametrize("kind", ["attribution", "eap"])


def always(monkeypatch, share):
    """Every prompt at the same point of its path."""
    monkeypatch.setattr(gradients, "drawn_share", lambda pair, seed: share)


@both_units
def test_points_of_the_grid_taken_one_by_one_are_the_integrated_gradient(kind, monkeypatch):
    model, steps = tiny("gpt2", torch.float64), 4
    found = []
    for step in range(steps):
        always(monkeypatch, step / steps)
        found.append(hc.score(model, TASK, f"{kind}-eg").values)
    wanted = hc.score(model, TASK, f"{kind}-ig", steps=steps).values
    np.testing.assert_allclose(np.mean(found, axis=0), wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


@both_units
def test_the_ends_of_the_path_are_the_clean_and_the_counterfactual_prompt(kind, monkeypatch):
    model = tiny("gpt2", torch.float64)
    always(monkeypatch, 1.0)
    clean = hc.score(model, TASK, f"{kind}-eg").values
    np.testing.assert_allclose(clean, hc.score(model, TASK, kind).values, rtol=0, atol=1e-10)
    always(monkeypatch, 0.0)
    corrupt = hc.score(model, TASK, f"{kind}-eg").values
    only_corrupt = hc.score(model, TASK, f"{kind}-ig", steps=1).values  # the grid begins at the corrupt end
    np.testing.assert_allclose(corrupt, only_corrupt, rtol=0, atol=1e-10)
    if kind == "eap":
        both = hc.score(model, TASK, "eap-clean-corrupted").values
        np.testing.assert_allclose((clean + corrupt) / 2, both, rtol=0, atol=1e-10)


@both_units
def test_over_seeds_the_mean_goes_to_the_integrated_gradient(kind):
    model, seeds = tiny("gpt2", torch.float64), 32
    found = np.stack([hc.score(model, OF_ONE_LENGTH, f"{kind}-eg", seed=seed).values for seed in range(seeds)])
    wanted = hc.score(model, OF_ONE_LENGTH, f"{kind}-ig", steps=32).values
    likely = found.std(0, ddof=1) / np.sqrt(seeds)
    error, noise = (np.sqrt(np.square(each).mean()) for each in (found.mean(0) - wanted, likely))
    assert error < 2 * noise
    assert noise < 0.1 * np.sqrt(np.square(wanted).mean()), "or the bound above would say nothing"


@both_units
def test_a_score_depends_on_neither_the_batch_nor_the_other_prompts(kind):
    model, method = tiny("llama-gqa", torch.float64), f"{kind}-eg"
    limits = [{"max_tokens": tokens, "memory": tokens * 50_000} for tokens in (20, 2000)]
    one, many = (hc.score(model, TASK, method, **limit).values for limit in limits)
    np.testing.assert_allclose(one, many, atol=2e-5)
    alone = [hc.Task("one", "One", "logit_diff", (pair,), (pair,)) for pair in TASK.train]
    mean = np.mean([hc.score(model, task, method).values for task in alone], axis=0)
    np.testing.assert_allclose(mean, many, atol=2e-5)


@both_units
def test_a_seed_is_a_draw(kind):
    model = tiny("gpt2")
    one, same, other = (hc.score(model, TASK, f"{kind}-eg", seed=seed).values for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)


def test_points_are_spread_evenly_over_the_path():
    shares = np.sort([drawn_share(pair, seed) for pair in pairs(50) for seed in range(20)])
    furthest = np.abs(shares - np.linspace(0, 1, len(shares))).max()
    assert furthest < 1.95 / np.sqrt(len(shares))  # Kolmogorov and Smirnov, at one in a thousand
    assert len(set(shares)) == len(shares)


def test_each_row_has_its_own_point():
    model = tiny("gpt2", torch.float64)
    start, end = torch.tensor([[3, 4], [5, 6]]), torch.tensor([[7, 8], [9, 10]])
    embedding = model.hf.get_input_embeddings()
    with torch.no_grad(), mix_inputs(model, start, end, [torch.tensor([0.0, 0.25], dtype=torch.float64), 1.0]):
        mixed = embedding(start.repeat(2, 1))
    with torch.no_grad():
        a, b = embedding(start), embedding(end)
    torch.testing.assert_close(mixed, torch.stack([a[0], a[1] + (b[1] - a[1]) / 4, b[0], b[1]]))


def test_other_fills_are_refused():
    with pytest.raises(hc.HeadcountError, match="takes the fill counterfactual; got 'zero'"):
        hc.score(tiny("gpt2"), TASK, "attribution-eg", fill="zero")


@both_units
def test_the_cost_is_what_the_table_says(kind):
    run = []
    hc.score(tiny("gpt2"), TASK, f"{kind}-eg", advance=run.append)
    assert sum(run) == 4 * len(TASK.train)
