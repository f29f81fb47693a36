"""Scores by backward rules, of heads and of edges, against autograd through stopgrads, in float64."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, random_task, tiny
from headcount.edit import Fill, head_values
from headcount.models.backward_rules import RULES
from headcount.rank.gradients import Tail, head_gradients
from headcount.tasks.batches import collate
from one_reader import differentiable_metric, run, some_edges
from stop_gradients import stop_gradients

TASK = random_task()
ONE = hc.Task("one", "One", "logit_diff", TASK.train[:1], TASK.test[:1])
every_rule = pytest.mark.parametrize("rule", RULES)


@every_rule
@pytest.mark.parametrize(("family", "tolerance"), [("gpt2", 1e-10), ("llama-gqa", 1e-5)])
def test_head_scores_are_those_of_the_rules_written_with_stopgrad(family, tolerance, rule, monkeypatch):
    model = tiny(family, torch.float64)
    scores = hc.score(model, ONE, f"attribution-{rule}").by_pair[0]
    batch = collate(ONE.train, model.device)
    other = head_values(model, batch.corrupt)
    with stop_gradients(model, rule, monkeypatch):
        values, gradients = head_gradients(model, Tail.of(model, batch, Fill("zero"), "all"), "logit_diff")
    wanted = [((z - o) * g).sum((0, 1, 3)) for z, o, g in zip(values, other, gradients, strict=True)]
    np.testing.assert_allclose(scores, torch.stack(wanted), rtol=0, atol=tolerance * np.abs(scores).max())


@every_rule
@pytest.mark.parametrize(("family", "tolerance"), [("gpt2", 1e-10), ("llama-gqa", 1e-5)])
def test_edge_scores_are_those_of_the_rules_written_with_stopgrad(family, tolerance, rule, monkeypatch):
    """Every reader behind its own copy of the norm, whose scale is held there too."""
    model, pair = tiny(family, torch.float64), ONE.train[0]
    scores = hc.score(model, ONE, f"eap-{rule}")
    clean, corrupt = (run(model, torch.tensor([ids]))[0] for ids in (pair.clean, pair.corrupt))
    largest = np.abs(scores.values).max()
    for writer, reader in some_edges(scores.graph, np.random.default_rng(0), n=4):
        shift = torch.zeros_like(clean[0]).requires_grad_()
        with stop_gradients(model, rule, monkeypatch):
            (gradient,) = torch.autograd.grad(differentiable_metric(model, pair, reader, shift), shift)
        wanted = float(((clean[writer] - corrupt[writer]) * gradient).sum())
        name = scores.graph.edge_name((writer, reader))
        assert scores.values[writer, reader] == pytest.approx(wanted, abs=tolerance * largest, rel=0), name


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("olmo2", "gemma2", "gemma3")])
def test_edges_of_a_head_add_up_to_the_score_of_the_head(family):
    """A head acts through its readers. Gradients of edges go through norms by formula, those of heads by autograd: both
    follow the same rule. (In post-norm blocks a head's share in the stream is no linear function of its value.)"""
    model = tiny(family, torch.float64)
    for ending in ("", *(f"-{rule}" for rule in RULES)):
        heads = hc.score(model, ONE, f"attribution{ending}").values
        edges = hc.score(model, ONE, f"eap{ending}").values.sum(1)
        by_layer = edges[1:].reshape(model.n_layers, -1)[:, : model.n_heads]
        np.testing.assert_allclose(by_layer, heads, rtol=0, atol=1e-5 * np.abs(heads).max(), err_msg=ending)


@pytest.mark.parametrize("family", ["llama-gqa", "qwen3", "olmo2", "phi3"])
def test_readers_for_each_query_head_share_the_score_of_their_kv_head(family):
    model = tiny(family, torch.float64)
    for rule in ("attnlrp", "gim"):
        grouped, by_query = (
            hc.score(model, ONE, f"eap-{rule}", readers=readers) for readers in ("kv-heads", "query-heads")
        )
        for role in "kv":
            for head in range(2):
                columns = [by_query.graph.readers.index(f"a1.h{2 * head + i}<{role}>") for i in range(2)]
                wanted = grouped.values[:, grouped.graph.readers.index(f"a1.h{head}<{role}>")]
                np.testing.assert_allclose(by_query.values[:, columns].sum(1), wanted, atol=1e-5)


@pytest.mark.parametrize("method", ["attribution-gim", "eap-gim"])
def test_scores_do_not_depend_on_how_prompts_share_a_batch(method):
    model = tiny("llama-gqa", torch.float64)
    limits = [{"max_tokens": tokens, "memory": tokens * 50_000} for tokens in (20, 2000)]
    one, many = (hc.score(model, TASK, method, **limit).values for limit in limits)
    np.testing.assert_allclose(one, many, atol=2e-5)


def test_no_hook_is_left_behind():
    model = tiny("gemma2")
    for rule in RULES:
        hc.score(model, ONE, f"eap-{rule}")
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules()) == 0
    assert all(parameter.requires_grad for parameter in model.hf.parameters())
