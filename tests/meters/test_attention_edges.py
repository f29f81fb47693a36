"""Attention edges: their terms add up to the heads, their attribution is a derivative, their curves have two ends."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, random_task, tiny
from headcount.edit.attention import Terms, visit_attention
from headcount.meters.attention_edges import AttentionEdgeMeter, edge_count
from headcount.meters.metrics import logit_diff
from headcount.models.gates import add_gates, mixed
from headcount.rank.attention_attribution import attention_attribution
from headcount.sweeps import sweep_attention_edges
from headcount.tasks.batches import batches

GATED = [family for family in FAMILIES if family != "gptj"]
TASK = random_task()


def one_batch(model, task=TASK):
    return next(batches(task.test, model.device, 10_000))


@pytest.mark.parametrize("family", GATED)
def test_none_kept_is_no_head_kept_and_all_kept_is_the_clean_run(family):
    model = tiny(family, torch.float64)
    before = model.hf.config._attn_implementation
    curve = sweep_attention_edges(model, TASK, ks=[0], threshold=0)
    heads = hc.sweep(model, TASK, keep="chance", units="heads", draws=1, ks=[0], threshold=0)
    for end in (0, -1):
        np.testing.assert_allclose(
            curve.values["logit_diff"][0, end], heads.values["logit_diff"][0, end], atol=1e-6, rtol=0
        )
    assert curve.total == edge_count(model, 10) == 12 * 55
    assert model.hf.config._attn_implementation == before


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "gemma2"])
@pytest.mark.parametrize("gated", [False, True])
def test_attribution_is_the_derivative_of_the_metric_along_the_edge(family, gated):
    """Move one term a small way from clean to counterfactual: the metric falls by the score times that."""
    model = tiny(family, torch.float64)
    if gated:
        add_gates(model, "log-prob", -1.6)
        model.hf.double().requires_grad_(False)
    _, batch = one_batch(model)
    scores = attention_attribution(model, batch, "logit_diff")
    other = Terms.of(model, batch.corrupt)
    # Root-mean-square norms compute in float32 whatever the model's type, so that small steps drown in rounding.
    step, allowed = (1e-4, 1e-7) if family == "gpt2" else (1e-2, 2e-4)

    def metric(place, share):
        layer, head, query, key = place

        def visit(at, weights, value):
            if at != layer:
                return mixed(weights, value)
            part = torch.zeros_like(weights)
            part[:, head, query, key] = share
            return mixed(weights * (1 - part), value) + mixed(other.weights[at] * part, other.values[at])

        with torch.no_grad(), visit_attention(model, visit):
            logits = model.last_logits(batch.clean, batch.spots, rows=batch.rows)
        return logit_diff(logits, batch)

    for place in [(0, 1, 5, 3), (1, 3, 7, 0), (2, 0, 9, 9), (2, 2, 7, 4)]:
        by_hand = (metric(place, -step) - metric(place, step)) / (2 * step)
        torch.testing.assert_close(scores[:, *place], by_hand, atol=allowed, rtol=1e-4 if family == "gpt2" else 1e-2)


def test_edges_of_a_head_add_up_to_the_head():
    model = tiny("llama-gqa", torch.float64)
    _, batch = one_batch(model)
    by_edge = attention_attribution(model, batch, "logit_diff").sum((-1, -2))
    task = hc.Task("same", "Same", "logit_diff", TASK.test, TASK.test)
    heads = hc.score(model, task, "attribution")
    order = [pair for indices, _ in batches(TASK.test, model.device, 10_000) for pair in indices]
    np.testing.assert_allclose(by_edge.numpy(), heads.by_pair[order], atol=1e-9)


def test_the_first_k_of_every_prompt_are_kept_and_padding_is_never_among_them():
    model = tiny("gpt2", torch.float64)
    _, batch = one_batch(model)
    scores = attention_attribution(model, batch, "logit_diff")
    meter = AttentionEdgeMeter(model, TASK.test, lambda *_: scores.abs()[None])
    (ready,) = meter._ready
    for row, last in enumerate(batch.last.tolist()):
        own = edge_count(model, last + 1)
        kept = ready.ranks[0, row] < own
        assert int(kept.sum()) == own
        assert not kept[..., last + 1 :, :].any()
        assert not kept[..., torch.ones_like(kept[0, 0]).triu(1).bool()].any()
        top = ready.ranks[0, row] < 5
        assert scores[row][top].abs().min() >= scores[row][kept & ~top].abs().max()


def test_shut_edges_carry_nothing():
    model = tiny("llama-gqa", torch.float64)
    add_gates(model, "log-prob", -1.0)
    model.hf.double().requires_grad_(False)
    _, batch = one_batch(model)
    scores = attention_attribution(model, batch, "logit_diff")
    clean, other = (torch.stack(Terms.of(model, ids).weights, dim=1) for ids in (batch.clean, batch.corrupt))
    assert float((scores == 0).double().mean()) > 0.7
    assert scores[(clean == 0) & (other == 0)].abs().max() == 0


def test_chance_orders_differ_and_are_the_same_again():
    model = tiny("gpt2")
    first, again = (sweep_attention_edges(model, TASK, keep="chance", points=4, draws=2, threshold=0) for _ in range(2))
    middle = first.values["logit_diff"][:, 2]
    assert first.draws == 2
    assert not np.allclose(middle[0], middle[1])
    np.testing.assert_array_equal(first.values["logit_diff"], again.values["logit_diff"])


def test_what_it_cannot_do_is_refused():
    with pytest.raises(hc.HeadcountError, match="There is no order 'best'"):
        sweep_attention_edges(tiny("gpt2"), TASK, keep="best")
    model = tiny("gptj")
    with pytest.raises(hc.HeadcountError, match="GPTJForCausalLM does not take its attention from"):
        sweep_attention_edges(model, TASK)
    assert torch.isfinite(model.logits(torch.tensor([[3, 4]]))).all()
