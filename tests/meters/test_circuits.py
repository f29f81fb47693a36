"""Circuits against reference numbers, and against what must hold at both ends on every family."""

import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, random_task, tiny
from headcount.meters import CircuitMeter
from headcount.models.changes import stand_in
from headcount.models.wiring import find_wiring
from one_reader import metric_with_one_reader_moved, run, some_edges

GOLDEN = Path(__file__).parent.parent / "golden" / "gpt2_tiny"
TASK = random_task()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
def test_reference_circuits(golden_task, dtype, tolerance):
    reference = json.loads((GOLDEN / "circuits.json").read_text())
    meter = CircuitMeter(hc.load(GOLDEN, dtype=dtype), golden_task.test)
    graph = meter.wiring.graph
    keeps = torch.zeros(len(reference["circuits"]), len(graph.writers), len(graph.readers), dtype=torch.bool)
    for index, circuit in enumerate(reference["circuits"]):
        for writer, reader in circuit["edges"]:
            keeps[index, writer, reader] = True
    values = meter.measure(keeps)["logit_diff"]
    wanted = np.array([circuit["metric_per_pair"] for circuit in reference["circuits"]])
    np.testing.assert_allclose(values, wanted, atol=tolerance, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_all_edges_are_the_clean_run_and_none_the_counterfactual_run(family):
    model = tiny(family)
    meter = CircuitMeter(model, TASK.test)
    real = torch.from_numpy(meter.wiring.graph.real)
    found = meter.measure(torch.stack([real, torch.zeros_like(real)]))
    assert np.abs(found["kl"][0]).max() < 1e-5  # all logits, not only those of the answers
    values = found["logit_diff"]
    for index, pair in enumerate(TASK.test):
        for circuit, ids in enumerate((pair.clean, pair.corrupt)):
            logits = model.logits(torch.tensor([ids]))[0, -1]
            wanted = float(logits[pair.answers[0]] - logits[pair.wrongs[0]])
            assert values[circuit, index] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_missing_edge_is_one_reader_that_sees_the_counterfactual_writer(family):
    """By hand: the clean run, in which one reader's stream is moved by what one writer wrote less."""
    model, pair = tiny(family, torch.float64), TASK.test[0]
    meter = CircuitMeter(model, [pair])
    graph = meter.wiring.graph
    clean, _ = run(model, torch.tensor([pair.clean]))
    corrupt, _ = run(model, torch.tensor([pair.corrupt]))
    edges = some_edges(graph, np.random.default_rng(1), n=8)
    keeps = torch.from_numpy(graph.real).repeat(len(edges), 1, 1)
    for index, (writer, reader) in enumerate(edges):
        keeps[index, writer, reader] = False
    values = meter.measure(keeps)["logit_diff"][:, 0]
    for value, (writer, reader) in zip(values, edges, strict=True):
        wanted = metric_with_one_reader_moved(model, pair, reader, corrupt[writer] - clean[writer])
        assert value == pytest.approx(wanted, abs=1e-4), graph.edge_name((writer, reader))


def test_many_circuits_in_one_call_are_the_same_as_one_at_a_time():
    model = tiny("llama-gqa", torch.float64)
    graph = CircuitMeter(model, TASK.test).wiring.graph
    keeps = torch.rand(7, len(graph.writers), len(graph.readers), generator=torch.Generator().manual_seed(0)) > 0.4
    together = CircuitMeter(model, TASK.test).measure(keeps)
    alone = [CircuitMeter(model, TASK.test).measure(keep[None]) for keep in keeps]
    for name in together:
        np.testing.assert_allclose(together[name], np.concatenate([one[name] for one in alone]), atol=1e-5)


def test_reference_circuits_without_dangling_edges(golden_task):
    reference = json.loads((GOLDEN / "circuits.json").read_text())
    meter = CircuitMeter(hc.load(GOLDEN, dtype=torch.float64), golden_task.test, prune=True)
    graph, checked = meter.wiring.graph, 0
    for circuit in reference["circuits"]:
        if "edges_after_prune" not in circuit:
            continue
        keep = np.zeros(graph.real.shape, dtype=bool)
        keep[tuple(np.array(circuit["edges"]).T)] = True
        assert sorted(map(list, np.argwhere(graph.pruned(keep)).tolist())) == sorted(circuit["edges_after_prune"])
        value = meter.measure(torch.from_numpy(keep)[None])["logit_diff"].mean()
        assert value == pytest.approx(circuit["metric_pruned"], abs=1e-8)
        checked += 1
    assert checked > 3


def by_hand(model, ids, keep, fill):
    """A circuit the slow way, one node after the other, for Llama: each reader's stream is summed from what its kept
    writers write and what fills the others, `fill` being [writer, position, d]; logits at the last position."""
    wiring, graph, inner = find_wiring(model), find_wiring(model).graph, model.hf.model
    position = torch.arange(ids.shape[1])[None]
    rotary = inner.rotary_emb(inner.embed_tokens(ids), position)
    written = [inner.embed_tokens(ids)[0]]

    def seen(reader):
        return sum(
            written[f] if keep[f, reader] else fill[f] for f in range(len(written)) if graph.real[f, reader]
        )  # fmt: skip

    for index, block in enumerate(inner.layers):
        wires, attention = wiring.layers[index], block.self_attn
        projected = {}
        for role in "qkv":
            first, own = graph.reader_of(index, role), wires.projections[role].weight()
            heads = [block.input_layernorm(seen(first + h)) @ own[h].T for h in range(graph.heads_of(role))]
            projected[role] = torch.cat(heads, dim=-1)[None]
        stand_ins = {attention.q_proj: "q", attention.k_proj: "k", attention.v_proj: "v"}
        values = []
        with ExitStack() as stack:
            for module, role in stand_ins.items():
                stack.enter_context(stand_in(module, lambda x, role=role: projected[role]))
            stack.enter_context(stand_in(attention.o_proj, lambda z: (values.append(z), z)[1]))
            mask = torch.full((ids.shape[1], ids.shape[1]), -torch.inf, dtype=torch.float64).triu(1)[None, None]
            attention(torch.zeros_like(written[0])[None], position_embeddings=rotary, attention_mask=mask)
        z = values[0][0].unflatten(-1, (graph.n_heads, -1))
        heads = torch.einsum("phs,hsd->hpd", z, model.anatomy.out_weight(index))
        written += list(heads)
        written.append(block.mlp(block.post_attention_layernorm(seen(graph.reader_of(index, None)))))
    return model.hf.lm_head(inner.norm(seen(len(graph.readers) - 1)))[-1]


@torch.no_grad()
@pytest.mark.parametrize("fill", ["zero", "mean", "mean-global", "counterfactual"])
@pytest.mark.parametrize("share", [0.15, 0.6])
def test_every_fill_is_what_it_is_by_hand(fill, share):
    model, pair = tiny("llama-gqa", torch.float64), TASK.test[0]
    meter = CircuitMeter(model, [pair], fill=fill, reference=TASK.train)
    graph = meter.wiring.graph
    keep = torch.rand(graph.real.shape, generator=torch.Generator().manual_seed(3)) < share
    ids = torch.tensor([pair.clean])
    written, _ = run(model, ids)
    others = torch.stack([torch.nn.functional.pad(run(model, torch.tensor([p.clean]))[0], (0, 0, 0, 10 - len(p.clean)))
                          for p in TASK.train])  # fmt: skip
    real = torch.tensor([[i < len(p.clean) for i in range(10)] for p in TASK.train]).double()[:, None, :, None]
    values = {
        "zero": torch.zeros_like(written),
        "mean": (others * real).sum(0) / real.sum(0),
        "mean-global": ((others * real).sum((0, 2)) / real.sum((0, 2)))[:, None].expand_as(written),
        "counterfactual": run(model, torch.tensor([pair.corrupt]))[0],
    }
    logits = by_hand(model, ids, keep, values[fill])
    wanted = float(logits[pair.answers[0]] - logits[pair.wrongs[0]])
    assert meter.measure(keep[None])["logit_diff"][0, 0] == pytest.approx(wanted, abs=1e-4)


@torch.no_grad()
def test_small_circuits_with_nodes_that_nothing_reaches_are_what_they_are_by_hand():
    """Filled with zeros, an MLP without a kept edge still writes; it must not touch what the next one reads."""
    model, pair = tiny("llama-gqa", torch.float64), TASK.test[0]
    meter = CircuitMeter(model, [pair], fill="zero")
    shape, ids = meter.wiring.graph.real.shape, torch.tensor([pair.clean])
    nothing = torch.zeros(shape[0], ids.shape[1], 32, dtype=torch.float64)
    for seed in range(40):
        keep = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.06
        logits = by_hand(model, ids, keep, nothing)
        wanted = float(logits[pair.answers[0]] - logits[pair.wrongs[0]])
        assert meter.measure(keep[None])["logit_diff"][0, 0] == pytest.approx(wanted, abs=1e-4), seed


@torch.no_grad()
@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_with_no_edges_and_zeros_the_logits_see_nothing_but_positions_and_biases(family):
    model, pair = tiny(family, torch.float64), TASK.test[0]
    _, trace = run(model, torch.tensor([pair.clean]))
    inner = model.hf.transformer if family == "gpt2" else model.hf.model.decoder
    biases = sum(projection.bias for projection in model.anatomy.out_projections)
    positions = trace.attention_stream[0][0, -1] - inner.get_input_embeddings()(torch.tensor(pair.clean[-1]))
    final = inner.ln_f if family == "gpt2" else inner.final_layer_norm
    logits = model.hf.lm_head(final(positions + biases))
    meter = CircuitMeter(model, [pair], fill="zero")
    found = meter.measure(torch.zeros(1, *meter.wiring.graph.real.shape, dtype=torch.bool))["logit_diff"][0, 0]
    assert found == pytest.approx(float(logits[pair.answers[0]] - logits[pair.wrongs[0]]), abs=1e-8)


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fill", ["zero", "mean"])
def test_all_edges_kept_are_the_clean_run_whatever_would_fill_them(family, fill):
    model = tiny(family, torch.float64)
    meter = CircuitMeter(model, TASK.test, fill=fill, reference=TASK.train)
    values = meter.measure(torch.from_numpy(meter.wiring.graph.real)[None])["logit_diff"][0]
    for value, pair in zip(values, TASK.test, strict=True):
        logits = model.logits(torch.tensor([pair.clean]))[0, -1]
        assert value == pytest.approx(float(logits[pair.answers[0]] - logits[pair.wrongs[0]]), abs=1e-4)


def test_dangling_edges_matter_with_zeros_and_do_not_with_the_counterfactual():
    model = tiny("gpt2", torch.float64)
    counts = {}
    for fill in ("zero", "counterfactual"):
        meters = [CircuitMeter(model, TASK.test, fill=fill, prune=prune) for prune in (False, True)]
        graph = meters[0].wiring.graph
        keep = torch.rand(graph.real.shape, generator=torch.Generator().manual_seed(0)) < 0.1
        assert graph.pruned(keep.numpy()).sum() < (keep.numpy() & graph.real).sum()
        whole, pruned = (meter.measure(keep[None])["logit_diff"] for meter in meters)
        counts[fill] = np.abs(whole - pruned).max()
    assert counts["counterfactual"] < 1e-10
    assert counts["zero"] > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("fill", ["zero", "counterfactual"])
def test_whole_edges_are_what_they_are_by_hand(fill):
    """Node by node, on a model without groups: the query, the key and the value of a head see one sum."""
    model, pair = tiny("llama", torch.float64), TASK.test[0]
    meter = CircuitMeter(model, [pair], fill=fill, readers="components")
    ids = torch.tensor([pair.clean])
    written, _ = run(model, torch.tensor([pair.corrupt]))
    for seed, share in ((0, 0.15), (1, 0.6)):
        keep = torch.rand(meter.graph.real.shape, generator=torch.Generator().manual_seed(seed)) < share
        filled = written if fill == "counterfactual" else torch.zeros_like(written)
        logits = by_hand(model, ids, keep[:, meter.graph.whole_readers], filled)
        wanted = float(logits[pair.answers[0]] - logits[pair.wrongs[0]])
        assert meter.measure(keep[None])["logit_diff"][0, 0] == pytest.approx(wanted, abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("family", ["llama-gqa", "gpt2", "gpt_neox", "gemma2"])
def test_whole_edges_are_circuits_of_query_heads_whose_inputs_go_together(family):
    model = tiny(family, torch.float64)
    whole, split = (CircuitMeter(model, TASK.test, readers=r) for r in ("components", "query-heads"))
    real = torch.from_numpy(whole.graph.real)
    some = torch.rand(real.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    keeps = torch.stack([real, torch.zeros_like(real), some & real])
    found = whole.measure(keeps)["logit_diff"]
    parts = keeps[:, :, torch.from_numpy(whole.graph.whole_readers)]
    np.testing.assert_allclose(found, split.measure(parts)["logit_diff"], atol=1e-9)
    for index, pair in enumerate(TASK.test):
        for circuit, ids in enumerate((pair.clean, pair.corrupt)):
            logits = model.logits(torch.tensor([ids]))[0, -1]
            wanted = float(logits[pair.answers[0]] - logits[pair.wrongs[0]])
            assert found[circuit, index] == pytest.approx(wanted, abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_readers_for_each_query_head_leave_the_ends_where_they_are(family):
    model = tiny(family, torch.float64)
    meters = [CircuitMeter(model, TASK.test, readers=readers) for readers in ("kv-heads", "query-heads")]
    assert meters[1].wiring.graph.n_kv_heads == 4
    found = []
    for meter in meters:
        real = torch.from_numpy(meter.wiring.graph.real)
        found.append(meter.measure(torch.stack([real, torch.zeros_like(real)]))["logit_diff"])
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_a_kv_head_is_all_of_its_query_heads():
    """Cutting the edge into a key for each of its query heads is cutting it for the KV head."""
    model = tiny("llama-gqa", torch.float64)
    grouped, by_query = (CircuitMeter(model, TASK.test, readers=r) for r in ("kv-heads", "query-heads"))
    keeps = []
    for meter, heads in ((grouped, [1]), (by_query, [2, 3])):
        graph = meter.wiring.graph
        keep = torch.from_numpy(graph.real.copy())
        for head in heads:
            keep[1, graph.readers.index(f"a1.h{head}<k>")] = False
        keeps.append(keep)
    one, other = (m.measure(k[None])["logit_diff"] for m, k in zip((grouped, by_query), keeps, strict=True))
    np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.abs(one - grouped.measure(torch.from_numpy(grouped.wiring.graph.real)[None])["logit_diff"]).max() > 1e-4


def test_a_mean_needs_prompts_and_other_fills_are_refused():
    model = tiny("gpt2")
    with pytest.raises(hc.HeadcountError, match="'mean' is a mean over prompts, and no reference"):
        CircuitMeter(model, TASK.test, fill="mean")
    with pytest.raises(hc.HeadcountError, match="Edges can be filled with counterfactual, mean, mean-global, zero"):
        CircuitMeter(model, TASK.test, fill="resample")


def test_nothing_is_left_behind_also_after_an_exception():
    model = tiny("olmo2")
    meter = CircuitMeter(model, TASK.test, readers="query-heads")
    before = {name: tuple(p.shape) for name, p in model.hf.named_parameters()}
    attention = model.hf.model.layers[0].self_attn

    def broken(*args, **kwargs):
        raise RuntimeError("on purpose")

    with stand_in(model.hf.model.layers[2].mlp, broken), pytest.raises(RuntimeError, match="on purpose"):
        meter.measure(torch.from_numpy(meter.wiring.graph.real)[None])
    assert all("forward" not in vars(module) for module in model.hf.modules())
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules()) == 0
    assert {name: tuple(p.shape) for name, p in model.hf.named_parameters()} == before
    assert attention.num_key_value_groups == 2


def test_no_hook_is_left_behind():
    model = tiny("olmo2")
    meter = CircuitMeter(model, TASK.test)
    meter.measure(torch.from_numpy(meter.wiring.graph.real)[None])
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules()) == 0
