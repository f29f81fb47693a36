"""The retrieval score: copying and attention to where the answer stands; and the task that it is made for."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import VOCABULARY, prompts, tiny
from headcount.rank.retrieval import needle_of


def examples(n=4):
    """Random prompts with an answer of three tokens in them."""
    made = []
    for index in range(n):
        ids = prompts(1, 20, seed=index)[0].tolist()
        made.append(hc.Completion(tuple(ids), tuple(ids[5 + index : 8 + index])))
    return tuple(made)


def test_the_last_place_of_an_answer():
    assert needle_of([1, 2, 3, 1, 2, 4], [1, 2]) == [3, 4]
    assert needle_of([1, 2], [2, 3]) == []
    assert needle_of([1], [1, 2]) == []


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "gemma2"])
def test_against_a_count_by_hand(family):
    model, asked = tiny(family), examples()
    task = hc.Task("needles", "Needles", "log_prob", asked, asked)
    scores = hc.score(model, task, "retrieval").by_pair
    for index, example in enumerate(asked):
        text = [*example.prompt, *example.target[:-1]]
        pattern = hc.attention(model, text)
        start = needle_of(example.prompt, example.target)[0]
        for layer in range(model.n_layers):
            for head in range(model.n_heads):
                weights = pattern.of((layer, head))
                copied = attended = 0.0
                for step in range(3):
                    row = weights[len(example.prompt) - 1 + step]
                    copied += row.argmax() == start + step
                    attended += row[start + step]
                assert scores[index, layer, head] == pytest.approx((copied / 3 + attended / 3) / 2, abs=1e-5)
    assert scores.min() >= 0
    assert scores.max() > 0.02


def test_a_task_whose_answers_stand_nowhere_in_it_is_refused():
    absent = tuple(hc.Completion((5, 6, 7, 8), (VOCABULARY - 1,)) for _ in range(2))
    with pytest.raises(hc.HeadcountError, match="no answer of this task stands in its prompt"):
        hc.score(tiny("gpt2"), hc.Task("none", "None", "log_prob", absent, absent), "retrieval")


def test_the_code_stands_once_in_the_text_and_far_from_its_end():
    import random

    from headcount.tasks.needle import needle

    train, test = needle.items(random.Random(0))
    again, _ = needle.items(random.Random(0))
    assert [item.prompt for item in train] == [item.prompt for item in again]
    for item in test[:50]:
        code = item.target.strip()
        assert item.prompt.count(code) == 1
        assert item.prompt.index(code) < 0.6 * len(item.prompt)
    owners = [{item.prompt.rsplit(" of ", 1)[1] for item in side} for side in (train, test)]
    assert not owners[0] & owners[1]


@torch.no_grad()
def test_windows_for_all_but_some_kv_heads():
    """The check of `benchmarks/kv_windows.py`: full caches change nothing, and windows are what a loop says."""
    from kv_windows import RECENT, SINK, found

    model = tiny("llama-gqa")
    (example,) = examples(1)
    ids = torch.tensor([[*example.prompt, *example.target]])
    logits = model.logits(ids[:, :-1])[0, len(example.prompt) - 1 :].log_softmax(-1)
    wanted = float(np.mean([float(logits[step, token]) for step, token in enumerate(example.target)]))
    every = torch.ones(3, 2, dtype=torch.bool)
    assert found(model, [example], every)[0] == pytest.approx(wanted, abs=1e-5)
    assert SINK + RECENT > 20, "short prompts lie within the windows"
    assert found(model, [example], ~every)[0] == pytest.approx(wanted, abs=1e-5)
    long = hc.Completion(tuple(prompts(1, 62, seed=3)[0].tolist()), example.target[:2])
    import kv_windows

    before = kv_windows.RECENT
    kv_windows.RECENT = 5
    try:
        mixed = torch.tensor([[True, False]] * 3)
        values = [found(model, [long], full)[0] for full in (every, mixed, ~every)]
    finally:
        kv_windows.RECENT = before
    assert len({round(value, 6) for value in values}) == 3, "each of them sees something else"
