"""The folder of a sparse model is loaded whole or not at all: adapter, gates and facts."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import headcount as hc
from families import tiny
from headcount.models.adapters import ADAPTER
from headcount.models.gated_folder import FACTS, GATES, SparseFacts


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An adapter with gates, and the base that it goes on."""
    from peft import LoraConfig, get_peft_model

    home, model = tmp_path_factory.mktemp("adapter"), tiny("llama-gqa")
    model.hf.save_pretrained(home / "base")
    facts = SparseFacts("log-prob", 2.0, str(home / "base"), model.weights_hash)
    get_peft_model(model.hf, LoraConfig("CAUSAL_LM", r=2, target_modules=["q_proj"])).save_pretrained(home / "sparse")
    save_file({"offset": torch.zeros(3, 4)}, home / "sparse" / GATES)
    facts.save(home / "sparse")
    assert hc.load(home / "sparse").name == "sparse"
    return home / "sparse"


@pytest.fixture
def sparse(whole, tmp_path):
    place = tmp_path / "sparse"
    shutil.copytree(whole, place)
    return place


def no_numbers(tensors):
    next(iter(tensors.values())).fill_(torch.nan)


def changed(path, change):
    tensors = load_file(path)
    found = change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in (found or tensors).items()}, path)


def refused(folder, words):
    with pytest.raises(hc.HeadcountError, match=words) as found:
        hc.load(folder)
    assert len(str(found.value)) <= 300


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: {name.replace("lora_A", "lora_X"): value for name, value in t.items()}, "lora_A.* not in its files"),
        (lambda t: dict(list(t.items())[::2]), "is not whole: .* more are in the model and not in its files"),
        (lambda t: {name: value[: len(value) // 2] for name, value in t.items()}, "size mismatch for .*lora_"),
        (lambda t: {**t, "base_model.model.extra": torch.ones(2)}, "base_model.model.extra is in its files and not"),
        (no_numbers, "numbers that are not finite"),
    ],
)
def test_an_adapter_whose_tensors_are_not_its_own_is_refused(sparse, change, words):
    changed(sparse / ADAPTER, change)
    refused(sparse, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (no_numbers, "some are not finite numbers"),
        (lambda t: {"offset": t["offset"][:, :1]}, r"have the shape \[3, 1\], and the model has 3 layers of 4 heads"),
        (lambda t: {"offset": t["offset"].flatten()}, r"have the shape \[12\]"),
        (lambda t: {"offset": t["offset"].int()}, "some are not finite numbers"),
        (lambda t: {"other": t["offset"]}, "cannot be read"),
    ],
)
def test_gates_of_another_shape_or_no_numbers_are_refused(sparse, change, words):
    changed(sparse / GATES, change)
    refused(sparse, words)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"form": "soft"}, "is not what headcount sparsify writes: form"),
        ({"sharpness": "2"}, "sparsify writes: sharpness"),
        ({"sharpness": -1.0}, "sharpness must be a number above 0"),
        ({"base": 7}, "sparsify writes: base"),
        ({"base_norms": [1.0, "x"]}, r"sparsify writes: base_norms\.1"),
        ({"colour": 1}, "sparsify writes: colour"),
    ],
)
def test_facts_are_checked_to_the_leaves(sparse, facts, words):
    found = json.loads((sparse / FACTS).read_text())
    (sparse / FACTS).write_text(json.dumps(found | facts))
    refused(sparse, words)


def test_an_adapter_that_names_itself_as_its_base_is_refused(sparse):
    found = json.loads((sparse / FACTS).read_text())
    (sparse / FACTS).write_text(json.dumps(found | {"base": str(sparse)}))
    refused(sparse, "as its base, which is no dense model")
    with pytest.raises(hc.HeadcountError, match="There is no config.json in|cannot be used"):
        hc.forecast(str(sparse))
