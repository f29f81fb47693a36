"""Edge attribution against reference numbers, and against finite differences of one edge on every family."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

import headcount as hc
from families import FAMILIES, random_task, tiny
from headcount.meters import CircuitMeter
from headcount.models.graph import Graph
from one_reader import metric_with_one_reader_moved, run, some_edges

GOLDEN = Path(__file__).parent.parent / "golden" / "gpt2_tiny"
TASK = random_task()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-5)])
@pytest.mark.parametrize(
    ("method", "steps", "name"),
    [
        ("eap", 5, "eap"),
        ("eap-ig", 5, "eap_ig_inputs_5"),
        ("eap-ig", 20, "eap_ig_inputs_20"),
        ("eap-clean-corrupted", 5, "clean_corrupted"),
        ("edge-patching", 5, "exact"),
    ],
)
def test_reference_numbers(golden_task, dtype, tolerance, method, steps, name):
    wanted = load_file(GOLDEN / "scores.safetensors")
    scores = hc.score(hc.load(GOLDEN, dtype=dtype), golden_task, method, steps=steps)
    # The reference says what corrupting an edge does; ours what keeping it does.
    np.testing.assert_allclose(scores.values, -wanted[name], atol=tolerance * np.abs(wanted[name]).max(), rtol=0)
    assert np.array_equal(scores.graph.real, wanted["real_edge_mask"].astype(bool))


@pytest.mark.parametrize("family", FAMILIES)
def test_eap_equals_finite_differences_of_one_edge(family):
    model = tiny(family, torch.float64)
    pair = TASK.train[0]
    scores = hc.score(model, hc.Task("one", "One", "logit_diff", (pair,), (pair,)), "eap")
    clean, _ = run(model, torch.tensor([pair.clean]))
    corrupt, _ = run(model, torch.tensor([pair.corrupt]))
    step = 1e-3  # some families compute norms in float32 whatever the model's type
    largest = np.abs(scores.values).max()
    for writer, reader in some_edges(scores.graph, np.random.default_rng(0)):
        direction = clean[writer] - corrupt[writer]
        up, down = (metric_with_one_reader_moved(model, pair, reader, e * direction) for e in (step, -step))
        wanted = (up - down) / (2 * step)
        name = scores.graph.edge_name((writer, reader))
        assert scores.values[writer, reader] == pytest.approx(wanted, abs=1e-3 * largest, rel=2e-3), name


@pytest.mark.parametrize("family", FAMILIES)
def test_what_writers_write_adds_up_to_the_stream(family):
    """The embedding, all heads and all MLPs, with what belongs to no writer: positions and output biases."""
    model = tiny(family, torch.float64)
    written, trace = run(model, torch.tensor([TASK.train[0].clean]))
    positions = trace.attention_stream[0][0] - written[0]
    assert (positions.abs().max() > 0) == (family in ("gpt2", "opt"))
    constants = positions + sum(
        projection.bias.detach()
        for projection in model.anatomy.out_projections
        if getattr(projection, "bias", None) is not None and model.anatomy.attention_norms is None
    )
    torch.testing.assert_close(written.sum(0) + constants, trace.final_stream[0][0], atol=1e-5, rtol=1e-5)


def test_a_grouped_key_or_value_is_the_sum_of_its_query_heads():
    """The same model with every KV head written out once for each query head: gradients add up."""
    grouped = tiny("llama-gqa", torch.float64)
    whole = tiny("llama", torch.float64)
    with torch.no_grad():
        whole.hf.load_state_dict(
            {k: v for k, v in grouped.hf.state_dict().items() if "k_proj" not in k and "v_proj" not in k}, strict=False
        )
        for one, other in zip(grouped.hf.model.layers, whole.hf.model.layers, strict=True):
            for name in ("k_proj", "v_proj"):
                weight = getattr(one.self_attn, name).weight.unflatten(0, (2, 8))
                getattr(other.self_attn, name).weight.copy_(weight.repeat_interleave(2, dim=0).flatten(0, 1))
    by_kv, by_query = (hc.score(model, TASK, "eap") for model in (grouped, whole))
    for role in "kv":
        for head in range(2):
            column = by_kv.graph.readers.index(f"a1.h{head}<{role}>")
            columns = [by_query.graph.readers.index(f"a1.h{2 * head + i}<{role}>") for i in range(2)]
            wanted = by_query.values[:, columns].sum(1)
            np.testing.assert_allclose(by_kv.values[:, column], wanted, atol=1e-6)


@pytest.mark.parametrize("method", ["eap", "eap-ig", "eap-clean-corrupted"])
@pytest.mark.parametrize("family", ["llama-gqa", "qwen3", "olmo2", "gemma2", "phi3", "gpt2"])
def test_readers_for_each_query_head_share_the_score_of_their_kv_head(family, method):
    model = tiny(family, torch.float64)
    grouped = hc.score(model, TASK, method, steps=3)
    by_query = hc.score(model, TASK, method, steps=3, readers="query-heads")
    assert by_query.graph.n_edges == Graph(3, 4, 4).n_edges
    group = 4 // grouped.graph.n_kv_heads
    for name in grouped.graph.readers:
        node, _, role = name.partition("<")
        heads = [node]
        if role in ("k>", "v>"):
            layer, head = node.split(".h")
            heads = [f"{layer}.h{int(head) * group + i}" for i in range(group)]
        columns = [by_query.graph.readers.index(f"{head}<{role}" if role else head) for head in heads]
        wanted = grouped.values[:, grouped.graph.readers.index(name)]
        np.testing.assert_allclose(by_query.values[:, columns].sum(1), wanted, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("method", ["eap", "eap-ig", "eap-clean-corrupted"])
@pytest.mark.parametrize("family", ["llama-gqa", "gpt2", "gpt_neox", "olmo2"])
def test_the_score_of_a_whole_edge_is_the_sum_of_its_parts(family, method):
    model = tiny(family, torch.float64)
    whole, split = (hc.score(model, TASK, method, steps=3, readers=r) for r in ("components", "query-heads"))
    assert whole.graph == Graph(3, 4, 4, split.graph.parallel, whole=True)
    for name in whole.graph.readers:
        parts = [i for i, part in enumerate(split.graph.readers) if part.partition("<")[0] == name]
        assert len(parts) == (3 if name.startswith("a") else 1)
        own = whole.values[:, whole.graph.readers.index(name)]
        np.testing.assert_allclose(own, split.values[:, parts].sum(1), atol=1e-12)


def test_exact_patching_of_a_whole_edge_moves_query_key_and_value_together():
    """Against the meter of split edges; exact scores do not add up."""
    model = tiny("llama-gqa", torch.float64)
    one = hc.Task("one", "One", "logit_diff", TASK.train[:1], TASK.test[:1])
    exact = hc.score(model, one, "edge-patching", readers="components")
    assert (exact.values != 0).sum() > 0.9 * exact.graph.n_edges
    meter = CircuitMeter(model, one.train, readers="query-heads")
    split, real = meter.wiring.graph, torch.from_numpy(meter.wiring.graph.real)
    apart = 0.0
    for writer, node in [(0, "a0.h1"), (3, "a2.h3"), (5, "m2"), (1, "logits")]:
        parts = [i for i, part in enumerate(split.readers) if part.partition("<")[0] == node]
        keeps = real.repeat(2 + len(parts), 1, 1)
        keeps[1, writer, parts] = False
        keeps[range(2, len(keeps)), writer, parts] = False
        whole, together, *alone = meter.measure(keeps)["logit_diff"][:, 0]
        assert exact.values[writer, exact.graph.readers.index(node)] == pytest.approx(whole - together, abs=1e-9)
        apart = max(apart, abs(sum(whole - value for value in alone) - (whole - together)))
    assert apart > 1e-4


def test_exact_patching_can_tell_query_heads_apart():
    model = tiny("llama-gqa", torch.float64)
    one = hc.Task("one", "One", "logit_diff", TASK.train[:1], TASK.test[:1])
    exact = hc.score(model, one, "edge-patching", readers="query-heads")
    meter = CircuitMeter(model, one.train, readers="query-heads")
    real = torch.from_numpy(meter.wiring.graph.real)
    keep = real.clone()
    writer, reader = 3, exact.graph.readers.index("a2.h3<v>")
    keep[writer, reader] = False
    whole, without = meter.measure(torch.stack([real, keep]))["logit_diff"][:, 0]
    assert exact.values[writer, reader] == pytest.approx(whole - without, abs=1e-9)


@pytest.mark.parametrize("method", ["eap", "eap-ig"])
def test_scores_do_not_depend_on_how_prompts_share_a_batch(method):
    model = tiny("llama-gqa", torch.float64)
    one, many = (hc.score(model, TASK, method, memory=memory).values for memory in (1_000_000, 100_000_000))
    np.testing.assert_allclose(one, many, atol=2e-5)


def test_edge_scores_survive_saving(tmp_path):
    scores = hc.score(tiny("gpt_neox"), TASK, "eap")
    assert scores.graph.parallel
    loaded = hc.EdgeScores.load(scores.save(tmp_path))
    whole = hc.score(tiny("gpt_neox"), TASK, "eap", readers="components")
    assert hc.EdgeScores.load(whole.save(tmp_path / "whole")).graph == whole.graph
    assert np.array_equal(loaded.values, scores.values)
    assert loaded.graph == scores.graph
    assert loaded.order() == scores.order()
    assert len(loaded.order()) == scores.graph.n_edges == len(loaded.to_frame())
    assert json.loads((tmp_path / "edge-scores.json").read_text())["readers"][-1] == "logits"


def test_no_hook_is_left_behind():
    model = tiny("gemma2")
    hc.score(model, TASK, "eap-ig", steps=2)
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules()) == 0
    assert all(parameter.requires_grad for parameter in model.hf.parameters())


def test_a_family_without_edge_support_is_named_and_keeps_its_heads():
    model = tiny("llama")
    model.hf.config.model_type = "novel"
    model = hc.load(model.hf)
    with pytest.raises(hc.HeadcountError, match="Edges are not supported for the family 'novel'; its heads are"):
        hc.score(model, TASK, "eap")
    assert hc.score(model, TASK, "attribution").values.shape == (3, 4)


@pytest.mark.parametrize("fill", ["zero", "mean"])
@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "olmo2", "gpt_neox"])
def test_eap_follows_the_fill(family, fill):
    """Finite differences of one edge, moved a small way to what fills it."""
    model, pair = tiny(family, torch.float64), TASK.train[0]
    some = tuple(TASK.train[::2])  # of one length
    scores = hc.score(model, hc.Task("some", "Some", "logit_diff", some, some), "eap", fill=fill)
    one = hc.score(model, hc.Task("one", "One", "logit_diff", (pair,), (pair,)), "eap", fill=fill)
    assert (fill == "mean") == (np.abs(one.values).max() < 1e-9), "the mean of one prompt is that prompt"
    written = [run(model, torch.tensor([p.clean]))[0] for p in some]
    filled = torch.zeros_like(written[0]) if fill == "zero" else torch.stack(written).mean(0)
    step, largest = 1e-3, np.abs(scores.values).max()
    for writer, reader in some_edges(scores.graph, np.random.default_rng(0), n=4):
        wanted = []
        for own, each in zip(some, written, strict=True):
            direction = each[writer] - filled[writer]
            up, down = (metric_with_one_reader_moved(model, own, reader, e * direction) for e in (step, -step))
            wanted.append((up - down) / (2 * step))
        name = scores.graph.edge_name((writer, reader))
        assert scores.values[writer, reader] == pytest.approx(np.mean(wanted), abs=1e-3 * largest, rel=2e-3), name


def test_exact_patching_follows_the_fill():
    model = tiny("gpt2", torch.float64)
    some = hc.Task("some", "Some", "logit_diff", TASK.train[:2], TASK.test[:1])
    exact = hc.score(model, some, "edge-patching", fill="zero")
    meter = CircuitMeter(model, some.train, fill="zero")
    real = torch.from_numpy(meter.graph.real)
    keeps = real.repeat(2, 1, 1)
    keeps[1, 4, -1] = False
    whole, without = meter.measure(keeps)["logit_diff"].mean(1)
    assert exact.values[4, -1] == pytest.approx(whole - without, abs=1e-9)


def test_methods_that_run_between_the_prompts_take_no_other_fill():
    with pytest.raises(hc.HeadcountError, match="eap-ig scores edges with counterfactual fill; got zero. Use one"):
        hc.score(tiny("gpt2"), TASK, "eap-ig", fill="zero")
    with pytest.raises(hc.HeadcountError, match="Edges can be filled with"):
        hc.score(tiny("gpt2"), TASK, "eap", fill="resample")
    with pytest.raises(hc.HeadcountError, match="Edges are cut at all positions; got 'last'"):
        hc.score(tiny("gpt2"), TASK, "eap", positions="last")


def test_the_micro_model_worked_out_by_hand():
    """One attention-free path: with all attention and MLP weights zero, only input -> logits carries anything."""
    model = tiny("llama", torch.float64)
    with torch.no_grad():
        for layer in model.hf.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    scores = hc.score(model, TASK, "eap")
    others = np.ones_like(scores.values, dtype=bool)
    others[0, -1] = False
    assert np.abs(scores.values[others]).max() == 0
    assert isinstance(model.hf.model.norm, nn.Module)


def test_chance_scores_every_edge_and_no_other_pair():
    one, same, other = (hc.score(tiny("gpt2"), TASK, "edge-chance", seed=seed).values for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    real = Graph(3, 4, 4).real
    assert (one[real] > 0).all()
    assert (one[~real] == 0).all()
