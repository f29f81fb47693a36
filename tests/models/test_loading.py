"""From what the user has to a model: folders, modules, names, and clear words where it cannot be had."""

from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

import headcount as hc
from families import prompts, tiny
from tokenizers_for_tests import make_tokenizer


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "my-model"
    model = tiny("llama-gqa")
    model.hf.save_pretrained(place)
    make_tokenizer("digits").save_pretrained(place)
    return place


@torch.no_grad()
def test_a_local_folder_needs_no_network_and_keeps_its_logits(folder):
    model = hc.load(folder)
    assert model.name == "my-model"
    assert torch.equal(model.logits(prompts()), tiny("llama-gqa").logits(prompts()))
    assert model.tokenizer("John")["input_ids"] != []


def test_a_tokenizer_whose_tokens_the_model_does_not_know_is_told(folder, headcount):
    """This one has more than the 64 tokens of the model."""
    with pytest.raises(hc.HeadcountError, match=r"makes the token id \d+ of 'John', and the model knows 64 tokens"):
        hc.load(folder).encode("John")
    code, out, _ = headcount("check", folder)
    assert code == 1
    assert "FAILED  the tokenizer makes tokens that the model knows" in out
    assert "1 of 9 checks failed." in out


def test_dtype_and_device_pass_through(folder):
    model = hc.load(str(folder), dtype=torch.float64, device="cpu", attn_implementation="eager", name="mine")
    assert model.hf.dtype == torch.float64
    assert model.hf.config._attn_implementation == "eager"
    assert model.name == "mine"


def test_device_map_passes_through(folder):
    assert hc.load(folder, device_map="cpu").device.type == "cpu"


def test_the_fingerprint_is_that_of_the_weights(folder):
    model = tiny("llama-gqa")
    before = model.fingerprint
    assert hc.load(folder).fingerprint == before
    with torch.no_grad():
        model.hf.model.layers[1].mlp.up_proj.weight[0, 0] += 1e-3
    assert hc.load(model.hf).fingerprint != before


def test_a_folder_without_config_is_refused(tmp_path):
    with pytest.raises(hc.HeadcountError, match=r"no config\.json"):
        hc.load(tmp_path)


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(hc.HeadcountError, match="no model folder at"):
        hc.load(tmp_path / "nowhere")


def test_a_broken_folder_is_refused_in_a_sentence(folder):
    (folder / "config.json").write_text('{"model_type": "no-such-type"}')
    with pytest.raises(hc.HeadcountError, match="could not be loaded"):
        hc.load(folder)


def test_an_unknown_name_says_what_was_tried():
    with pytest.raises(hc.HeadcountError, match="neither a named model.*smollm2.*nor a local folder.*hub did not"):
        hc.load("no-such/model")


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("my modl", "Did you mean 'my model'?"),
        ("./my modl", "Did you mean 'my model'?"),
        ("kept/my modl", "Did you mean 'kept/my model'?"),
        ("kpet/my model", "Did you mean 'kept/my model'?"),
        ("foo-", "Known: smollm2,"),
    ],
)
def test_a_misspelt_folder_is_met_with_the_one_beside_it(tmp_path, monkeypatch, source, wanted):
    """In our words, also where huggingface_hub has rules for names."""
    monkeypatch.chdir(tmp_path)
    for there in ("my model", "kept/my model", "kept/another"):
        (tmp_path / there).mkdir(parents=True)
    with pytest.raises(hc.HeadcountError, match="There is no (model )?folder") as error:
        hc.load(source)
    assert wanted in str(error.value)
    assert "alphanumeric" not in str(error.value)


def _refused(kind):
    """As the hub says no."""
    return kind("404 Client Error.", response=SimpleNamespace(headers={}, request=None))


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (lambda: _refused(RepositoryNotFoundError), "no model of that name, or only for those who are logged in"),
        (lambda: _refused(GatedRepoError), "it is gated; ask for access on its page"),
        (lambda: LocalEntryNotFoundError("Cannot find it in the disk cache."), "it was not asked"),
        (lambda: None, "We couldn't connect"),
    ],
)
def test_why_the_hub_did_not_deliver_is_told_in_our_words(monkeypatch, cause, why):
    """As far as transformers says what it stumbled over."""

    def raising(*_, **__):
        raise OSError("We couldn't connect to 'https://huggingface.co' to load the files, and so on.") from cause()

    monkeypatch.setattr("headcount.models.pretrained.check_config", raising)
    with pytest.raises(hc.HeadcountError, match=f"the hub did not deliver it: .*{why}") as found:
        hc.load("smol-lm/one")
    assert ("We couldn't" in str(found.value)) == (cause() is None)


def test_a_module_takes_no_loading_options():
    with pytest.raises(hc.HeadcountError, match="takes no dtype"):
        hc.load(tiny("gpt2").hf, dtype="float32")


@pytest.mark.parametrize(("source", "words"), [(3, "got a int"), (torch.nn.Linear(2, 2), "not a Hugging Face model")])
def test_things_that_are_no_models(source, words):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.load(source)


def test_a_model_introduces_itself_in_a_line():
    assert repr(tiny("gpt2")) == "Model('gpt2', GPT2LMHeadModel, 3 layers of 4 heads)"


def test_text_without_a_tokenizer_says_how_to_pass_one():
    with pytest.raises(hc.HeadcountError, match="tokenizer=tokenizer"):
        tiny("gpt2").encode("hello")


def test_frozen_puts_the_flags_back():
    model = tiny("gpt2")
    model.hf.lm_head.weight.requires_grad_(False)
    before = [p.requires_grad for p in model.hf.parameters()]
    with pytest.raises(RuntimeError, match="on the way"), model.frozen():
        assert not any(p.requires_grad for p in model.hf.parameters())
        raise RuntimeError("on the way")
    assert [p.requires_grad for p in model.hf.parameters()] == before


def test_a_revision_is_that_of_a_model_on_the_hub(folder, headcount, tmp_path):
    for local in (folder, "tiny"):
        with pytest.raises(
            hc.HeadcountError, match="A revision belongs to a model on the hub, and .* is on this machine"
        ):
            hc.load(local, revision="main")
    asked = ("--model", folder, "--task", "ioi", "--quick", "--out", tmp_path / "out")
    code, _, said = headcount("run", "heads-kept", *asked, "--revision", "main")
    assert (code, "A revision belongs to" in said, (tmp_path / "out").exists()) == (2, True, False)
