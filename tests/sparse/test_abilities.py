"""What a twin can do on tasks, and how much it attends to there, counted again by hand."""

import pytest
import torch

import headcount as hc
from headcount.models.gates import counted, drawn, gates_of
from headcount.sparse.abilities import ability


@pytest.fixture(scope="module", params=["ioi", "ioi-long"])
def task(request):
    """Prompts of one length, and of several."""
    return hc.task(request.param, hc.load("tiny"), n=24)


def test_accuracy_is_that_of_measuring_no_cut(task):
    for name in ("tiny", "tiny-sparse"):
        model = hc.load(name)
        assert ability(model, task).accuracy == hc.measure(model, task, [], "zero").accuracy.value


def test_a_dense_model_has_no_gates_to_count(task):
    found = ability(hc.load("tiny"), task)
    assert (found.keys_a_query, found.empty_rows) == (None, None)
    assert found.prompts == 12


def test_rows_are_those_of_the_prompts_and_not_of_the_padding_behind_them(task):
    twin = hc.load("tiny-sparse")
    gates = gates_of(twin)
    opened = []
    for pair in task.test:  # one at a time, so that none is padded
        with torch.no_grad(), counted(gates) as ledger, drawn(gates, "hard"):
            twin.run(torch.tensor([pair.clean]))
        opened += [layer.flatten() for layer in ledger.open]
    rows = torch.cat(opened)
    found = ability(twin, task)
    assert found.keys_a_query == pytest.approx(float(rows.mean()))
    assert found.empty_rows == pytest.approx(float((rows == 0).float().mean()))
    assert 0 < found.empty_rows < 1
