"""The heads that an answer names, measured as a set.

Repeats keep the heads of their own rankings, and the number is that of their mean. Named are the heads of the best mean
rank: a set that none of the repeats may have kept. So every repeat has one step more, which measures this very set on
its prompts, and the answer says what it explains.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from ...edit.cut import parse_head
from ...rank.scores import HeadScores
from ...sweeps import Curve, sweep
from ...tasks.examples import Task
from ..plan import Job, Step, mean_length
from .closer import repeats_of
from .told import CloserTold, Sweeping


def named_plan(number: int, curves: Sequence[Step[Curve]], task: Task) -> Step[Curve]:
    """What the named heads explain on the prompts of one of the repeats."""
    own = curves[number]
    assert own.subject is not None
    words, each = f"{own.label.removesuffix(' · closer')} · named", mean_length(task.test)
    told, runs = cast(CloserTold, own.settings), 3 * len(task.test)
    return own.subject.step(words, named_step, told, runs, each, needs=tuple(curves), memory=own.memory)


def named_step(job: Job[Task, CloserTold], *curves: Curve) -> Curve:
    """A curve with as many heads as are needed; with none and all alone where no number is enough."""
    model, task, told = job.model, job.examples, job.settings["sweep"]
    pooled = repeats_of(job, curves).pooled
    values = np.zeros((1, model.n_layers, model.n_heads))
    for rank, head in enumerate(map(parse_head, pooled.ranking)):
        values[0][head] = pooled.total - rank
    by_rank = HeadScores(model.name, task.name, f"mean rank by {pooled.method}", pooled.metric, values)
    same = {name: value for name, value in told.items() if name in Sweeping.__annotations__}
    asked = cast(Sweeping, {**same, pooled.mode: "absolute", "threshold": 0.0})
    needed = pooled.first_k(told["threshold"])
    ks, advance = [] if needed is None else [needed], job.paid(mean_length(task.test))
    return sweep(model, task, by_rank, **asked, ks=ks, advance=advance)
