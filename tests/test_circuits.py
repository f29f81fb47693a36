"""Circuits against reference numbers, and against what must hold at both ends on every family."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, random_task, tiny
from headcount.circuits import CircuitMeter
from test_edge_scores import metric_with_one_reader_moved, run, some_edges

GOLDEN = Path(__file__).parent / "golden" / "gpt2_tiny"
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
    values = meter.measure(torch.stack([real, torch.zeros_like(real)]))["logit_diff"]
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


def test_no_hook_is_left_behind():
    model = tiny("olmo2")
    meter = CircuitMeter(model, TASK.test)
    meter.measure(torch.from_numpy(meter.wiring.graph.real)[None])
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules()) == 0
