"""Models whose circuits are known: compiled programs do what they were compiled to, and what is called true is what has
an effect."""

import json
from functools import cache

import numpy as np
import pytest
import torch
from cases import CASES, PLANTED, planted_pairs
from compiled import NAMES, program
from truth import by_patching, of_program

import headcount as hc
from headcount.meters import CircuitMeter
from headcount.models.wiring import find_graph
from headcount.rank.comparison import auroc

PAIRS = 6
TASKS = [(name, task) for name in NAMES for task in program(name).pairs]
NO_EFFECT = 1e-6


@cache
def loaded(name):
    return program(name).load(torch.float64)


@cache
def few(name, task):
    """The first pairs of a task, all of them for training."""
    pairs = program(name).task(task).train[:PAIRS]
    return hc.Task(task, task, "logit_diff", pairs, ())


@cache
def known(name, task):
    return of_program(loaded(name), few(name, task))


@pytest.mark.parametrize("name", NAMES[:-1])
def test_logits_are_those_of_the_compiled_program_at_every_position(name):
    reference = program(name).reference()
    logits = program(name).load().logits(reference["ids"])
    torch.testing.assert_close(logits, reference["logits"], atol=1e-3, rtol=0)
    assert reference["logits"].abs().max() > 0.5


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_both_prompts_of_every_pair_are_answered(name, task):
    model, made = loaded(name), program(name).task(task)
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
    together = program("together")
    for own in map(program, NAMES[:-1]):
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
def test_exact_patching_ranks_true_units_first_and_nothing_else_has_an_effect_on_any_pair(name, task):
    model, made, true = loaded(name), few(name, task), known(name, task)
    graph = find_graph(model)
    heads = hc.score(model, made, "patching").by_pair
    assert np.abs(heads[:, ~true.heads]).max(initial=0) < NO_EFFECT
    # `edge-patching`, with what it averages over pairs.
    edges, real = np.argwhere(graph.real), torch.from_numpy(graph.real)
    keeps = real.repeat(len(edges) + 1, 1, 1)
    keeps[torch.arange(len(edges)), *torch.from_numpy(edges).T] = False
    values = CircuitMeter(model, made.train).measure(keeps)["logit_diff"]
    effects, of_true = values[-1] - values[:-1], true.edges[graph.real]
    assert np.abs(effects[~of_true]).max() < NO_EFFECT
    for found, wanted in ((heads.mean(0), true.heads), (effects.mean(1), of_true)):
        assert wanted.any()
        # All heads of a program that stands alone are true.
        assert auroc(np.abs(found), wanted) >= 0.98 or (wanted.all() and name != "together")


def test_the_planted_heads_are_true_and_exact_patching_finds_heads_and_edges():
    model, task = hc.load(str(PLANTED), dtype="float64"), planted_pairs(8)
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
