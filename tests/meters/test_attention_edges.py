"""Attention edges: their terms add up to the heads, their attribution is a derivative, their curves have two ends."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, pairs, random_task, tiny
from headcount.edit import visit_heads
from headcount.edit.attention import Terms, visit_attention
from headcount.edit.attention_fills import AttentionFiller, NoTerms
from headcount.meters.attention_edges import AttentionEdgeMeter, edge_count
from headcount.meters.metrics import logit_diff
from headcount.models.gates import add_gates, mixed
from headcount.models.wiring import find_wiring
from headcount.rank.attention_attribution import attention_attribution
from headcount.sweeps import sweep_attention_edges
from headcount.tasks.batches import batches

GATED = [family for family in FAMILIES if family != "gptj"]
TASK = random_task(lengths=(10, 8, 9))  # whose gates do not open or close where a test moves an edge


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


@pytest.mark.parametrize("family", GATED)
@pytest.mark.parametrize("fill", ["zero", "mean", "mean-global"])
def test_whatever_fills_them_none_kept_is_no_head_kept_and_all_kept_is_the_clean_run(family, fill):
    """Also where the test prompts are longer than any train prompt."""
    model, longer = tiny(family, torch.float64), tuple(pairs(3, seed=1, lengths=(10, 7)))
    task = hc.Task("random", "Random", "logit_diff", tuple(pairs(3, lengths=(8, 6))), longer)
    curve = sweep_attention_edges(model, task, ks=[0], threshold=0, fill=fill)
    heads = hc.sweep(model, task, keep="chance", units="heads", draws=1, ks=[0], threshold=0, fill=fill)
    none, whole = curve.values["logit_diff"][0]
    np.testing.assert_allclose(none, heads.values["logit_diff"][0, 0], atol=1e-5, rtol=0)
    for value, pair in zip(whole, longer, strict=True):
        with torch.no_grad():
            logits = model.logits(torch.tensor([pair.clean]))[0, -1]
        assert value == pytest.approx(float(logits[pair.answers[0]] - logits[pair.wrongs[0]]), abs=1e-5)


def term_by_hand(model, ids, layer, head, query, key):
    """a_ij v_j as Hugging Face has it: its own attention weights, and what its own projection gives."""
    found = []
    projection = find_wiring(model).layers[layer].projections["v"]
    model.hf.set_attn_implementation("eager")
    with projection.module.register_forward_hook(lambda module, args, output: found.append(output)), torch.no_grad():
        weights = model.hf(torch.tensor([ids]), output_attentions=True).attentions[layer]
    model.hf.set_attn_implementation("sdpa")
    values = projection.columns(found[0])[0, key]  # [kv head, size]
    return weights[0, head, query, key] * values[head // (model.n_heads // len(values))]


@pytest.mark.parametrize(("family", "allowed"), [("gpt2", 1e-9), ("gpt_neox", 1e-6), ("llama-gqa", 1e-5)])
@pytest.mark.parametrize("fill", ["counterfactual", "zero", "mean"])
def test_one_edge_removed_is_a_head_that_carries_another_term(family, allowed, fill):
    model, pair, places = tiny(family, torch.float64), TASK.test[0], [(0, 1, 8, 2), (1, 3, 6, 0), (2, 2, 9, 4)]
    for layer, head, query, key in places:

        def score(indices, batch, terms, place=(layer, head, query, key)):
            scores = torch.ones(1, 1, 3, 4, batch.length, batch.length)
            scores[0, 0, *place] = 0
            return scores

        meter = AttentionEdgeMeter(model, [pair], score, fill=fill, reference=TASK.train)
        found = meter.measure([(0, edge_count(model, 10) - 1)])["logit_diff"][0, 0]
        own = term_by_hand(model, pair.clean, layer, head, query, key)
        reaching = [p.clean for p in TASK.train if len(p.clean) > query]
        assert len(reaching) < len(TASK.train) or query < 8
        averaged = {"counterfactual": [pair.corrupt], "zero": [], "mean": reaching}[fill]
        other = sum(term_by_hand(model, ids, layer, head, query, key) for ids in averaged) / max(len(averaged), 1)

        def visit(at, z, where=(0, query, head), change=other - own):
            z = z.clone()
            z[where] += change
            return z

        with torch.no_grad(), visit_heads(model, visit, [layer]):
            logits = model.logits(torch.tensor([pair.clean]))[0, -1]
        assert found == pytest.approx(float(logits[pair.answers[0]] - logits[pair.wrongs[0]]), abs=allowed)


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "gemma2"])
@pytest.mark.parametrize(
    ("gated", "fill"),
    [(False, "counterfactual"), (True, "counterfactual"), (False, "zero"), (True, "zero"), (False, "mean")],
)
def test_attribution_is_the_derivative_of_the_metric_along_the_edge(family, gated, fill):
    """Move one term a small way from clean to what fills it: the metric falls by the score times that."""
    model = tiny(family, torch.float64)
    if gated:
        add_gates(model, "log-prob", -1.6)
        model.hf.double().requires_grad_(False)
    _, batch = one_batch(model)
    terms = AttentionFiller.prepare(model, fill, TASK.test, TASK.train, 1000).terms(model, batch)
    scores = attention_attribution(model, batch, "logit_diff", terms)
    # Root-mean-square norms compute in float32 whatever the model's type, so that small steps drown in rounding.
    step, allowed = (1e-4, 1e-7) if family == "gpt2" else (1e-2, 2e-4)

    def metric(place, share):
        layer, head, query, key = place

        def visit(at, weights, value):
            if at != layer:
                return mixed(weights, value)
            part = torch.zeros_like(weights)
            part[:, head, query, key] = share
            return mixed(weights * (1 - part), value) + terms.summed(at, part)

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
    silent = attention_attribution(model, batch, "logit_diff", NoTerms())
    assert silent[clean == 0].abs().max() == 0  # whatever the other prompt would open
    assert (silent != 0).sum() < (scores != 0).sum()


def test_chance_orders_differ_and_are_the_same_again():
    model = tiny("gpt2")
    first, again = (sweep_attention_edges(model, TASK, keep="chance", points=4, draws=2, threshold=0) for _ in range(2))
    middle = first.values["logit_diff"][:, 2]
    assert first.draws == 2
    assert not np.allclose(middle[0], middle[1])
    np.testing.assert_array_equal(first.values["logit_diff"], again.values["logit_diff"])


def test_what_it_cannot_do_is_refused():
    with pytest.raises(hc.HeadcountError, match="Attention edges have no order 'best'"):
        sweep_attention_edges(tiny("gpt2"), TASK, keep="best")
    with pytest.raises(hc.HeadcountError, match="Attention edges can be filled with .*; got 'resample'"):
        sweep_attention_edges(tiny("gpt2"), TASK, fill="resample")
    with pytest.raises(hc.HeadcountError, match="Attention edges are cut at all positions; got 'last'"):
        sweep_attention_edges(tiny("gpt2"), TASK, positions="last")
    with pytest.raises(hc.HeadcountError, match="Attention edges know the mode 'keep' alone; got 'mask'"):
        hc.sweep(tiny("gpt2"), TASK, units="attention-edges", mask="absolute")
    model = tiny("gptj")
    with pytest.raises(hc.HeadcountError, match="GPTJForCausalLM does not take its attention from"):
        sweep_attention_edges(model, TASK)
    assert torch.isfinite(model.logits(torch.tensor([[3, 4]]))).all()
