"""Scores of the tiny models, and the cuts that are made by them."""

import numpy as np
import pytest

import headcount as hc
from families import random_task
from headcount.core.export_options import CutChoice
from headcount.export.cuts import make_cut

TASK = random_task()
SOME = ("a0.h1", "a1.h2", "a1.h3", "a2.h0")


@pytest.fixture(scope="session")
def cut_of():
    """Some heads of a model of `families.py`."""

    def made(model, fill="zero", heads=SOME):
        return make_cut(model, CutChoice(heads=list(heads), fill=fill), None, TASK.train)

    return made


@pytest.fixture
def scores():
    """Of 3 x 4 heads: 0.0 to 1.1 in order, but for one that is negative."""
    values = np.arange(12.0).reshape(1, 3, 4) / 10
    values[0, 0, 1] = -2
    return hc.HeadScores("llama-gqa", "copying", "retrieval", "share", np.repeat(values, 2, axis=0))
