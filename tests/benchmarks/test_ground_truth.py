"""Models whose circuits are known: compiled programs do what they were compiled to, and what is called true is what has
an effect."""

import json
from functools import cache

import numpy as np
import pytest
import torch
from cases import CASES, PLANTED, planted_pairs
from compiled import NAMES, Program
from truth import by_patching, of_program

import headcount as hc
from headcount.meters import CircuitMeter
from headcount.models.wiring import find_graph
from headcount.rank.comparison import auroc

PAIRS = 40
TASKS = [(name, task) for name in NAMES for task in Program(name).tasks]
NO_EFFECT = 1e-6


@cache
def loaded(name):
    return Program(name).load(torch.float64)


@cache
def known(name, task):
    return of_program(loaded(name), Program(name).task(task, PAIRS))


@pytest.mark.parametrize("name", NAMES[:-1])
def test_logits_are_those_of_the_compiled_program_at_every_position(name):
    reference = Program(name).reference()
    logits = Program(name).load().logits(reference["ids"])
    torch.testing.assert_close(logits, reference["logits"], atol=1e-3, rtol=0)
    assert reference["logits"].abs().max() > 0.5


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_both_prompts_of_every_pair_are_answered(name, task):
    model, made = loaded(name), Program(name).task(task)
    assert len(made.train) == len(made.test) == 60
    assert not {pair.clean for pair in made.train} & {pair.clean for pair in made.test}
    # In `together` the other programs answer as well, with tokens of their own.
    answers = sorted({token for pair in (*made.train, *made.test) for token in (*pair.answers, *pair.wrongs)})
    for side, right in (("clean", "answers"), ("corrupt", "wrongs")):
        ids = torch.tensor([getattr(pair, side) for pair in made.test])
        said = model.logits(ids)[:, -1, answers].argmax(-1)
        assert [answers[place] for place in said] == [getattr(pair, right)[0] for pair in made.test]


@pytest.mark.parametrize("name", NAMES)
def test_every_check_passes_on_compiled_programs_edges_included(name):
    verdicts = list(hc.check(loaded(name)))
    assert [verdict for verdict in verdicts if not verdict.passed] == []
    assert any("edges" in verdict.name for verdict in verdicts)


def test_programs_side_by_side_give_the_logits_that_each_gives_alone():
    together = Program("together")
    for own in map(Program, NAMES[:-1]):
        places = [together.vocabulary.index(token) for token in own.vocabulary]
        told = sorted({token for pair in own.task(own.name).test for token in pair.answers})
        reference = own.reference()
        found = loaded("together").logits(torch.tensor(places)[reference["ids"]])[..., places]
        torch.testing.assert_close(found[..., told].float(), reference["logits"][..., told], atol=1e-3, rtol=0)


def test_the_circuit_of_recall_is_induction():
    """Layers are Tracr's: it gives attention and MLPs layers of their own."""
    graph, edges = find_graph(loaded("recall")), known("recall", "recall").edges
    found = {graph.edge_name(tuple(edge)) for edge in np.argwhere(edges)}
    first, second = (f"a{layer}.h{head}" for layer, head in np.argwhere(known("recall", "recall").heads))
    wanted = {("input", f"{first}<v>"), (first, f"{second}<k>"), ("input", f"{second}<q>"), ("input", f"{second}<v>")}
    assert found == {" -> ".join(edge) for edge in (*wanted, (second, "logits"))}


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_what_is_not_true_has_no_effect_on_any_pair(name, task):
    model, pairs = loaded(name), Program(name).task(task, PAIRS).train
    meter, real = CircuitMeter(model, pairs), torch.from_numpy(find_graph(model).real)
    untrue = (real & ~torch.from_numpy(known(name, task).edges)).nonzero()
    keeps = real.repeat(len(untrue) + 1, 1, 1)
    keeps[torch.arange(len(untrue)), *untrue.T] = False
    values = meter.measure(keeps)["logit_diff"]
    assert np.abs(values[:-1] - values[-1]).max() < NO_EFFECT
    heads = hc.score(model, Program(name).task(task, PAIRS), "patching").by_pair
    assert np.abs(heads[:, ~known(name, task).heads]).max(initial=0) < NO_EFFECT


@pytest.mark.parametrize("method", ["patching", "edge-patching"])
@pytest.mark.parametrize(("name", "task"), TASKS)
def test_exact_patching_ranks_true_units_first(name, task, method):
    scores = hc.score(loaded(name), Program(name).task(task, PAIRS), method)
    true, values = known(name, task).heads, np.abs(scores.values)
    if method == "edge-patching":
        true, values = known(name, task).edges[scores.graph.real], values[scores.graph.real]
    assert true.any()
    assert np.isnan(found := auroc(values, true)) or found >= 0.98


def test_the_planted_heads_are_true_and_exact_patching_finds_heads_and_edges():
    model, task = hc.load(str(PLANTED), dtype="float64"), planted_pairs(64)
    truth = by_patching(model, task)
    roles = json.loads((PLANTED / "roles.json").read_text())["heads"]
    planted = {(entry["layer"], entry["head"]) for entry in roles if entry["role"] != "irrelevant"}
    assert {tuple(head) for head in np.argwhere(truth.heads).tolist()} == planted
    # On the train half alone, against what is true on all pairs.
    for method, true in (("patching", truth.heads), ("edge-patching", truth.edges)):
        values = np.abs(hc.score(model, task, method).values)
        assert auroc(values, true) >= 0.98


def test_every_case_names_a_model_and_a_task():
    listed = [(case.model_name, case.task_name) for name in CASES for case in CASES[name]()]
    assert len(listed) == len(set(listed)) == 1 + len(TASKS) + 4 * 4
