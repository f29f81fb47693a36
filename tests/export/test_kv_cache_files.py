"""What asks for a full KV cache, in the layouts of those who keep a short one."""

import json
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

import headcount as hc
from headcount.core.exports import EXPORTS

KV_CACHE = EXPORTS["kv-cache"]


@pytest.fixture
def folder(scores, tmp_path):
    return KV_CACHE.write(scores, tmp_path / "cache", {"kv_heads": 2, "sink": 4, "recent": 16, "important": 3})


def test_duo_attentions_folder(folder, scores):
    """Its `load_attn_pattern`: a table of floats with tabs, clipped to 0..1, and two sizes in config.json."""
    heads = np.loadtxt(folder / "full_attention_heads.tsv", dtype=float, delimiter="\t")
    assert heads.shape == (3, 2), "layers x KV heads"
    # The largest positive score of two query heads, against the largest of all, 1.1; -2 asks for nothing.
    np.testing.assert_allclose(heads, np.array([[0, 0.3], [0.5, 0.7], [0.9, 1.1]]) / 1.1)
    assert (np.clip(heads, 0, 1) == heads).all()
    first = (folder / "full_attention_heads.tsv").read_text().splitlines()[0]
    assert first == "\t".join(f"{value:.18e}" for value in heads[0]), "as numpy.savetxt writes it"
    config = json.loads((folder / "config.json").read_text())
    assert (config["sink_size"], config["recent_size"]) == (4, 16)


def test_retrieval_heads_and_headkvs_file(folder, scores):
    """Their readers take the first line, split the key at '-', and average the list."""
    with (folder / "head_score.json").open() as file:
        listed = json.loads(file.readline())
    means = {tuple(map(int, key.split("-"))): np.mean(values) for key, values in listed.items()}
    assert len(means) == 12
    assert all(means[head] == pytest.approx(scores.values[head]) for head in means)
    assert len(listed["0-0"]) == 2, "one score a sample"


def test_vllm_hooks_config(folder):
    """Its reader: (layer, head) of params.important_heads, and hookq.hookq_mode."""
    config = json.loads((folder / "vllm_hook.json").read_text())
    assert config["params"]["important_heads"] == [[2, 3], [2, 2], [2, 1]]
    assert config["hookq"]["hookq_mode"] in ("last_token", "all_tokens")
    assert config["model_info"]["model_id"] == "llama-gqa"


@pytest.mark.skipif(find_spec("kvpress") is None, reason="kvpress is not installed")
@pytest.mark.filterwarnings("ignore")
def test_kvpress_reads_the_folder(folder, monkeypatch):
    """kvpress fetches such folders from the hub of DuoAttention; here it gets ours, and picks its streaming heads."""
    import torch
    from kvpress import DuoAttentionPress
    from kvpress.presses import duo_attention_press as module

    def get(url):
        text = (folder / url.rpartition("/")[2]).read_text()
        return SimpleNamespace(text=text, json=lambda: json.loads(text))

    monkeypatch.setattr(module.requests, "get", get)
    monkeypatch.setitem(module.PATTERNS_DICT, "mine", "mine")
    press = DuoAttentionPress(head_compression_ratio=0.5)
    press.post_init_from_model(SimpleNamespace(config=SimpleNamespace(name_or_path="mine"), device="cpu"))
    assert (press.sink_size, press.recent_size) == (4, 16)
    assert press.streaming_mask.equal(torch.tensor([[True, True], [True, False], [False, False]]))


def test_the_config_of_a_model_says_how_many_kv_heads_there_are(scores, tmp_path):
    from families import tiny

    tiny("llama-gqa").hf.config.save_pretrained(tmp_path / "model")
    folder = KV_CACHE.write(scores, tmp_path / "cache", {"model": str(tmp_path / "model")})
    assert json.loads((folder / "config.json").read_text())["num_kv_heads"] == 2
    with pytest.raises(hc.HeadcountError, match="How many KV heads has the model"):
        KV_CACHE.write(scores, tmp_path / "other", {})
    with pytest.raises(hc.HeadcountError, match="4 heads cannot share 3 KV heads"):
        KV_CACHE.write(scores, tmp_path / "other", {"kv_heads": 3})
