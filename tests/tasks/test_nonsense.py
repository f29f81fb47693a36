"""Nonsense: the same prompts, answers of others, nothing that a model could be right about."""

from collections import Counter

import numpy as np
import pytest
import torch

import headcount as hc
from headcount.meters.metrics import METRICS
from headcount.tasks.batches import collate


@pytest.fixture(scope="module")
def model():
    return hc.load("tiny")


@pytest.mark.parametrize("name", ["ioi", "greater-than", "docstring"])
def test_prompts_stay_and_answers_come_from_another_prompt_of_the_split(model, name):
    real = hc.task(name, model, n=40)
    made = hc.nonsense(real)
    assert made == hc.task(f"nonsense:{name}", model, n=40)
    assert (made.name, made.title, made.metric) == (f"nonsense:{name}", f"{real.title}, nonsense", real.metric)
    for before, after in zip(real.sides, made.sides, strict=True):
        assert [(pair.clean, pair.corrupt) for pair in before] == [(pair.clean, pair.corrupt) for pair in after]
        asked = lambda side: Counter(frozenset((pair.answers, pair.wrongs)) for pair in side)
        assert asked(before) == asked(after), "every answer is used once"
        straight = Counter((pair.answers, pair.wrongs) for pair in before)
        kept = sum((pair.answers, pair.wrongs) in straight for pair in after)
        assert kept == len(after) // 2, "right and wrong are exchanged in half of them"


def test_no_prompt_keeps_its_own_answer(model):
    real = hc.task("docstring", model, n=60)  # its answers are nearly all different
    for before, after in zip(real.sides, hc.nonsense(real).sides, strict=True):
        assert not any({b.answers, b.wrongs} == {a.answers, a.wrongs} for b, a in zip(before, after, strict=True))


def test_the_same_seed_deals_the_same_answers_and_another_seed_others(model):
    real = hc.task("ioi", model, n=40)
    assert hc.nonsense(real, 2) == hc.nonsense(real, 2) != hc.nonsense(real, 3)
    assert hc.nonsense(real).fingerprint != real.fingerprint


@torch.no_grad()
@pytest.mark.parametrize("name", ["ioi", "greater-than"])
def test_the_whole_model_is_right_about_the_task_and_not_about_nonsense(model, name):
    """The mean over many ways to deal is 0 within its error, where that of the task itself is far from it."""
    real = hc.task(name, model, n=40)
    batch = collate(real.test, model.device)
    logits = model.last_logits(batch.clean, batch.spots, rows=batch.rows)
    measure = lambda task: float(METRICS[task.metric](logits, collate(task.test, model.device)).mean())
    found = np.array([measure(hc.nonsense(real, seed)) for seed in range(40)])
    error = found.std(ddof=1) / len(found) ** 0.5
    assert abs(found.mean()) < 3 * error
    assert measure(real) > 3 * found.std(ddof=1)


def test_of_prompts_with_a_target_the_targets_are_dealt_out(model):
    real = hc.task("commonsense", model, n=20)
    made = hc.nonsense(real)
    for before, after in zip(real.sides, made.sides, strict=True):
        assert [example.prompt for example in before] == [example.prompt for example in after]
        assert Counter(example.target for example in before) == Counter(example.target for example in after)
        assert [example.target for example in before] != [example.target for example in after]


def test_too_few_prompts_are_an_error_with_a_number(model):
    with pytest.raises(hc.HeadcountError, match="split of 1. Ask for n=4 or more"):
        hc.task("nonsense:ioi", model, n=2)


def test_a_name_behind_nonsense_that_is_not_known_suggests_the_nearest(model):
    with pytest.raises(hc.HeadcountError, match="There is no task 'iio'. Did you mean 'ioi'"):
        hc.task("nonsense:iio", model)


def test_it_goes_with_a_split_by_templates(model):
    made = hc.task("nonsense:ioi", model, n=20, split="templates")
    assert made == hc.nonsense(hc.task("ioi", model, n=20, split="templates"))
