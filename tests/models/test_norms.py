"""A model without norms: identities in their place, as compiled programs have them; and norms that a user changed."""

import numpy as np
import pytest
import torch
from torch import nn

import headcount as hc
from families import random_task, tiny
from headcount.models.norms import NormParts
from headcount.models.wiring import find_wiring
from one_reader import metric_with_one_reader_moved, run, some_edges

TASK = random_task()


@pytest.fixture(scope="module")
def model():
    made = tiny("opt", torch.float64)
    made.hf.model.decoder.final_layer_norm = nn.Identity()
    for layer in made.hf.model.decoder.layers:
        layer.self_attn_layer_norm = layer.final_layer_norm = nn.Identity()
    return hc.load(made.hf, name="no norms")


def test_every_check_passes_edges_included(model):
    verdicts = list(hc.check(model))
    assert [verdict for verdict in verdicts if not verdict.passed] == []
    assert any("edges" in verdict.name for verdict in verdicts)


def test_an_identity_divides_by_one_and_moves_nothing():
    norm, x = NormParts.probe(nn.Identity(), torch.zeros(7, 5)), torch.randn(2, 3, 5)
    assert torch.equal(norm.own(x), x)
    assert torch.equal(norm.scale(x), torch.ones(2, 3))
    assert torch.equal(norm.share(x, x[:, 0]), x)


def test_the_stream_is_read_as_it_is(model):
    wiring = find_wiring(model)
    assert all(layer.attention_norm is None and layer.mlp_norm is None for layer in wiring.layers)
    assert wiring.width == 32


def test_eap_equals_finite_differences_of_one_edge(model):
    pair, step = TASK.train[0], 1e-4
    scores = hc.score(model, hc.Task("one", "One", "logit_diff", (pair,), (pair,)), "eap")
    clean, corrupt = (run(model, torch.tensor([side]))[0] for side in (pair.clean, pair.corrupt))
    largest = np.abs(scores.values).max()
    for writer, reader in some_edges(scores.graph, np.random.default_rng(0)):
        shift = step * (clean[writer] - corrupt[writer])
        up, down = (metric_with_one_reader_moved(model, pair, reader, sign * shift) for sign in (1, -1))
        name = scores.graph.edge_name((writer, reader))
        assert scores.values[writer, reader] == pytest.approx((up - down) / (2 * step), abs=1e-5 * largest), name


@torch.no_grad()
def test_direct_attributions_and_everything_else_add_up_to_the_logit_difference(model):
    pair = TASK.train[0]
    written, trace = run(model, torch.tensor([pair.clean]))
    direction = model.unembedding.weight[pair.answers[0]] - model.unembedding.weight[pair.wrongs[0]]
    shares = (written[:, -1] @ direction).numpy()
    by_layer = shares[1:].reshape(model.n_layers, model.n_heads + 1)
    np.testing.assert_allclose(hc.score(model, TASK, "direct").by_pair[0], by_layer[:, :-1], rtol=1e-6)
    rest = float((trace.final_stream[0][0, -1] - written[:, -1].sum(0)) @ direction)
    logits = model.logits(torch.tensor([pair.clean]))[0, -1]
    assert shares.sum() + rest == pytest.approx(float(logits[pair.answers[0]] - logits[pair.wrongs[0]]))


class TestNormsOfTheUsers:
    """Changed on one module alone, which `forward` of its class knows nothing of."""

    def changed(self, forward):
        model = tiny("gpt2", torch.float64)
        norm = model.hf.transformer.h[1].ln_2
        own = norm.forward
        norm.forward = lambda x: forward(own(x))
        return model

    def test_one_that_is_still_a_norm_is_honoured_by_circuits_and_patching_as_by_eap(self):
        patched, trained = self.changed(lambda normed: 1.7 * normed + 0.1), tiny("gpt2", torch.float64)
        norm = trained.hf.transformer.h[1].ln_2
        with torch.no_grad():
            norm.weight.mul_(1.7)
            norm.bias.mul_(1.7).add_(0.1)
        assert [verdict.name for verdict in hc.check(patched) if not verdict.passed] == []
        one = hc.Task("one", "One", "logit_diff", TASK.train[:1], TASK.test[:1])
        for method, task in (("edge-patching", one), ("eap", TASK)):
            found, wanted = (hc.score(model, task, method).values for model in (patched, trained))
            np.testing.assert_allclose(found, wanted, atol=1e-9)

    @pytest.mark.parametrize("method", ["edge-patching", "eap"])
    def test_one_that_is_none_any_more_is_refused(self, method):
        with pytest.raises(hc.HeadcountError, match="norms that are LayerNorm or RMSNorm, and a LayerNorm of this"):
            hc.score(self.changed(torch.tanh), TASK, method)

    def test_a_hook_on_a_norm_or_a_projection_that_changes_it_is_refused(self):
        model = tiny("llama-gqa", torch.float64)
        layer = model.hf.model.layers[1]
        for module in (layer.input_layernorm, layer.self_attn.v_proj):
            hook = module.register_forward_hook(lambda module, args, output: 2 * output)
            with hook, pytest.raises(hc.HeadcountError, match="Heads work"):
                find_wiring(model)
        assert find_wiring(model).graph.n_layers == 3
