"""Contrastive head gating: one task is retained, another forgotten."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import prompts, tiny
from headcount.rank import descent
from headcount.rank.fit import Fit
from headcount.rank.gating import contrast_loss

SHORT = Fit(seeds=2, updates=6, batch=4, patience=0)


class StopError(Exception):
    """In the place of a kill."""


@pytest.fixture(autouse=True)
def _own_cache(own_cache):
    """Checkpoints of a test are its own."""


def two_tasks(model):
    """Prompts of two kinds, each with the token that the model itself says behind it."""

    def answered(seed):
        made = []
        for index in range(8):
            ids = prompts(1, 9, seed=seed * 100 + index)
            made.append(hc.Completion(tuple(ids[0].tolist()), (int(model.logits(ids)[0, -1].argmax()),)))
        return tuple(made)

    with torch.no_grad():
        return (hc.Task(name, name, "log_prob", answered(seed), answered(seed)) for name, seed in (("r", 1), ("f", 2)))


def test_forgetting_ends_at_the_floor_and_retaining_does_not():
    log_probs = torch.tensor([[-1.0, -2.0], [-1.0, -9.0]], requires_grad=True)
    loss = contrast_loss(log_probs)
    loss.sum().backward()
    assert loss.tolist() == [1.0 - 1.0, 1.0 - 5.0]
    assert log_probs.grad.tolist() == [[-1, 1], [-1, 0]]


def test_contrastive_gates_keep_one_task_and_forget_another():
    model = tiny("gpt2")
    retain, forget = two_tasks(model)
    fit = Fit(seeds=2, updates=60, batch=8, free_rate=(0.5, 0.1), patience=0)
    found = hc.fit_contrast(model, retain, forget, fit)
    before, after = (found.retained[i] - found.forgotten[i] for i in (0, 1))
    assert after > before + 0.2
    kept, shut = (hc.fit_contrast(model, retain, forget, fit, pull=pull).gates.mean() for pull in (2.0, -2.0))
    assert kept > 0.7 > 0.3 > shut


def test_a_killed_contrast_is_not_gone_on_from_with_the_other_sign(tmp_path, monkeypatch):
    monkeypatch.setattr(descent, "SAVE_EVERY", 0.0)
    model, file = tiny("gpt2"), tmp_path / "fit.safetensors"
    retain, forget = two_tasks(model)

    def kill(words):
        raise StopError

    with pytest.raises(StopError):
        hc.fit_contrast(model, retain, forget, SHORT, pull=0.1, checkpoint=file, note=kill, advance=lambda n: None)
    other = hc.fit_contrast(model, retain, forget, SHORT, pull=-0.1, checkpoint=file)
    assert np.array_equal(other.gates, hc.fit_contrast(model, retain, forget, SHORT, pull=-0.1).gates)


def test_contrastive_gates_are_saved_and_loaded(tmp_path):
    model = tiny("gpt2")
    found = hc.fit_contrast(model, *two_tasks(model), SHORT)
    again = hc.ContrastGates.load(found.save(tmp_path))
    assert np.array_equal(again.gates, found.gates)
    assert again.provenance == found.provenance
    assert again.scores().samples == "seeds"
