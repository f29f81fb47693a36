"""A model is loaded whole or not at all: what a file lacks, has too much of, or contradicts, is refused by its name."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import headcount as hc
from families import tiny
from tokenizers_for_tests import make_tokenizer

DOWN = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("whole") / "llama"
    tiny("llama-gqa").hf.save_pretrained(place)
    make_tokenizer("digits").save_pretrained(place)
    return place


@pytest.fixture
def damaged(whole, tmp_path):
    """A copy of the folder; `weights` and `config` change what lies in it."""
    place = tmp_path / "llama"
    shutil.copytree(whole, place)

    class Damaged:
        folder = place

        @staticmethod
        def weights(change):
            tensors = load_file(place / "model.safetensors")
            change(tensors)
            save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})

        @staticmethod
        def config(**values):
            facts = json.loads((place / "config.json").read_text())
            (place / "config.json").write_text(json.dumps(facts | values))

    return Damaged


def refused(folder, words, **options):
    with pytest.raises(hc.HeadcountError, match=words) as found:
        hc.load(folder, **options)
    assert len(str(found.value)) <= 300
    return str(found.value)


def test_a_missing_tensor_is_named_by_load_check_and_every_study(damaged, headcount, tmp_path):
    damaged.weights(lambda tensors: tensors.pop(DOWN))
    refused(damaged.folder, f"is not whole: {DOWN} is in the model and not in its files")
    commands = [["check", damaged.folder], ["score", damaged.folder, "ioi", "--out", tmp_path / "scores"]]
    kinds = ("heads-kept", "edges-kept", "attention-edges-kept", "head-roles", "masked-heads")
    for command in (*commands, *(["run", kind, "--model", damaged.folder, "--out", tmp_path / kind] for kind in kinds)):
        code, _, said = headcount(*command)
        assert (code, DOWN in said) == (2, True), said


def test_a_tensor_that_nothing_takes_is_named(damaged):
    damaged.weights(lambda tensors: tensors.update({"model.layers.3.mlp.up_proj.weight": torch.ones(2, 2)}))
    refused(damaged.folder, r"another model: model\.layers\.3\.mlp\.up_proj\.weight is in its files and not in the")


def test_a_tensor_of_another_shape_is_named_with_both_shapes(damaged):
    damaged.weights(lambda tensors: tensors.update({DOWN: tensors[DOWN][:, :40].contiguous()}))
    refused(damaged.folder, rf"{DOWN} has the shape \[32, 40\] in the file, and the config wants \[32, 48\]")


def test_weights_that_are_no_numbers_are_named(damaged):
    damaged.weights(lambda tensors: tensors[DOWN][0].fill_(torch.nan))
    refused(damaged.folder, f"its weight {DOWN} holds numbers that are not finite")


def test_what_half_precision_cannot_hold_is_not_called_damaged(damaged):
    damaged.weights(lambda tensors: tensors[DOWN][0].fill_(1e6))
    assert hc.load(damaged.folder).n_layers == 3
    refused(damaged.folder, rf"{DOWN} holds numbers that are not finite in float16. If .* float32", dtype="float16")


def test_whole_numbers_that_no_config_explains_are_named(damaged):
    damaged.weights(lambda tensors: tensors.update({DOWN: (100 * tensors[DOWN]).to(torch.int8)}))
    refused(damaged.folder, rf"has {DOWN} in whole numbers \(I8\), and no quantization_config")


def test_a_file_beside_the_weights_may_be_anything(damaged):
    (damaged.folder / "other.safetensors").write_bytes(b"not even that")
    (damaged.folder / "more.safetensors").mkdir()
    assert hc.load(damaged.folder).n_layers == 3


def test_more_layers_in_the_config_than_in_the_file(damaged):
    damaged.config(num_hidden_layers=5)
    refused(damaged.folder, r"is not whole: model\.layers\.3\..* and 16 more are in the model")


@pytest.mark.parametrize("named", [1.5, "LlamaForCausalLM", [7]])
def test_architectures_are_a_list_of_names(damaged, named):
    damaged.config(architectures=named)
    refused(damaged.folder, "says architectures = .*, which must be a list of names")


@pytest.mark.parametrize("dtype", ["nope", 7, "Tensor"])
def test_a_type_of_weights_that_is_none_is_named(damaged, dtype):
    """And not taken for a fault of the tokenizer, which transformers reads with the config."""
    damaged.config(dtype=dtype)
    refused(damaged.folder, "says dtype = .*, which is no type of weights")


def test_a_classifier_is_no_language_model(damaged):
    damaged.config(architectures=["LlamaForSequenceClassification"])
    damaged.weights(lambda tensors: tensors.update({"score.weight": tensors.pop("lm_head.weight")[:2].contiguous()}))
    said = refused(damaged.folder, "a LlamaForSequenceClassification and no language model, is not whole")
    assert "lm_head.weight" in said
    from transformers import LlamaForSequenceClassification

    with pytest.raises(hc.HeadcountError, match="no unembedding; headcount needs a causal language model"):
        hc.load(LlamaForSequenceClassification(tiny("llama-gqa").hf.config))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_layers": 10**9}, "says num_hidden_layers = 1000000000, and a model has from 1 to 2,000 layers"),
        ({"num_attention_heads": 0}, "says num_attention_heads = 0"),
        ({"num_key_value_heads": 0}, "says num_key_value_heads = 0"),
        ({"head_dim": 0}, "says head_dim = 0"),
        ({"vocab_size": 10**8}, "describes a model of .* weights, and its weight files have"),
        ({"pad_token_id": 10**6}, "could not be loaded"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "could not be loaded"),
        ({"quantization_config": [1]}, "could not be loaded"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": float("nan")}}, "says 'rope_theta' = NaN"),
        ({"rms_norm_eps": float("nan")}, "says 'rms_norm_eps' = NaN"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": "x"}}, "could not be loaded|does not run"),
    ],
)
def test_a_config_that_cannot_be_is_refused(damaged, changes, words):
    damaged.config(**changes)
    refused(damaged.folder, words)


def test_a_pickle_with_foreign_objects_is_refused_and_not_run(damaged, tmp_path):
    import pickle

    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (damaged.folder / "model.safetensors").unlink()
    (damaged.folder / "pytorch_model.bin").write_bytes(pickle.dumps({"lm_head.weight": Hostile()}))
    refused(damaged.folder, "could not be loaded")
    assert not (tmp_path / "ran").exists()


def test_a_device_without_memory_and_a_type_that_is_none_are_refused(whole):
    refused(whole, "The device 'meta' cannot be used here", device="meta")
    refused(whole, "could not be loaded", dtype="float7")


def test_a_name_that_can_be_no_folder_is_refused():
    refused("~nobody-lives-here/x", "begins with a user's home that is not known")
    refused("/x" + "y" * 500, "is longer than the name of a file can be")


def test_what_is_wrong_with_a_tokenizer_is_said_when_it_is_needed(damaged, whole):
    (damaged.folder / "tokenizer.json").write_text('{"version": "9"')
    with pytest.raises(hc.HeadcountError, match=r"without a tokenizer, .* \(its tokenizer cannot be read: "):
        hc.load(damaged.folder).encode("John")
    shutil.copy(whole / "tokenizer.json", damaged.folder)
    (damaged.folder / "tokenizer_config.json").write_text('{"model_max_length": "many"}')
    with pytest.raises(hc.HeadcountError, match=r"\(its tokenizer cannot be read: '>' not supported"):
        hc.load(damaged.folder).encode("John")
    for path in damaged.folder.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(hc.HeadcountError, match=r"\(its folder has none of tokenizer\.json, "):
        hc.load(damaged.folder).encode("John")


class TestFingerprints:
    @pytest.mark.parametrize("way", ["in place", "data", "swapped", "numpy", "config"])
    def test_weights_changed_in_memory_have_another_one(self, way):
        model = tiny("gpt2")
        before, weight = model.fingerprint, model.hf.transformer.h[0].mlp.c_fc.weight
        assert model.fingerprint == before
        with torch.no_grad():
            if way == "in place":
                weight[3, 3] += 1e-3
            elif way == "data":
                weight.data[3, 3] += 1e-3
            elif way == "swapped":
                weight.data[[2, 5]] = weight.data[[5, 2]]
            elif way == "numpy":
                weight.detach().numpy()[0, 0] = 9
            else:
                model.hf.config.layer_norm_epsilon = 0.1
        assert model.fingerprint != before

    @pytest.mark.parametrize("glance", ["glance_at", "sums_of"])
    def test_large_weights_too(self, glance):
        """The second is for an accelerator, whose memory is not copied."""
        from headcount.models import weights_hash

        block, look = weights_hash.BLOCK, getattr(weights_hash, glance)
        weight = torch.randn(5 * block + 3, 2)
        before = look(weight)
        for first, second in ((0, 1), (1, block), (2, 2 + block), (5, len(weight) - 1)):
            other = weight.clone()
            other[[first, second]] = other[[second, first]]
            assert look(other) != before
        assert look(weight.clone()) == before

    def test_a_fit_of_other_weights_is_not_gone_on_from(self, own_cache):
        from headcount.rank.descent import checkpoint_of

        model = tiny("gpt2")
        before = checkpoint_of(model, {}).key
        with torch.no_grad():
            model.hf.lm_head.weight += 1e-3
        assert checkpoint_of(model, {}).key != before
