"""A model of one's own: adapters of peft, merged and live; shards, checkpoints of a trainer, GGUF files."""

import json
import shutil

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, PrefixTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM

import headcount as hc
from families import prompts, random_task, tiny
from gguf_files import write_gguf
from headcount.models import takes_base
from headcount.studies.bench import Bench
from tokenizers_for_tests import make_tokenizer, word_tokenizer

TARGETS = ["q_proj", "v_proj", "o_proj", "up_proj"]


def adapted(hf, **settings):
    """A LoRA whose weights are not zero."""
    torch.manual_seed(1)
    made = get_peft_model(hf, LoraConfig(**{"r": 4, "lora_alpha": 16, "target_modules": TARGETS, **settings}))
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "lora_" in name:
                weight.normal_(0, 0.2)
    return made.eval()


@pytest.fixture
def base(tmp_path):
    place = tmp_path / "base"
    tiny("llama-gqa").hf.save_pretrained(place)
    word_tokenizer().save_pretrained(place)
    return place


@pytest.fixture
def adapter(base, tmp_path):
    """A folder as peft writes it, and the logits of peft's own model."""
    made = adapted(AutoModelForCausalLM.from_pretrained(base))
    made.save_pretrained(tmp_path / "lora")
    return tmp_path / "lora"


@torch.no_grad()
def test_a_folder_of_peft_has_the_logits_of_pefts_own_model(adapter, base):
    model = hc.load(adapter)
    theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter).eval()
    wanted = theirs(input_ids=prompts()).logits
    assert model.name == "lora"
    assert torch.allclose(model.logits(prompts()), wanted, atol=1e-4)
    assert (wanted - tiny("llama-gqa").logits(prompts())).abs().max() > 0.1, "the adapter does something"
    assert model.encode("John"), "the tokenizer of its base"
    assert model.fingerprint != hc.load(base).fingerprint
    assert all(verdict.passed for verdict in hc.check(model))


def test_the_base_may_be_named_and_is_asked_for_where_it_is_gone(adapter, base, tmp_path):
    moved = tmp_path / "moved"
    shutil.move(base, moved)
    with pytest.raises(hc.HeadcountError, match=r"goes on .*base.*--base-model"):
        hc.load(adapter)
    assert hc.load(adapter, base=moved).n_layers == 3
    with pytest.raises(hc.HeadcountError, match="belongs to an adapter"):
        hc.load(moved, base=moved)


def test_every_command_that_loads_takes_a_base(adapter, base, tmp_path, headcount):
    moved = tmp_path / "moved"
    shutil.move(base, moved)
    code, _, said = headcount("check", adapter)
    assert (code, "--base-model" in said) == (2, True)
    code, said, _ = headcount("check", adapter, "--base-model", moved, "--json")
    assert code == 0
    assert all(verdict["passed"] for verdict in json.loads(said))


def test_the_base_of_a_study_is_that_of_its_adapters(adapter, base, tmp_path):
    """Beside them stand models of their own, and those that came with the package."""
    moved = tmp_path / "moved"
    shutil.move(base, moved)
    asked = {"panel": {"base_model": str(moved)}}
    bench = Bench()
    assert bench.model(str(adapter), asked).weights_hash != bench.model(str(moved), asked).weights_hash
    assert not takes_base("tiny-sparse")


@torch.no_grad()
def test_an_adapter_on_the_hub(adapter, tmp_path):
    """As the hub's cache holds what it has fetched."""
    kept = tmp_path / "hub" / "models--me--lora"
    shutil.copytree(adapter, kept / "snapshots" / ("0" * 40))
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("0" * 40)
    cached = {"cache_dir": str(tmp_path / "hub"), "local_files_only": True}
    model = hc.load("me/lora", revision="main", **cached)
    assert model.name == "lora"
    assert torch.equal(model.logits(prompts()), hc.load(adapter).logits(prompts()))
    assert takes_base("me/lora", **cached)
    with pytest.raises(hc.HeadcountError, match="the hub did not deliver it"):
        hc.load("me/nothing", **cached)


@pytest.mark.parametrize("name", [" " * 5000, "x" * 300, "a\0b"])
def test_a_base_that_can_be_no_folder_is_refused(adapter, name):
    facts = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**facts, "base_model_name_or_path": name}))
    with pytest.raises(hc.HeadcountError, match="goes on|is neither a named model") as error:
        hc.load(adapter)
    assert len(str(error.value)) <= 300


def test_an_adapter_that_peft_cannot_merge_is_refused(adapter):
    facts = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**facts, "alora_invocation_tokens": [1, 2]}))
    with pytest.raises(hc.HeadcountError, match=r"lora cannot be merged: aLoRA does not support merging\. Load it"):
        hc.load(adapter)


@torch.no_grad()
def test_a_peft_model_in_memory_is_copied_and_merged():
    mine = adapted(tiny("llama-gqa").hf)
    wanted = mine(input_ids=prompts()).logits
    model = hc.load(mine, name="mine")
    assert torch.allclose(model.logits(prompts()), wanted, atol=1e-4)
    assert torch.equal(mine(input_ids=prompts()).logits, wanted), "the user's own is as it was"
    assert all(verdict.passed for verdict in hc.check(model))


@torch.no_grad()
def test_a_live_adapter_has_the_very_same_logits():
    mine = adapted(tiny("llama-gqa").hf)
    live = hc.load(mine, merge=False, name="live")
    assert torch.equal(live.logits(prompts()), mine(input_ids=prompts()).logits)
    task, merged = random_task(), hc.load(mine, name="merged")
    for method in ("patching", "attribution"):
        one, other = (hc.score(model, task, method).values for model in (live, merged))
        assert np.allclose(one, other, atol=1e-3), method
    for method in ("direct", "eap"):
        with pytest.raises(hc.HeadcountError, match="an adapter is live"):
            hc.score(live, task, method)


def test_how_a_live_adapter_is_scaled_is_part_of_what_it_is():
    one, other = (hc.load(adapted(tiny("llama-gqa").hf, lora_alpha=a), merge=False) for a in (16, 8))
    assert one.weights_hash == other.weights_hash
    assert one.fingerprint != other.fingerprint


def test_what_cannot_be_taken_is_refused():
    prefixed = get_peft_model(tiny("llama-gqa").hf, PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    with pytest.raises(hc.HeadcountError, match="prompts or prefixes"):
        hc.load(prefixed)
    with pytest.raises(hc.HeadcountError, match="live on the unembedding"):
        hc.load(adapted(tiny("llama-gqa").hf, target_modules=["lm_head"]), merge=False)


@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`")
def test_an_adapter_with_new_tokens_brings_its_tokenizer(base, tmp_path):
    hf, tokenizer = AutoModelForCausalLM.from_pretrained(base), make_tokenizer("digits")
    hf.resize_token_embeddings(len(tokenizer) + 2, mean_resizing=False)
    adapted(hf, modules_to_save=["embed_tokens", "lm_head"]).save_pretrained(tmp_path / "grown")
    from copy import deepcopy

    grown = deepcopy(tokenizer)
    grown.add_tokens(["<new>", "<newer>"])
    grown.save_pretrained(tmp_path / "grown")
    model = hc.load(tmp_path / "grown")
    assert len(model.encode("<new>")) == 1
    assert model.vocabulary == len(tokenizer) + 2


@torch.no_grad()
def test_a_folder_of_several_shards(tmp_path):
    tiny("llama-gqa").hf.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert torch.equal(hc.load(tmp_path).logits(prompts()), tiny("llama-gqa").logits(prompts()))


def test_a_checkpoint_of_a_trainer_and_the_folder_around_it(base, tmp_path):
    run = tmp_path / "run"
    for step in (20, 100):
        place = shutil.copytree(base, run / f"checkpoint-{step}")
        (place / "trainer_state.json").write_text("{}")
        (place / "optimizer.pt").write_bytes(b"not read")
    for path in (run / "checkpoint-100").glob("tokenizer*"):
        shutil.copy(path, run)
        path.unlink()
    assert hc.load(run / "checkpoint-20").encode("John")
    assert hc.load(run / "checkpoint-100").encode("John"), "its tokenizer lies one level up"
    with pytest.raises(hc.HeadcountError, match="2 checkpoints of a trainer.*checkpoint-100"):
        hc.load(run)


@torch.no_grad()
def test_a_gguf_file(tmp_path):
    model = tiny("llama-gqa")
    path = tmp_path / "tiny.gguf"
    write_gguf(path, model.hf, ["<s>", "</s>", "<unk>", *(f"w{place}" for place in range(61))])
    loaded = hc.load(path)
    assert loaded.name == "tiny.gguf"
    assert torch.allclose(loaded.logits(prompts()), model.logits(prompts()), atol=1e-4)
    with pytest.raises(hc.HeadcountError, match="Give the file itself"):
        hc.load(tmp_path)


def test_bos_is_put_in_front_where_the_tokenizer_does_not(folder):
    plain, begun = hc.load(folder), hc.load(folder, bos=True)
    start = plain.tokenizer.bos_token_id
    assert begun.encode("John") == [start, *plain.encode("John")]
    assert hc.task("ioi", begun, n=4).test[0].clean[0] == start


TEXT = "The heads of this small model were counted one by one, and then counted again."


@pytest.fixture(scope="module")
def lora(tmp_path_factory):
    """An adapter on smollm2 after a few steps of training with peft, and what peft's own model makes of a text."""
    dense = hc.load("smollm2")
    settings = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "o_proj"], task_type="CAUSAL_LM")
    trained = get_peft_model(AutoModelForCausalLM.from_pretrained(dense.hf.name_or_path), settings)
    optimiser = torch.optim.AdamW([weight for weight in trained.parameters() if weight.requires_grad], lr=5e-3)
    ids = torch.tensor([dense.encode(TEXT)])
    for _ in range(4):
        optimiser.zero_grad()
        trained(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
    place = tmp_path_factory.mktemp("adapters") / "my-lora"
    trained.eval().save_pretrained(place)
    with torch.no_grad():
        return place, ids, trained(input_ids=ids).logits, dense.logits(ids)


@pytest.mark.slow
@torch.no_grad()
def test_a_lora_trained_on_smollm2_has_the_logits_of_pefts_own_model(lora):
    place, ids, theirs, dense = lora
    mine = hc.load(place).logits(ids)
    assert torch.allclose(mine, theirs, atol=1e-3)
    assert (theirs - dense).abs().max() > 0.5, "four steps have changed it"


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_a_lora_trained_on_smollm2_runs_through_check_and_studies(lora, headcount, tmp_path):
    place, *_ = lora
    code, out, err = headcount("check", place)
    assert code == 0, out + err
    small = ("--model", place, "-n", 4, "--out", tmp_path / "out")
    kept = ("--task", "ioi", "--points", 3, "--draws", 1, "--repeats", 1, "--threshold", 0.5, "--method", "attribution")
    code, out, err = headcount("run", "heads-kept", *small, *kept, "--order", "absolute")
    assert code == 0, err
    assert "my-lora (270 heads)" in out
    fitted = ("--task", "commonsense", "--seeds", 1, "--updates", 1, "--batch", 1, "--test", 1, "--ks", "1")
    code, out, err = headcount("run", "head-roles", *small, *fitted)
    assert code == 0, err
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["cells"][0]["model"] == "my-lora"
