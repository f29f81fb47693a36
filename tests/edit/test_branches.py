"""Cuts that begin alike run their first layers once, and nothing else changes."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from families import FAMILIES, random_task, tiny
from headcount.edit import Filler
from headcount.meters import HeadMeter
from headcount.models.changes import changing

LAYERS, HEADS = 3, 4


def parting_cuts() -> torch.Tensor:
    """Two that are the same, one that parts in the last layer, three that part in the second, one of its own."""
    keeps = torch.rand(7, LAYERS, HEADS, generator=torch.Generator().manual_seed(0)) > 0.5
    keeps[1] = keeps[0]
    keeps[2, :2] = keeps[0, :2]
    keeps[2, 2] = ~keeps[0, 2]
    keeps[3:6, 0] = False
    keeps[3:6, 1] = torch.eye(3, HEADS, dtype=torch.bool)
    keeps[6, 0] = ~keeps[0, 0]
    return keeps


def measured(model, examples, fill, keeps, **settings):
    filler = Filler.prepare(model, fill, examples=examples, reference=examples)
    return HeadMeter(model, examples, filler, **settings).measure(keeps)


def rows_run(model, run) -> list[int]:
    """Rows that each layer computes in the last pass."""
    rows = []

    def note(module: nn.Module, args: tuple) -> None:
        rows.append(len(args[0]))

    with changing() as changes:
        for attention in model.anatomy.out_projections:
            changes.before(attention, partial(note))
        run()
    return rows[-LAYERS:]


@pytest.mark.parametrize("fill", ["counterfactual", "zero", "mean", "scale(0.3)"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_values_as_one_cut_at_a_time(family, fill):
    model, examples, keeps = tiny(family, torch.float64), random_task(4).test, parting_cuts()
    together = measured(model, examples, fill, keeps)
    alone = [measured(model, examples, fill, keep[None]) for keep in keeps]
    for name, values in together.items():
        np.testing.assert_allclose(values, np.concatenate([one[name] for one in alone]), rtol=1e-9, atol=1e-12)


def test_a_layer_runs_once_for_all_cuts_that_are_alike_up_to_it():
    model, examples, keeps = tiny("llama-gqa"), random_task(4).test, parting_cuts()
    filler = Filler.prepare(model, "zero", examples=examples, reference=examples)
    rows = rows_run(model, lambda: HeadMeter(model, examples, filler).measure(keeps))
    kinds = [len({tuple(keep[: layer + 1].flatten().tolist()) for keep in keeps}) for layer in range(LAYERS)]
    assert kinds == [3, 5, 6]
    assert rows == [kind * 4 for kind in kinds]


def test_a_layer_given_something_without_a_row_for_each_prompt_runs_whole():
    model, examples, keeps = tiny("llama", torch.float64), random_task(4).test, parting_cuts()
    wanted = measured(model, examples, "zero", keeps)

    def give(module: nn.Module, args: tuple, named: dict) -> tuple[tuple, dict]:
        return args, {**named, "slopes": torch.zeros(3, 1)}

    def ignore(forward, *args, slopes, **named):
        return forward(*args, **named)

    def run() -> None:
        for name, values in measured(model, examples, "zero", keeps).items():
            np.testing.assert_allclose(values, wanted[name], rtol=1e-9, atol=1e-12)

    with changing() as changes:
        for layer in model.anatomy.layers:
            changes.before(layer, partial(give), with_kwargs=True)
            changes.instead(layer, partial(ignore, layer.forward))
        assert rows_run(model, run) == [len(keeps) * 4] * LAYERS


def test_a_cut_that_removes_nothing_is_the_whole_model_which_has_run_already():
    model, examples = tiny("llama"), random_task(4).test
    filler = Filler.prepare(model, "zero", examples=examples, reference=examples)
    meter, keeps = HeadMeter(model, examples, filler), parting_cuts()
    keeps[[2, 5]] = True
    found = meter.measure(keeps)
    assert found["kl"][2].max() < 1e-6 < found["kl"][0].min()
    assert [*found["logit_diff"][2]] == [*found["logit_diff"][5]]
    others = [0, 1, 3, 4, 6]
    np.testing.assert_allclose(meter.measure(keeps[others])["logit_diff"], found["logit_diff"][others], atol=1e-5)
    assert rows_run(model, lambda: meter.measure(torch.ones_like(keeps))) == []
