"""The line under a table of costs says how many threads there were, in English."""

import costs
import pytest
import torch


@pytest.mark.parametrize(("count", "words"), [(1, "1 CPU thread"), (2, "2 CPU threads")])
def test_one_thread_is_one(monkeypatch, count, words):
    monkeypatch.setattr(torch, "get_num_threads", lambda: count)
    assert costs.threads_in_words() == words
