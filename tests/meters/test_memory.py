"""Forecasts: edges of well-known models from their shape alone, batches that fit, and what is too large."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig

import headcount as hc
from families import FAMILIES, pairs, random_task, tiny
from headcount.meters import CircuitMeter
from headcount.meters.memory import DEFAULT_MEMORY, Sizes, parse_bytes, plan_circuits, plan_scores
from headcount.models.graph import Graph
from headcount.models.wiring import find_graph

TASK = random_task()
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "readers", "edges", "weights"),
    [
        ("gpt2", "kv-heads", 32_491, 0.498e9),
        ("llama-3.2-1b", "query-heads", 386_713, 4.94e9),
        ("llama-3.1-8b", "query-heads", 1_592_881, 32.1e9),
        ("olmo-7b", "kv-heads", 1_592_881, 27.6e9),
    ],
)
def test_well_known_models(name, readers, edges, weights):
    found = hc.forecast(name, readers=readers)
    assert found.sizes.graph.n_edges == edges
    assert found.weights == pytest.approx(weights, rel=0.01)


def test_seven_billion_parameters_fit_by_design():
    """One prompt of 20 tokens: 1.3 GB beyond the weights, where writers x readers x d would be 1,000 times that."""
    for name in ("llama-3.1-8b", "olmo-7b"):
        sizes = hc.forecast(name).sizes
        assert sizes.score_bytes(20, 1, 1, 5) < 1.4e9
        assert sizes.circuit_bytes(20, 1, 1) + sizes.base_bytes(20) < 0.6e9


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sizes_of_a_config_are_those_of_the_model(family):
    model = tiny(family)
    sizes = Sizes.of_model(model, "kv-heads")
    assert sizes.graph == find_graph(model)
    assert sizes.width == 32
    assert sizes.query_features == model.n_heads * model.anatomy.head_size
    assert sizes.mlp_features in (48, 128)


def test_a_folder_with_nothing_but_a_config(tmp_path):
    LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=64).save_pretrained(
        tmp_path
    )
    assert hc.forecast(str(tmp_path)).sizes.graph.n_edges == Graph(2, 4, 2).n_edges
    assert hc.forecast(str(tmp_path / "config.json")).sizes.graph.n_edges == Graph(2, 4, 2).n_edges


def test_the_batch_grows_with_the_memory_and_never_beyond_it():
    sizes = Sizes.of_model(tiny("llama-gqa"), "kv-heads")
    many = pairs(60)
    before = 0
    for memory in (500_000, 1_000_000, 4_000_000, 64_000_000):
        plan = plan_scores(sizes, many, 5, memory, CPU)
        assert plan.bytes <= memory
        assert before <= plan.tokens
        before = plan.tokens
    assert plan.at_once == 5


def test_what_gpt2_small_needs_at_eight_prompts_stays_below_half_a_gigabyte():
    with torch.device("meta"):
        hf = GPT2LMHeadModel(GPT2Config())
    sizes = Sizes.of_config(hf.config, "kv-heads", 4)
    eight = [hc.Pair((1,) * 16, (2,) * 16, (0,), (1,))] * 8
    for plan in (plan_scores(sizes, eight, 5, None, CPU), plan_circuits(sizes, eight, None, CPU)):
        assert plan.tokens == 128
        assert plan.bytes <= DEFAULT_MEMORY
        assert plan.at_once >= 2


def test_too_little_memory_for_one_prompt():
    model = tiny("gpt2")
    with pytest.raises(hc.HeadcountError, match="One prompt of 10 tokens needs .* and 10 kB are allowed. Allow more"):
        hc.score(model, TASK, "eap", memory=10_000)
    with pytest.raises(hc.HeadcountError, match="One prompt of 10 tokens needs"):
        CircuitMeter(model, TASK.test, memory=10_000)


def test_a_machine_without_memory(monkeypatch):
    monkeypatch.setattr("headcount.meters.memory.free_memory", lambda device: 1000)
    with pytest.raises(hc.HeadcountError, match="are free on cpu. Use shorter prompts, a smaller model"):
        hc.score(tiny("gpt2"), TASK, "eap")


def test_memory_as_text():
    assert parse_bytes("8GB") == parse_bytes("8 g") == 8_000_000_000
    assert parse_bytes("1.5 mb") == 1_500_000
    for wrong in ("", "much", "-1GB", "0GB", "1.2.3GB", "8", "500b"):
        with pytest.raises(hc.HeadcountError, match="Memory is written as 8GB"):
            parse_bytes(wrong)


def test_more_memory_never_fails_where_less_works():
    sizes = Sizes.of_model(tiny("llama-gqa"), "kv-heads")
    least = sizes.circuit_bytes(10, 1, 1) + sizes.base_bytes(10)
    for extra in range(0, 2_000_000, 20_000):
        plan = plan_circuits(sizes, pairs(40), least + extra, CPU)
        assert plan.bytes <= least + extra


def test_what_has_no_config_or_no_edges(tmp_path):
    with pytest.raises(hc.HeadcountError, match=r"There is no config\.json in .*save_pretrained"):
        hc.forecast(str(tmp_path))
    for text in ("{", '{"model_type": "llama", "hidden_size": "abc"}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(hc.HeadcountError, match="The config (in .* cannot be used|of .* says hidden_size = 'abc')"):
            hc.forecast(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(hc.HeadcountError, match="not supported for the family 'bert'. Use a model of"):
        hc.forecast(str(tmp_path))
    with pytest.raises(hc.HeadcountError, match="There is no type 'float7'"):
        hc.forecast("gpt2", dtype="float7")
    with pytest.raises(hc.HeadcountError, match="Readers are kv-heads or query-heads"):
        hc.forecast("gpt2", readers="neurons")
