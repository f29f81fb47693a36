"""Are probes that were fitted to shuffled labels at chance on questions that they have not seen?

Each control is a table N[guess, function] of those questions. With r and c the sums of its rows and columns and n that
of all, its excess is accuracy minus what the same guesses would get if they had nothing to do with the questions:

    excess = sum_f (N[f, f] - r_f c_f / n) / n

How far from 0 may that be by chance? Neither questions nor templates can be counted: what lies close together is
guessed alike, whatever the function, and all shuffles see the same questions. What is exchangeable are the names of the
functions. Labels that are dealt out at random, as many of each, name every group of questions as likely one way as
another, so that a table is as likely as the same table with its guesses renamed. Renaming them over and over, each
shuffle by itself, gives the distribution that the mean excess has where nothing but the labels is learnt; the share of
it that lies as far from 0 is how often chance does that. Nothing in this is an approximation but the number of draws.

Labels are dealt out in equal numbers even where the questions are not: with more labels of one function, its name would
be guessed most surely where most questions lie, which are its own.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.saving import Floats

RENAMINGS = 20_000
ALARM = 0.003
"""How often controls that are at chance may be called something else, all controls of a probe together."""


class Control(NamedTuple):
    excess: float
    """Mean over shuffles: accuracy beyond chance."""
    by_chance: float
    """How often chance alone is as far from 0."""


def shuffled_labels(questions: int, functions: int, seed: int) -> Tensor:
    """As many of each, to within one, in random order."""
    order = torch.randperm(questions, generator=torch.Generator().manual_seed(seed))
    return torch.arange(questions)[order] % functions


def guess_table(guesses: NDArray[np.int64], labels: NDArray[np.int64], functions: int) -> Floats:
    """How many questions of each function get each guess, [guess, function]. Guesses may have further dimensions behind
    that of questions; the mean over them is given."""
    every = guesses.reshape(len(labels), -1)
    table = np.zeros((functions, functions))
    np.add.at(table, (every, labels[:, None]), 1 / every.shape[1])
    return table


def judge(tables: Floats) -> Control:
    """What tables of shuffled fits say, [shuffle, guess, function]."""
    asked = tables.sum((1, 2), keepdims=True)
    beyond = (tables - tables.sum(2, keepdims=True) * tables.sum(1, keepdims=True) / asked) / asked
    excess = float(np.trace(beyond.mean(0)))
    rng, names = np.random.default_rng(0), np.arange(tables.shape[1])
    renamed = np.zeros(RENAMINGS)
    for each in beyond:
        renamed += each[names, rng.permuted(np.tile(names, (RENAMINGS, 1)), axis=1)].sum(1) / len(beyond)
    as_far = int((np.abs(renamed) >= abs(excess) - 1e-9).sum())
    return Control(excess, (as_far + 1) / (RENAMINGS + 1))
