"""A sparse model on disk: adapters and whole weights load alike, and everything works on what was loaded."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

import headcount as hc
from headcount.edit.attention import eager_attention
from headcount.models.gated_folder import SparseFacts
from headcount.models.gates import drawn, gates_of
from short_runs import changed, run

RECIPE = changed(start=-3.5, steps=8)


@pytest.fixture(scope="module")
def adapter(folder, text, tmp_path_factory):
    place = tmp_path_factory.mktemp("sparse") / "tiny-llama-sparse"
    run(folder, text, place, RECIPE)
    return place


@pytest.fixture(scope="module")
def model(adapter):
    return hc.load(adapter)


@torch.no_grad()
def test_an_adapter_is_merged_into_its_base_and_its_gates_are_hard(model, folder):
    dense = hc.load(folder)
    assert model.name == "tiny-llama-sparse"
    assert len(gates_of(model)) == model.n_layers
    assert {gates.mode for gates in gates_of(model)} == {"hard"}
    assert [type(m) for m in model.hf.modules() if type(m).__name__ == "Linear"] != []
    assert not [name for name, _ in model.hf.named_modules() if "lora" in name]
    assert model.fingerprint != dense.fingerprint
    ids = torch.tensor([dense.encode("We saw Mary and John in the year 1742")])
    assert (model.logits(ids) - dense.logits(ids)).abs().max() > 1e-3


def test_an_adapter_is_small_and_has_a_card(adapter, folder):
    size = sum(path.stat().st_size for path in adapter.iterdir() if path.name.startswith(("adapter", "gates")))
    assert size < 0.2 * (Path(folder) / "model.safetensors").stat().st_size
    card = (adapter / "README.md").read_text()
    for words in (
        "open edges",
        "at T = 16",
        "keys per query",
        "the dense model's",
        "heads that never open",
        "names.txt",
    ):
        assert words in card


@torch.no_grad()
def test_merged_it_is_a_whole_model_that_transformers_loads_too(folder, text, adapter, model, tmp_path):
    run(folder, text, tmp_path, RECIPE, merge=True)
    merged = hc.load(tmp_path)
    ids = torch.tensor([model.encode("We saw Mary and John in the year 1742")])
    torch.testing.assert_close(merged.logits(ids), model.logits(ids), atol=5e-3, rtol=0)  # adapters are kept in halves
    dense = AutoModelForCausalLM.from_pretrained(tmp_path)
    with drawn(gates_of(merged), "open"):
        torch.testing.assert_close(dense(input_ids=ids).logits, merged.logits(ids), atol=1e-5, rtol=0)


@torch.no_grad()
def test_adapters_go_on_whole_layers_too(folder, text, tmp_path):
    run(folder, text, tmp_path, changed(lora_on="layers", lr=1e-2))
    targets = json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"]
    assert {target.split(".")[-1][0] for target in targets} == set("qkvogud")  # …, gate_proj, up_proj, down_proj
    model, dense = hc.load(tmp_path), hc.load(folder)
    changes = [
        (mine - dense.hf.get_parameter(name)).abs().max()
        for name, mine in model.hf.named_parameters()
        if name.endswith("_proj.weight")
    ]
    assert min(changes) > 0


@torch.no_grad()
def test_training_goes_on_from_an_earlier_result(folder, text, adapter, tmp_path):
    run(folder, text, tmp_path, changed(start=-3.5, steps=1, lr=1e-12, gate_lr=0.0), start_from=adapter)
    ids = torch.tensor([[5, 9, 12, 7, 30]])
    torch.testing.assert_close(hc.load(tmp_path).logits(ids), hc.load(adapter).logits(ids), atol=1e-4, rtol=0)
    with pytest.raises(hc.HeadcountError, match="has the rank 2"):
        run(folder, text, tmp_path / "other", changed(lora=4), start_from=adapter)
    with pytest.raises(hc.HeadcountError, match="are log-prob, of sharpness 1"):
        run(folder, text, tmp_path / "other", changed(form="logit"), start_from=adapter)


def test_an_adapter_on_the_wrong_base_is_refused(adapter, folder, tmp_path):
    other = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        other.lm_head.weight.add_(0.1)
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(hc.HeadcountError, match=r"was trained on .*tiny-llama with the weights .* Name the one"):
        hc.load(adapter, base=tmp_path / "other")


def test_a_base_is_known_again_in_another_precision(adapter, folder, tmp_path):
    for dtype in (torch.float16, torch.float64):
        assert hc.load(adapter, dtype=dtype).hf.dtype == dtype
    other = hc.load(folder).hf
    with torch.no_grad():
        next(iter(other.parameters())).mul_(1.01)
    other.save_pretrained(tmp_path)
    with pytest.raises(hc.HeadcountError, match="the base that was found has the weights"):
        hc.load(adapter, base=tmp_path, dtype=torch.float16)


def test_a_base_that_has_moved_can_be_named(adapter, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "moved")
    copied = tmp_path / "adapter"
    shutil.copytree(adapter, copied)
    facts = SparseFacts.load(copied)
    SparseFacts(**{**vars(facts), "base": str(tmp_path / "gone")}).save(copied)
    with pytest.raises(hc.HeadcountError, match="There is no model folder at .*gone"):
        hc.load(copied)
    assert hc.load(copied, base=tmp_path / "moved").fingerprint == hc.load(adapter).fingerprint


def test_a_base_on_the_hub_is_loaded_in_the_revision_it_had(adapter, folder, tmp_path):
    """As the hub's cache holds what it has fetched; its newest revision is another model."""
    kept = tmp_path / "hub" / "models--me--base"
    shutil.copytree(folder, kept / "snapshots" / ("1" * 40))
    other = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        other.lm_head.weight.add_(0.1)
    other.save_pretrained(kept / "snapshots" / ("2" * 40))
    (kept / "refs").mkdir()
    (kept / "refs" / "v1").write_text("1" * 40)
    (kept / "refs" / "main").write_text("2" * 40)
    cached = {"cache_dir": str(tmp_path / "hub"), "local_files_only": True}
    copied = tmp_path / "adapter"
    shutil.copytree(adapter, copied)
    facts = vars(SparseFacts.load(copied)) | {"base": "me/base"}
    SparseFacts(**facts).save(copied)
    with pytest.raises(hc.HeadcountError, match="the base that was found has the weights"):
        hc.load(copied, **cached)
    SparseFacts(**{**facts, "base_revision": "v1"}).save(copied)
    assert hc.load(copied, **cached).fingerprint == hc.load(adapter).fingerprint


def test_of_an_adapter_whole_weights_are_written(folder, text, tmp_path):
    config = LoraConfig(r=2, target_modules=["q_proj"])
    get_peft_model(AutoModelForCausalLM.from_pretrained(folder), config).save_pretrained(tmp_path / "lora")
    shutil.copytree(folder, tmp_path / "moved")
    asked = {"recipe": changed(steps=1), "base": tmp_path / "moved"}
    with pytest.raises(hc.HeadcountError, match="on which no other can go. Give --merge"):
        run(tmp_path / "lora", text, tmp_path / "out", **asked)
    run(tmp_path / "lora", text, tmp_path / "out", **asked, merge=True)
    assert len(gates_of(hc.load(tmp_path / "out"))) == hc.load(folder).n_layers


def test_what_is_no_sparse_folder_is_refused(folder, text, adapter, tmp_path):
    with pytest.raises(hc.HeadcountError, match="A base belongs to an adapter"):
        hc.load(folder, base="smollm2")
    (tmp_path / "sparse.json").write_text("{}")
    with pytest.raises(hc.HeadcountError, match="is not what headcount sparsify writes"):
        hc.load(tmp_path)
    broken = tmp_path / "broken"
    shutil.copytree(adapter, broken)
    (broken / "gates.safetensors").write_bytes(b"?")
    with pytest.raises(hc.HeadcountError, match="The gates in .* cannot be read"):
        hc.load(broken)
    with pytest.raises(hc.HeadcountError, match="holds a finished model"):
        run(folder, text, adapter, RECIPE)
    with pytest.raises(hc.HeadcountError, match="is sparse already"):
        run(str(adapter), text, tmp_path / "out", RECIPE)


def test_files_of_others_are_not_written_over(folder, text, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(hc.HeadcountError, match=r"holds other files \(README.md\). Give --out a new"):
        run(folder, text, tmp_path, RECIPE)
    with pytest.raises(hc.HeadcountError, match="holds other files"):
        run(folder, text, folder, RECIPE)
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"control": True}, "is a sparse model; a run goes on from one of its own kind"),
        ({"sharpness": 3.0}, "The gates in .* are log-prob, of sharpness"),
        ({"lora": None}, "--start-from takes the folder of an adapter"),
        ({"lora_on": "layers"}, "is on attention; give --lora-on attention"),
    ],
)
def test_only_a_run_of_the_same_kind_goes_on_from_a_result(folder, text, adapter, tmp_path, settings, words):
    with pytest.raises(hc.HeadcountError, match=words):
        run(folder, text, tmp_path / "out", changed(**{**dict(RECIPE), **settings}), start_from=adapter)


def test_an_adapter_is_written_the_same_way_every_time(adapter):
    targets = json.loads((adapter / "adapter_config.json").read_text())["target_modules"]
    assert targets == sorted(targets)


class TestEverythingWorks:
    def test_the_self_test_passes(self, model):
        assert [verdict.name for verdict in hc.check(model) if not verdict.passed] == []

    def test_scores_sweeps_and_circuits(self, model):
        task = hc.task("ioi", model, n=8)
        exact, fast = hc.score(model, task, "patching"), hc.score(model, task, "attribution")
        assert np.isfinite(exact.values).all()
        assert np.isfinite(fast.values).all()
        curve = hc.sweep(model, task, fast, keep="top", points=4)
        assert curve.band().value[-1] == pytest.approx(1)
        edges = hc.score(model, task, "eap-ig", steps=2)
        kept = hc.sweep(model, task, edges, keep="top", points=4, threshold=0)
        assert kept.band().value[-1] == pytest.approx(1)

    def test_roles(self, model):
        task = hc.task("ioi", model, n=8)
        roles = hc.fit_roles(model, task, hc.Fit(seeds=1, updates=2, batch=2))
        assert np.isfinite(roles.score("facilitation")).all()

    def test_generation(self, model):
        asked = [model.encode(prompt) for prompt in ("We saw Mary and", "The year 1742")]
        ((first, second),) = hc.generate(model, asked, max_new_tokens=3)
        for prompt, answer in zip(asked, (first, second), strict=True):
            for at in range(len(answer)):
                logits = model.logits(torch.tensor([[*prompt, *answer[:at]]]))
                assert int(logits[0, -1].argmax()) == answer[at]

    def test_patterns_are_seen_through_the_gates(self, model):
        with eager_attention(model), torch.no_grad():
            patterns = model.hf(input_ids=torch.arange(40)[None], output_attentions=True).attentions
        past = torch.ones(40, 40).tril().bool()
        assert 0 < float((torch.stack(patterns)[..., past] == 0).double().mean()) < 1
