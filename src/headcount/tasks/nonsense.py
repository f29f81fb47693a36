"""Nonsense: the prompts of a task with answers that were dealt out at random, so that there is nothing to explain.

Each prompt is asked for the answers of another prompt of its split. Of pairs, half of the prompts also have right and
wrong exchanged: logit and probability differences then are as likely of one sign as of the other whatever the model
does, and their mean is 0 in expectation for the whole model and for every part of it. Without that, a model that always
says a late year would still be right about other prompts' years. A ranking that is learned on nonsense can only learn
the train prompts by heart; what it "explains" of the test prompts is what its method explains of nothing.

Of prompts with a target the targets are dealt out. Their log-probability still falls when heads are removed, as a
broken model writes nothing well: there the control says how much of an effect is fluency.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from ..core.errors import HeadcountError, require_seed
from .examples import Example, Examples, Pair, Task

PREFIX = "nonsense:"


def nonsense(task: Task, seed: int = 0) -> Task:
    """The same prompts in the same order, with answers that were dealt out at random within each split.

    **Arguments:**

    - `task`: of pairs or of prompts with a target.
    - `seed`: the same seed deals the same answers.
    """
    require_seed(seed)
    rngs = (random.Random(f"nonsense {number} {seed}") for number in range(2))
    train, test = (_dealt(task, side, rng) for side, rng in zip(task.sides, rngs, strict=True))
    return replace(task, name=f"{PREFIX}{task.name}", title=f"{task.title}, nonsense", train=train, test=test)


def _dealt(task: Task, side: Sequence[Example], rng: random.Random) -> Examples:
    if len(side) < 2:
        raise HeadcountError(
            f"Nonsense gives each prompt the answer of another one, and {task.name!r} has a split of {len(side)}."
            " Ask for n=4 or more."
        )
    order = rng.sample(range(len(side)), len(side))
    giver = dict(zip(order, order[1:] + order[:1], strict=True))  # one round, so that nobody gets their own
    swapped = set(order[::2])
    dealt = [_answered(example, side[giver[i]], i in swapped) for i, example in enumerate(side)]
    return cast(Examples, tuple(dealt))


def _answered(asked: Example, other: Example, swapped: bool) -> Example:
    if isinstance(asked, Pair) and isinstance(other, Pair):
        right, wrong = (other.wrongs, other.answers) if swapped else (other.answers, other.wrongs)
        return replace(asked, answers=right, wrongs=wrong)
    if isinstance(asked, Pair) or isinstance(other, Pair):
        raise HeadcountError("Nonsense needs pairs alone or prompts with a target alone; this task has both.")
    return replace(asked, target=other.target, others=other.others)
