"""The models in the package: what their cards say is what they do."""

import json

import numpy as np
import pytest
import torch

import headcount as hc
from headcount.edit import Filler
from headcount.meters import HeadMeter
from headcount.models import NAMED
from headcount.models.gates import counted, gates_of

TASKS = ("greater-than", "ioi", "docstring", "ioi-long")


def accuracy(model, name, n=120, seed=11):
    task = hc.task(name, model, n=n, seed=seed)
    meter = HeadMeter(model, task.test, Filler.prepare(model, "zero", examples=task.test, reference=task.train, seed=0))
    whole = torch.ones((1, model.n_layers, model.n_heads), dtype=torch.bool)
    return float(meter.measure(whole)["accuracy"].mean())


@pytest.fixture(scope="module")
def tiny():
    return hc.load("tiny")


@pytest.fixture(scope="module")
def tiny_sparse():
    return hc.load("tiny-sparse")


def test_they_are_small():
    for name in ("tiny", "tiny-sparse", "smollm2-sparse", "smollm2-control"):
        assert sum(path.stat().st_size for path in NAMED[name]().iterdir()) < 5e6, name
        assert (NAMED[name]() / "README.md").is_file()


@pytest.mark.parametrize("task", TASKS)
def test_tiny_and_its_twin_know_the_four_tasks(tiny, tiny_sparse, task):
    assert accuracy(tiny, task) > 0.95
    assert accuracy(tiny_sparse, task) > 0.9


def test_the_card_of_tiny_sparse_says_what_it_is_worth(tiny_sparse):
    facts = json.loads((NAMED["tiny-sparse"]() / "sparse.json").read_text())
    found = facts["made"]["evaluation"]
    assert facts["base"] == "tiny"
    assert found["keys_a_query"] == pytest.approx(found["open_share"] * (found["length"] + 1) / 2)


@pytest.mark.xfail(strict=True, reason="the goal is 1 %; this twin's loss is 1.40 % higher: docs/models.md")
def test_tiny_sparse_keeps_the_loss_of_tiny(tiny_sparse):
    found = json.loads((NAMED["tiny-sparse"]() / "sparse.json").read_text())["made"]["evaluation"]
    assert found["loss"] < 1.01 * found["dense_loss"]


@torch.no_grad()
def test_the_twin_attends_to_few_keys(tiny_sparse):
    task = hc.task("ioi", tiny_sparse, n=20, seed=11)
    with counted(gates_of(tiny_sparse)) as ledger:
        for pair in task.test:
            tiny_sparse.logits(torch.tensor([pair.clean]))
    keys = float(torch.cat([opened.flatten() for opened in ledger.open]).mean())
    assert keys < 2


@pytest.fixture(scope="module")
def sparse():
    return hc.load("smollm2-sparse")


@pytest.mark.slow
class TestSmollm2Sparse:
    def test_indirect_objects_are_still_found(self, sparse):
        assert accuracy(sparse, "ioi", n=100) > 0.9

    @torch.no_grad()
    def test_it_attends_to_the_keys_that_its_card_says(self, sparse):
        found = json.loads((NAMED["smollm2-sparse"]() / "sparse.json").read_text())["made"]["evaluation"]
        text = " ".join(
            f"{name} went to the market and bought bread for {name}'s mother." for name in ("Anna", "Ben") * 5
        )
        ids = torch.tensor([sparse.encode(text)[:128]])
        with counted(gates_of(sparse)) as ledger:
            sparse.logits(ids)
        keys = np.mean([float(opened.mean()) for opened in ledger.open])
        assert 0.3 * found["keys_a_query"] < keys < 3 * found["keys_a_query"]

    def test_the_control_has_no_gates(self):
        assert gates_of(hc.load("smollm2-control")) == ()
