"""Modules that others have wrapped: compiled, offloaded, spread by a map, quantised. Where heads' values can be reached
they are cut as in the plain model; where not, that is said."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

import headcount as hc
from families import prompts, random_task, tiny

HEADS = ("a0.h1", "a1.h2", "a2.h3")
TASK = random_task()


@pytest.fixture(scope="module")
def plain():
    """The logits of the cut model, its scores, and what it is called by."""
    model = tiny("llama-gqa")
    with torch.no_grad(), hc.cut(model, HEADS):
        logits = model.logits(prompts())
    return logits, hc.score(model, TASK, "attribution").values, model.fingerprint


def same_as(plain, model):
    logits, scores, fingerprint = plain
    with torch.no_grad(), hc.cut(model, HEADS):
        assert torch.allclose(model.logits(prompts()), logits, atol=1e-5)
    assert np.allclose(hc.score(model, TASK, "attribution").values, scores, atol=1e-4)
    assert model.fingerprint == fingerprint


def test_a_compiled_model_is_cut(plain):
    """Compiled code does not see hooks that come later: the cut would silently do nothing."""
    same_as(plain, hc.load(torch.compile(tiny("llama-gqa").hf, backend="eager"), name="llama-gqa"))


def test_what_is_compiled_in_place_is_refused():
    whole, inside = tiny("llama-gqa").hf, tiny("llama-gqa").hf
    whole.compile(backend="eager")
    inside.model.layers[1] = torch.compile(inside.model.layers[1], backend="eager")
    for hf, name in ((whole, "LlamaForCausalLM"), (inside, "model.layers.1")):
        with pytest.raises(hc.HeadcountError, match=f"{name} is compiled in place"):
            hc.load(hf)


def test_a_device_map(plain, tmp_path):
    tiny("llama-gqa").hf.save_pretrained(tmp_path)
    same_as(plain, hc.load(tmp_path, name="llama-gqa", device_map={"": "cpu"}))


@pytest.mark.parametrize("where", ["cpu", "disk"])
def test_weights_that_accelerate_fetches_when_they_are_needed(where, plain, tmp_path):
    from accelerate import cpu_offload, disk_offload

    hf = tiny("llama-gqa").hf
    cpu = torch.device("cpu")
    cpu_offload(hf, cpu) if where == "cpu" else disk_offload(hf, str(tmp_path), cpu)
    model = hc.load(hf, name="llama-gqa")
    assert model.hf.lm_head.weight.device.type == "meta"
    assert model.device == cpu
    same_as(plain, model)
    for method in ("direct", "eap"):
        with pytest.raises(hc.HeadcountError, match="quantised or not in memory"):
            hc.score(model, TASK, method)
    with pytest.raises(hc.HeadcountError, match="not in memory"):
        hc.export_result("checkpoint", None, tmp_path / "out", model=model, heads=["a0.h0"])


def quantised(kind, place):
    if kind == "torchao":
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        hf = tiny("llama-gqa").hf
        quantize_(hf, Int8WeightOnlyConfig())
        return hc.load(hf, name="small")
    from transformers import BitsAndBytesConfig

    tiny("llama-gqa").hf.save_pretrained(place)
    bits = {"load_in_4bit": True} if kind.endswith("4") else {"load_in_8bit": True}
    return hc.load(place, quantization_config=BitsAndBytesConfig(**bits), device_map={"": "cpu"})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["torchao", "bitsandbytes-8", "bitsandbytes-4"])
def test_quantised_weights(kind, plain, tmp_path):
    package = kind.partition("-")[0]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    model = quantised(kind, tmp_path)
    with torch.no_grad():
        whole = model.logits(prompts())
        with hc.cut(model, HEADS):
            cut = model.logits(prompts())
    assert (whole - cut).abs().max() > 0.5, "the cut does something"
    _, scores, _ = plain
    found = hc.score(model, TASK, "attribution").values
    close = 0.5 if kind.endswith("4") else 0.9  # four bits are few for 32 random numbers
    assert np.corrcoef(found.ravel(), scores.ravel())[0, 1] > close, "nearly the scores of the plain model"
    assert model.fingerprint
    with pytest.raises(hc.HeadcountError, match="quantised"):
        hc.score(model, TASK, "direct")
    with pytest.raises(hc.HeadcountError, match="quantised"):
        hc.score(model, TASK, "eap")


def test_modules_that_keep_their_weight_elsewhere_are_refused_where_weights_are_read():
    """As the projections of GPTQ and AWQ, which have `in_features` and packed numbers of their own."""

    class Packed(torch.nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.in_features, self.packed = linear.in_features, torch.nn.Buffer(linear.weight.detach().clone())

        def forward(self, x):
            return x @ self.packed.T

    hf = tiny("llama-gqa").hf
    for layer in hf.model.layers:
        layer.self_attn.o_proj = Packed(layer.self_attn.o_proj)
    model = hc.load(hf, name="packed")
    assert np.allclose(
        hc.score(model, TASK, "attribution").values, hc.score(tiny("llama-gqa"), TASK, "attribution").values, atol=1e-4
    )
    with pytest.raises(hc.HeadcountError, match="those of Packed are quantised"):
        hc.score(model, TASK, "direct")
