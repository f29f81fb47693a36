"""Controls of a study of kept units: what the first order would "explain" where there is nothing to find.

`nonsense` ranks the same prompts with randomly assigned answers and measures that order on them; `shuffled` measures
the scores dealt out to other units. Either is a curve over some of the k of the real one, and the share of the real
effect (`sweeps/control.py`) with as many units as the task needs is what the summary says.
"""

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from ...core.provenance import Facts
from ...core.words import Control
from ...sweeps import Curve, control, sweep
from ...sweeps.orders import Scores
from ...tasks.examples import Example, Task
from ..outputs import facts_of, rounded
from ..plan import Job, Step, Subject, mean_length
from .told import ControlTold, Sweeping

POINTS = 8
"""At which a control is measured, beside the units needed: enough for a line in the figure."""


class ControlEntry(TypedDict):
    """What as many units as the task needs explain of a control, as a share of the real effect."""

    task: str
    model: str
    method: str
    order: str
    fill: str
    control: Control
    k: int
    explained: float | None
    explained_low: float | None
    explained_high: float | None


def control_plan(
    kind: Control,
    subject: Subject,
    label: str,
    sweeping: Sweeping,
    test: Sequence[Example],
    needs: tuple[Step[Scores], Step[Curve]],
    memory: int,
) -> Step[Curve]:
    """A step that needs the scores to go by and the real curve."""
    told = ControlTold(sweep=sweeping, shuffled=kind == "shuffled")
    runs, each = (POINTS + 3) * len(test), mean_length(test)
    return subject.step(f"{label} · {kind}", control_step, told, runs, each, needs=needs, memory=memory)


def control_step(job: Job[Task, ControlTold], scores: Scores, real: Curve) -> Curve:
    told = job.settings["sweep"]
    scores = scores.shuffled(told["seed"]) if job.settings["shuffled"] else scores
    few, needed = real.ks[:: max(len(real.ks) // POINTS, 1)], real.first_k(told["threshold"])
    ks, advance = [*few, *([] if needed is None else [needed])], job.paid(mean_length(job.examples.test))
    as_it_is: Sweeping = {**told, "threshold": 0}
    return sweep(job.model, job.examples, scores, **as_it_is, ks=ks, advance=advance)


def control_entries(real: Curve, controls: Mapping[Control, Curve], threshold: float) -> list[Facts]:
    """As `ControlEntry` has them; none where the task itself never has enough units."""
    k, found = real.first_k(threshold), list[Facts]()
    if k is None:
        return found
    for kind, curve in controls.items():
        share = control(real, curve, k)
        ends = {"explained_low": rounded(share.low), "explained_high": rounded(share.high)}
        told = facts_of(real, "task", "model", "method", "order", "fill")
        found.append({**told, "control": kind, "k": k, "explained": rounded(share.value), **ends})
    return found
