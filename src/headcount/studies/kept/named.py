"""The heads that an answer names, measured as a set.

Repeats keep the heads of their own rankings, and the number is that of their mean. Named are the heads of the best mean
rank: a set that none of the repeats may have kept. So every repeat has one step more, which measures this very set on
its prompts, and the answer says what it explains.
"""

from collections.abc import Sequence
from typing import cast

from ...sweeps import Curve
from ...sweeps.measure import measure
from ...tasks.examples import Task
from ..plan import Job, Step, mean_length
from .closer import repeats_of
from .told import CloserTold


def named_plan(number: int, curves: Sequence[Step[Curve]], task: Task) -> Step[Curve]:
    """What the named heads explain on the prompts of one of the repeats."""
    own = curves[number]
    assert own.subject is not None
    words, each = f"{own.label.removesuffix(' · closer')} · named", mean_length(task.test)
    told, runs = cast(CloserTold, own.settings), 3 * len(task.test)
    return own.subject.step(words, named_step, told, runs, each, needs=tuple(curves), memory=own.memory)


def named_step(job: Job[Task, CloserTold], *curves: Curve) -> Curve:
    """A curve with as many heads as are needed; with none and all alone where no number is enough."""
    told, pooled = job.settings["sweep"], repeats_of(job, curves).pooled
    names = pooled.ranking[: pooled.first_k(told["threshold"]) or 0]
    found = measure(
        job.model,
        job.examples,
        names,
        told["fill"],
        mode=pooled.mode,
        metric=told["metric"],
        positions=told.get("positions", "all"),
        seed=told["seed"],
        advance=job.paid(mean_length(job.examples.test)),
    )
    return found.curve
