"""Backward rules change gradients and nothing else, on every family."""

import pytest
import torch
from torch import nn

import headcount as hc
from families import FAMILIES, prompts, tiny
from headcount.models.backward_rules import RULES, backward_rules
from stop_gradients import stop_gradients

every_family = pytest.mark.parametrize("family", FAMILIES)
every_rule = pytest.mark.parametrize("rule", RULES)
IDS = prompts(2, 9)


def run(model):
    """All logits, and the gradient of one logit difference at the token embeddings."""
    caught = []

    def begin(module, args, output):
        caught.append(output.detach().requires_grad_())
        return caught[0]

    with model.hf.get_input_embeddings().register_forward_hook(begin):
        logits = model.logits(IDS)
    (gradient,) = torch.autograd.grad((logits[:, -1, 5] - logits[:, -1, 6]).sum(), caught)
    return logits.detach(), gradient, caught[0].detach()


def hooks_of(model):
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.hf.modules())


@every_family
def test_the_forward_pass_is_the_same_bit_for_bit(family):
    model = tiny(family)
    logits, plain, _ = run(model)
    for rule in RULES:
        with backward_rules(model, rule):
            ruled_logits, ruled, _ = run(model)
        assert torch.equal(ruled_logits, logits), rule
        assert not torch.allclose(ruled, plain), rule
    again, gradient, _ = run(model)
    assert torch.equal(again, logits)
    assert torch.equal(gradient, plain)
    assert hooks_of(model) == 0
    assert not any("forward" in vars(module) for module in model.hf.modules())


@every_family
@every_rule
def test_gradients_are_those_of_the_rules_written_with_stopgrad(family, rule, monkeypatch):
    model = tiny(family, torch.float64)
    with backward_rules(model, rule):
        _, found, _ = run(model)
    with stop_gradients(model, rule, monkeypatch):
        _, wanted, _ = run(model)
    tolerance = 1e-10 if family == "gpt2" else 1e-5  # others compute norms or softmax in float32, whatever comes
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance * float(wanted.abs().max()))


class Fixed(nn.Module):
    """A norm that has forgotten its scale."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias

    def forward(self, x):
        return self.weight * (x - x.mean(-1, keepdim=True)) + self.bias


def nearly_linear():
    """GPT-2 whose norms have a fixed scale and whose activations are ReLUs far in their positive region."""
    model = tiny("gpt2", torch.float64)
    gpt2 = model.hf.transformer
    gpt2.ln_f = Fixed(gpt2.ln_f)
    for block in gpt2.h:
        block.ln_1, block.ln_2, block.mlp.act = Fixed(block.ln_1), Fixed(block.ln_2), nn.ReLU()
        block.mlp.c_fc.bias.data += 1e3
        block.mlp.c_proj.bias.data -= 1e3 * block.mlp.c_proj.weight.sum(0)
    return model


def test_where_a_model_is_linear_the_rule_of_relp_is_the_plain_gradient():
    """Attention has no rule in RelP, and keeps its true derivative."""
    model = nearly_linear()
    _, plain, _ = run(model)
    with backward_rules(model, "relp"):
        _, ruled, _ = run(model)
    torch.testing.assert_close(ruled, plain, rtol=0, atol=1e-10 * float(plain.abs().max()))


@pytest.mark.parametrize("rule", ["attnlrp", "gim"])
def test_where_a_model_is_linear_the_halves_of_attention_are_all_that_is_left(rule):
    """At a prompt of one token heads hand on their value, so each attention on a path halves it: with one layer of
    attention the gradient is the mean of the plain one and that of a model without attention."""
    model = nearly_linear()
    one_token = IDS[:, :1]

    def gradient():
        embedded = model.hf.transformer.wte(one_token).detach().requires_grad_()
        logits = model.hf(inputs_embeds=embedded, use_cache=False).logits
        return torch.autograd.grad(logits[:, -1, 5].sum(), embedded)[0]

    for block in model.hf.transformer.h[1:]:
        nn.init.zeros_(block.attn.c_proj.weight)
    plain = gradient()
    with backward_rules(model, rule):
        ruled = gradient()
    nn.init.zeros_(model.hf.transformer.h[0].attn.c_proj.weight)
    without = gradient()
    torch.testing.assert_close(ruled, (plain + without) / 2, rtol=0, atol=1e-10 * float(plain.abs().max()))
    assert not torch.allclose(plain, without)


@pytest.mark.parametrize("rule", ["attnlrp", "relp"])
def test_without_attention_and_biases_relevance_is_conserved(rule):
    """What layer-wise relevance propagation is made for: embedding times gradient adds up to the logit difference."""
    model = tiny("llama", torch.float64)
    for layer in model.hf.model.layers:
        nn.init.zeros_(layer.self_attn.o_proj.weight)
    with backward_rules(model, rule):
        logits, gradient, embedded = run(model)
    wanted = logits[:, -1, 5] - logits[:, -1, 6]
    torch.testing.assert_close((embedded * gradient).sum((1, 2)), wanted, rtol=1e-5, atol=1e-6)
    _, plain, _ = run(model)
    assert not torch.allclose((embedded * plain).sum((1, 2)), wanted, rtol=0.1)


def test_gates_of_a_sparse_model_stay_where_they_are(monkeypatch):
    """A gated attention has its softmax inside; the rule reaches it there."""
    model = hc.load("tiny-sparse")
    ids = torch.tensor([model.encode("The cat sat on the mat")])

    def gradient():
        embedded = model.hf.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model.hf(inputs_embeds=embedded, use_cache=False).logits
        return logits.detach(), torch.autograd.grad(logits[0, -1, 5], embedded)[0]

    logits, plain = gradient()
    with backward_rules(model, "gim"):
        ruled_logits, ruled = gradient()
    assert torch.equal(ruled_logits, logits)
    monkeypatch.setitem(RULES, "gim", RULES["gim"].__class__(activations=False, attention=True, temperature=1.0))
    with backward_rules(model, "gim"):
        _, at_one = gradient()
    assert not torch.allclose(ruled, at_one)
    assert not torch.allclose(ruled, plain)


def test_an_unknown_rule_is_named():
    wanted = "no backward rule 'attnlpr'. Did you mean 'attnlrp'"
    with pytest.raises(hc.HeadcountError, match=wanted), backward_rules(tiny("gpt2"), "attnlpr"):
        pass


def test_a_family_without_edges_has_no_rules():
    model = tiny("llama")
    model.hf.config.model_type = "novel"
    model = hc.load(model.hf)
    wanted = "the family 'novel' is registered without edges"
    with pytest.raises(hc.HeadcountError, match=wanted), backward_rules(model, "relp"):
        pass
