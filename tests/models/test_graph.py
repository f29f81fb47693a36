"""The graph: counts that are known, names, order, and parallel and grouped variants."""

import json
from pathlib import Path

import numpy as np
import pytest

from headcount.models.graph import Graph

GOLDEN = Path(__file__).parent.parent / "golden" / "gpt2_tiny"


@pytest.mark.parametrize(
    ("name", "layers", "heads", "edges"),
    [
        ("GPT-2 small", 12, 12, 32_491),
        ("GPT-2 medium", 24, 16, 231_877),
        ("GPT-2 XL", 48, 25, 2_235_025),
        ("Qwen2.5-0.5B, per query head", 24, 14, 179_749),
        ("Llama-3.2-1B, per query head", 16, 32, 386_713),
        ("OLMo-7B", 32, 32, 1_592_881),
    ],
)
def test_published_counts(name, layers, heads, edges):
    graph = Graph(layers, heads, heads)
    assert graph.n_edges == edges
    assert len(graph.writers) == 1 + layers * (heads + 1)
    assert len(graph.readers) == layers * (3 * heads + 1) + 1


@pytest.mark.parametrize(
    ("name", "layers", "heads", "edges"),
    [("GPT-2 small", 12, 12, 11_611), ("SmolLM2-135M", 30, 9, 44_371), ("OLMo-7B", 32, 32, 543_281)],
)
def test_counts_of_whole_edges(name, layers, heads, edges):
    graph = Graph(layers, heads, heads, whole=True)
    assert graph.n_edges == edges
    assert len(graph.readers) == len(graph.writers)  # the logits read and do not write, the input writes alone
    assert graph.readers[heads - 1 : heads + 1] == (f"a0.h{heads - 1}", "m0")


@pytest.mark.parametrize("parallel", [False, True])
def test_a_whole_edge_into_a_head_is_its_edges_into_query_key_and_value(parallel):
    graph = Graph(3, 4, 4, parallel, whole=True)
    assert graph.split == Graph(3, 4, 4, parallel)
    parts = [graph.readers[owner] for owner in graph.whole_readers]
    assert parts == [name.partition("<")[0] for name in graph.split.readers]
    assert np.array_equal(graph.real[:, graph.whole_readers], graph.split.real)
    scores = np.random.default_rng(0).random(graph.split.real.shape)
    summed, head = graph.summed_to_whole(scores), graph.readers.index("a1.h2")
    split = [graph.split.readers.index(f"a1.h2<{role}>") for role in "qkv"]
    np.testing.assert_allclose(summed[:, head], scores[:, split].sum(1))
    np.testing.assert_array_equal(summed[:, -1], scores[:, -1])
    np.testing.assert_array_equal(graph.split.summed_to_whole(scores), scores)


def test_dangling_whole_edges_are_those_whose_parts_dangle():
    graph = Graph(3, 4, 4, whole=True)
    for seed in range(5):
        keep = np.random.default_rng(seed).random(graph.real.shape) < 0.25
        pruned = graph.pruned(keep)
        assert 0 < pruned.sum() < (keep & graph.real).sum()
        split = graph.split.pruned(keep[:, graph.whole_readers])
        np.testing.assert_array_equal(pruned[:, graph.whole_readers], split)


def test_names_and_order():
    nodes = json.loads((GOLDEN / "nodes.json").read_text())
    graph = Graph(3, 4, 4)
    assert list(graph.writers) == nodes["forward"]
    assert list(graph.readers) == nodes["backward"]
    assert graph.n_edges == nodes["n_edges"]
    assert graph.edge_name((2, 39)) == "a0.h1 -> logits"


def test_keys_and_values_are_read_once_for_each_kv_head():
    graph = Graph(2, 4, 2)
    assert graph.readers[:9] == (
        "a0.h0<q>", "a0.h1<q>", "a0.h2<q>", "a0.h3<q>", "a0.h0<k>", "a0.h1<k>", "a0.h0<v>", "a0.h1<v>", "m0",
    )  # fmt: skip


def test_in_parallel_blocks_the_heads_of_a_layer_do_not_feed_its_mlp():
    sequential, parallel = Graph(2, 4, 4), Graph(2, 4, 4, parallel=True)
    assert sequential.n_edges - parallel.n_edges == 2 * 4
    head, mlp = parallel.writers.index("a1.h2"), parallel.readers.index("m1")
    assert sequential.real[head, mlp]
    assert not parallel.real[head, mlp]
    assert parallel.real[head, -1]
