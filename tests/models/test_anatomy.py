"""Finding heads in models that nobody listed, and saying what is missing where they cannot be found."""

import pytest
import torch
from torch import nn

import headcount as hc
from families import prompts, tiny
from headcount.models import FAMILIES


@pytest.fixture(autouse=True)
def registry_is_put_back(monkeypatch):
    monkeypatch.setattr(FAMILIES, "_own", dict(FAMILIES))


def renamed(model_type):
    hf = tiny("llama").hf
    hf.config.model_type = model_type
    return hf


def test_an_unknown_family_with_a_known_shape_works_for_heads():
    model = hc.load(renamed("novel"))
    assert (model.n_layers, model.n_heads) == (3, 4)
    with torch.no_grad(), hc.cut(model, [(0, 1)]):
        assert model.logits(prompts()).shape == (3, 10, 64)
    with pytest.raises(hc.HeadcountError, match="final norm of 'novel'.*register_family"):
        hc.score(model, hc.Task("t", "T", "logit_diff", (pair(),), (pair(),)), "direct")


def pair():
    return hc.Pair((5, 6, 7), (5, 8, 7), (9,), (10,))


def test_a_family_whose_projection_cannot_be_found_is_told_how_to_register():
    hf = renamed("strange")
    for layer in hf.model.layers:
        layer.self_attn.mystery = layer.self_attn.o_proj
        del layer.self_attn.o_proj
    with pytest.raises(hc.HeadcountError, match=r"not found.*register_family\('strange'.*model.layers \(3 x Llama"):
        hc.load(hf)
    hc.register_family("strange", hc.Family(out_projection="mystery"))
    assert hc.load(hf).head_count == 12


def test_a_wrong_registration_says_what_is_missing():
    hc.register_family("llama", hc.Family(layers="model.blocks"))
    with pytest.raises(hc.HeadcountError, match="registered with layers at 'model.blocks'"):
        hc.load(tiny_llama_module())


def tiny_llama_module():
    from transformers import AutoModelForCausalLM

    from families import CONFIGS

    return AutoModelForCausalLM.from_config(CONFIGS["llama"]())


def test_layers_with_different_widths_are_refused():
    hf = tiny_llama_module()
    hf.model.layers[1].self_attn.o_proj = nn.Linear(16, 32)
    with pytest.raises(hc.HeadcountError, match="take 16, 32 inputs"):
        hc.load(hf)
