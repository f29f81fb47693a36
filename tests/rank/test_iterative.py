"""Scores at the circuit that is left, round after round."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import headcount as hc
from families import pairs, random_task, tiny
from headcount.edit import Filler
from headcount.meters import HeadMeter
from headcount.rank.fit import Trained
from headcount.rank.iterative import attribution_at, eap_at
from headcount.rank.learned import edge_examples
from headcount.rank.method import Request

TASK = random_task()


def request(model, fill="counterfactual", positions="all"):
    filler = Filler.prepare(model, fill, examples=TASK.train, reference=TASK.train)
    return Request("logit_diff", filler, positions, 5, 0, 2048, lambda prompts: None)


@pytest.mark.parametrize("positions", ["all", "last"])
@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "olmo2"])
def test_attribution_at_a_circuit_is_the_derivative_of_a_gate_in_it(family, positions):
    """Shut a head a little, in the model whose dropped heads are gone: the metric falls at the rate of its score."""
    model, step = tiny(family, torch.float64), 4e-3  # some families compute norms in float32
    keep = torch.rand(3, 4, generator=torch.Generator().manual_seed(1)) > 0.4
    asked = request(model, positions=positions)
    scores = attribution_at(model, TASK.train, asked, keep)
    meter = HeadMeter(model, TASK.train, asked.filler, positions=positions)
    gates = keep.double().repeat(2, 1, 1)
    for layer, head in keep.nonzero().tolist():
        gates[:, layer, head] = torch.tensor([1.0 + step, 1.0 - step])
        more, less = meter.measure(gates)["logit_diff"]
        np.testing.assert_allclose(scores[:, layer, head], (more - less) / (2 * step), rtol=2e-3, atol=2e-4)
        gates[:, layer, head] = 1.0
    assert not scores[:, ~keep].any()


def test_the_first_round_is_attribution_itself():
    model = tiny("gpt2", torch.float64)
    for fill in ("counterfactual", "zero", "mean"):
        whole = attribution_at(model, TASK.train, request(model, fill), torch.ones(3, 4, dtype=torch.bool))
        np.testing.assert_allclose(whole, hc.score(model, TASK, "attribution", fill=fill).by_pair, atol=1e-12)


def test_heads_are_ordered_by_the_round_in_which_they_are_dropped():
    """By hand: of 12, 9, 7 … heads the least three tenths go, each time by attribution without those that are gone."""
    model = tiny("llama-gqa", torch.float64)
    keep, dropped, signs = torch.ones(12, dtype=torch.bool), [], {}
    while keep.any():
        score = attribution_at(model, TASK.train, request(model), keep.view(3, 4)).mean(0).flatten()
        left = sorted(keep.nonzero().flatten().tolist(), key=lambda head: float(score[head].abs()))
        going = left[: max(int(0.3 * len(left)), 1)]
        dropped += going
        signs |= {head: -1 if score[head] < 0 else 1 for head in going}
        keep[going] = False
    found = hc.score(model, TASK, "attribution-iterative")
    assert [layer * 4 + head for layer, head in found.order("absolute")] == dropped[::-1]
    assert {place: int(np.sign(value)) for place, value in enumerate(found.values.ravel())} == signs
    assert found.values.size == len(set(np.abs(found.values).ravel()))


def test_it_scores_completions_and_repeats_itself():
    made = tuple(hc.Completion(pair.clean, pair.answers + pair.wrongs) for pair in pairs(4))
    task = hc.Task("completions", "Completions", "log_prob", made, made)
    for fill in ("zero", "mean"):
        first, second = (hc.score(tiny("qwen2"), task, "attribution-iterative", fill=fill) for _ in range(2))
        assert np.array_equal(first.by_pair, second.by_pair)


def test_the_cut_and_the_gradient_leave_no_hook_behind():
    model = tiny("gpt2")
    hc.score(model, TASK, "attribution-iterative")
    assert not any(projection._forward_pre_hooks for projection in model.anatomy.out_projections)


@pytest.mark.parametrize("fill", ["counterfactual", "zero", "mean"])
def test_the_first_round_over_edges_is_eap_itself(fill):
    model = tiny("gpt2", torch.float64)
    ready = edge_examples(model, TASK.train, request(model, fill), Trained())
    found, eap = eap_at(model, ready, ready.real), hc.score(model, TASK, "eap", fill=fill)
    np.testing.assert_allclose(found, eap.values, atol=1e-9)


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "olmo2"])
def test_eap_at_a_circuit_is_the_derivative_of_the_metric_in_it(family):
    """Of the mean metric of all pairs, where one edge of the circuit carries a little more or less."""
    model, step, rng = tiny(family, torch.float64), 4e-3, torch.Generator().manual_seed(1)
    ready = edge_examples(model, TASK.train, request(model), Trained())
    keep = ready.real & (torch.rand(ready.real.shape, generator=rng) > 0.4)
    scores = eap_at(model, ready, keep)
    largest = scores.abs().max()
    with torch.no_grad():
        for edge in keep.nonzero()[:: len(keep.nonzero()) // 6].tolist():
            masks = keep.double().repeat(2, 1, 1)
            masks[:, edge[0], edge[1]] = torch.tensor([1.0 + step, 1.0 - step], dtype=torch.float64)
            more, less = torch.cat([meter.graded(masks, "logit_diff") for meter in ready.meters], dim=1).mean(1)
            np.testing.assert_allclose(scores[tuple(edge)], (more - less) / (2 * step), rtol=2e-3, atol=1e-3 * largest)
    assert not scores[~keep].any()


@pytest.mark.parametrize("readers", ["kv-heads", "components"])
def test_edges_are_ordered_by_the_round_in_which_they_are_dropped(readers):
    """By hand: half of the edges that are left go in each round, those of the last round by their score there."""
    model = tiny("gpt2", torch.float64)
    asked = replace(request(model), readers=readers)
    ready = edge_examples(model, TASK.train, asked, Trained())
    keep, order = ready.real.clone(), []
    for number in range(10):
        score, left = eap_at(model, ready, keep), [tuple(edge) for edge in keep.nonzero().tolist()]
        least = sorted(left, key=lambda edge: (float(score[edge].abs()), -edge[0], -edge[1]))
        going = least if number == 9 else least[: max(len(left) // 2, 1)]
        order += going
        for edge in going:
            keep[edge] = False
        if not keep.any():
            break
    found = hc.score(model, TASK, "eap-iterative", readers=readers)
    assert [tuple(edge) for edge in found.order("absolute")] == order[::-1]
    assert not found.values[~found.graph.real].any()
