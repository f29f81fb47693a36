"""A folder without heads loads in plain transformers, with the logits of the cut model."""

import json
import runpy

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import headcount as hc
from families import FAMILIES, prompts, tiny
from headcount.core.exports import EXPORTS
from headcount.models.wiring import kv_heads
from tokenizers_for_tests import make_tokenizer

CHECKPOINT = EXPORTS["checkpoint"]
RENAMED = {"mistral", "qwen2", "phi3"}  # which have no bias for a mean, and are written as SmolLM3
SHRINKS = ("llama", "llama-gqa", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3")


def loaded(folder, dtype=torch.float32):
    """As a stranger does it."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


@torch.no_grad()
@pytest.mark.parametrize("fill", ["zero", "mean-global", "scale(0.3)"])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_cut_model(family, fill, cut_of, tmp_path):
    model = tiny(family)
    before = model.fingerprint
    cut = cut_of(model, fill)
    hf = loaded(CHECKPOINT.write(cut, tmp_path / "cut", {}))
    with cut.applied():
        wanted = model.logits(prompts())
    assert (hf(input_ids=prompts()).logits - wanted).abs().max() < 1e-5
    assert (wanted - model.logits(prompts())).abs().max() > 0.1, "the heads matter"
    assert model.fingerprint == before, "the user's own model is as it was"
    renamed = family in RENAMED and fill == "mean-global"
    assert (hf.config.model_type == "smollm3") == renamed


@torch.no_grad()
@pytest.mark.parametrize("family", SHRINKS)
def test_empty_groups_leave_the_weights(family, cut_of, tmp_path):
    model = tiny(family)
    groups = kv_heads(model.hf.config)
    size = model.n_heads // groups
    empty = {0: 1, 1: 0, 2: 1}  # layer -> the group that goes; another head goes too, and stays as a silent one
    heads = [f"a{layer}.h{group * size + place}" for layer, group in empty.items() for place in range(size)]
    cut = cut_of(model, "mean-global", [*heads, "a0.h0"])
    folder = CHECKPOINT.write(cut, tmp_path / "small", {"shrink": True})
    hf = loaded(folder)
    with cut.applied():
        wanted = model.logits(prompts())
    assert (hf(input_ids=prompts()).logits - wanted).abs().max() < 1e-5
    assert kv_heads(hf.config) == groups - 1
    assert hf.config.num_attention_heads == model.n_heads - size
    counted = [sum(p.numel() for p in each.parameters()) for each in (model.hf, hf)]
    assert counted[1] < counted[0]
    rows = {row["what"]: row for row in json.loads((folder / "headcount.json").read_text())["shrunk"]}
    assert rows["parameters"] == {"what": "parameters", "before": f"{counted[0]:,}", "after": f"{counted[1]:,}"}
    caches = [float(rows["KV cache of a token, kB"][side]) for side in ("before", "after")]
    assert caches[1] == pytest.approx(caches[0] * (groups - 1) / groups, abs=0.01)


@pytest.mark.parametrize("family", ["gpt2", "olmo2", "opt"])
def test_families_that_cannot_shrink_say_so(family, cut_of, tmp_path):
    with pytest.raises(hc.HeadcountError, match="cannot shrink"):
        CHECKPOINT.write(cut_of(tiny(family)), tmp_path / "small", {"shrink": True})
    assert not (tmp_path / "small").exists()


def test_layers_that_lose_no_whole_group_are_named(cut_of, tmp_path):
    with pytest.raises(hc.HeadcountError, match="layer 0 keeps a head of each of its 2 KV groups"):
        CHECKPOINT.write(cut_of(tiny("llama-gqa")), tmp_path / "small", {"shrink": True})


@torch.no_grad()
def test_without_any_place_for_a_bias_the_folder_is_wrapped(cut_of, tmp_path, monkeypatch):
    monkeypatch.setattr("headcount.export.biases.RENAMED", ())
    model = tiny("qwen2")
    cut = cut_of(model, "mean-global")
    folder = CHECKPOINT.write(cut, tmp_path / "cut", {})
    assert "load_cut.py" in (folder / "README.md").read_text()
    hf = runpy.run_path(str(folder / "load_cut.py"))["load"]()
    with cut.applied():
        wanted = model.logits(prompts())
    assert (hf(input_ids=prompts()).logits - wanted).abs().max() < 1e-5
    with pytest.raises(hc.HeadcountError, match="Use --fill zero"):
        CHECKPOINT.write(cut, tmp_path / "small", {"shrink": True})


def test_tokenizer_card_and_facts_are_in_the_folder(cut_of, tmp_path):
    model = hc.load(tiny("llama-gqa").hf, tokenizer=make_tokenizer("digits"), name="mine")
    folder = CHECKPOINT.write(cut_of(model), tmp_path / "cut", {})
    assert AutoTokenizer.from_pretrained(folder)("John")["input_ids"] == model.tokenizer("John")["input_ids"]
    card = (folder / "README.md").read_text()
    assert "mine without 4 attention heads" in card
    assert "a1.h2" in card
    facts = json.loads((folder / "headcount.json").read_text())
    assert facts["heads"] == ["a0.h1", "a1.h2", "a1.h3", "a2.h0"]
    assert facts["largest_difference"] < 1e-5
    assert hc.load(folder).n_heads == 4


def test_a_folder_that_would_not_give_the_logits_is_not_written(cut_of, tmp_path, monkeypatch):
    monkeypatch.setattr("headcount.export.checkpoint._silenced", lambda cut: tiny("llama-gqa").hf)
    with pytest.raises(hc.HeadcountError, match="differ by up to"):
        CHECKPOINT.write(cut_of(tiny("llama-gqa")), tmp_path / "cut", {})
    assert not (tmp_path / "cut").exists()


def test_what_cannot_be_written_down_is_refused(cut_of):
    for fill in ("mean", "counterfactual", "resample"):
        with pytest.raises(hc.HeadcountError, match="the same at every position"):
            cut_of(tiny("gpt2"), fill)
