"""Changes to a model are undone whatever happens, and nothing that a user has changed is touched."""

import gc
import sys

import pytest
import torch

import headcount as hc
from campaigns.interrupts import campaign, state
from families import prompts, random_task, tiny
from headcount.edit import visit_heads
from headcount.models.changes import Changes, _undone_in_the_end, changing

IN_CI = 12


def test_interrupts_at_random_moments_leave_nothing_behind():
    wrong, struck = campaign(IN_CI, seed=7, exact=0.6)
    assert wrong == []
    assert struck >= IN_CI


@pytest.fixture
def model():
    return tiny("llama-gqa")


def test_a_change_is_noted_before_it_is_made_and_undone_last_first(model):
    before, module = state(model), model.anatomy.out_projections[0]
    with changing() as changes:
        changes.before(module, lambda module, args: None)
        changes.instead(module, lambda x: x)
        changes.instead(module, lambda x: 2 * x)
        changes.set(model.hf, "generation_config", None)
        assert module(torch.ones(1)) == 2
        assert state(model)[0]
    assert state(model) == before

    def broken(*args, **options):
        raise RuntimeError("on the way")

    own = module.register_forward_pre_hook
    with pytest.raises(RuntimeError), changing() as changes:
        module.register_forward_pre_hook = lambda hook, **options: (own(hook, **options), broken())
        try:
            changes.before(module, lambda module, args: None)
        finally:
            del module.register_forward_pre_hook
    assert state(model) == before


def test_what_several_interrupts_leave_the_next_call_undoes_and_says(model, monkeypatch, capsys):
    task, before = random_task(4), state(model)
    expected = hc.score(model, task, "attribution").values
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Changes, "undo", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        hc.score(model, task, "attribution")
    assert state(model) != before
    found = hc.score(model, task, "attribution").values
    assert "Interrupts had left changes in a model; they are undone." in " ".join(capsys.readouterr().err.split())
    assert (found == expected).all()
    assert state(model) == before
    hc.score(model, task, "attribution")
    assert not capsys.readouterr().err


def test_what_users_change_themselves_stays_while_they_want_it(model, capsys):
    task, ids = random_task(4), prompts()
    whole = model.logits(ids)
    cut = hc.cut(model, [(0, 0)])
    cut.__enter__()  # as a test fixture or a notebook's cell does
    without = model.logits(ids)
    hc.score(model, task, "attribution")
    assert torch.equal(model.logits(ids), without)
    assert not torch.equal(without, whole)
    cut.__exit__(None, None, None)
    assert torch.equal(model.logits(ids), whole)
    assert not capsys.readouterr().err


BLOCKS = {
    "zero": lambda model: hc.cut(model, [(0, 0), (1, 2)]),
    "mean": lambda model: hc.cut(model, [(0, 0)], "mean", reference=random_task(2).train),
    "rules": lambda model: hc.backward_rules(model, "gim"),
}
MOMENTS = 60  # before the block begins; of those at its end all


@pytest.fixture
def no_garbage():
    """What other tests have left is cleared away before, so that none of it ends in the middle of a block, where the
    interrupt would strike it instead."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize("name", BLOCKS)
def test_an_interrupt_at_either_end_of_a_users_own_block_leaves_nothing(model, name):
    """At every moment at which Python raises one: as it enters a function, and when one written in C has returned. What
    is raised is held, as notebooks do."""
    ids, before, held = prompts(), state(model), []
    whole = model.logits(ids)

    def strike(moment):
        """How many moments there were before the block, and until its end."""
        seen, entered, inside = 0, 0, False

        def look(frame, event, _):
            nonlocal seen
            closed = (
                frame.f_code is _undone_in_the_end.__code__ and frame.f_lasti > 0
            )  # goes on by an exception at once
            if event in ("call", "c_return") and not inside and not closed:
                seen += 1
                if seen == moment:
                    raise KeyboardInterrupt

        try:
            sys.setprofile(look)
            with BLOCKS[name](model):
                inside, entered = True, seen
                assert name == "rules" or not torch.equal(model.logits(ids), whole)
                inside = False
        finally:
            sys.setprofile(None)
        return entered, seen

    strike(None)  # what is imported late is there now
    begins, ends = strike(None)
    assert state(model) == before
    for moment in range(max(begins - MOMENTS, 1), ends + 1):
        try:
            strike(moment)
        except KeyboardInterrupt as interrupt:
            held.append(interrupt)
        assert state(model) == before, moment
    assert len(held) > 20
    assert torch.equal(model.logits(ids), whole)


def test_a_mode_that_torch_puts_back_late_does_nothing_and_goes(model, capsys):
    from torch.overrides import _get_current_function_mode_stack, _push_mode

    from headcount.models.backward_rules import _Tempered

    task, ids = random_task(4), prompts()
    expected, whole = hc.score(model, task, "attribution").values, model.logits(ids)
    with _Tempered(2.0) as mode:
        pass
    _push_mode(mode)  # as torch does where an interrupt has come while the mode was set aside
    assert torch.equal(model.logits(ids), whole)
    assert (hc.score(model, task, "attribution").values == expected).all()
    assert _get_current_function_mode_stack() == []
    assert "Interrupts had left changes in a model; they are undone." in " ".join(capsys.readouterr().err.split())


def test_whether_torch_keeps_gradients_is_as_it_was(model):
    task = random_task(4)
    for kept in (True, False):
        with torch.set_grad_enabled(kept):
            hc.score(model, task, "attribution")
            assert torch.is_grad_enabled() is kept
    with pytest.raises(RuntimeError), visit_heads(model, lambda layer, z: 1 / 0):
        raise RuntimeError
    assert state(model)[0] == []


def test_a_cut_that_is_interrupted_as_it_begins_leaves_gradients_on(monkeypatch):
    """As they are off while a mean is taken, and torch's `no_grad` is not there to put them back."""

    def interrupted(*asked):
        torch.set_grad_enabled(False)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["headcount.edit.cut"], "mean_filling", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt), hc.cut(tiny("gpt2"), [(0, 0)], "mean", reference=random_task().train):
            pass
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
