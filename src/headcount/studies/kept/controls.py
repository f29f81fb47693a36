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
    settings: Facts,
    test: Sequence[Example],
    needs: tuple[Step[Scores], Step[Curve]],
    memory: int,
) -> Step[Curve]:
    """A step that needs the scores to go by and the real curve."""
    told = {name: value for name, value in settings.items() if name not in ("points", "precision")}
    told["shuffled"] = kind == "shuffled"
    runs, each = (POINTS + 3) * len(test), mean_length(test)
    return subject.step(f"{label} · {kind}", control_step, told, runs, each, needs=needs, memory=memory)


def control_step(job: Job[Task], scores: Scores, real: Curve) -> Curve:
    settings = dict(job.settings)
    threshold, shuffled = settings.pop("threshold"), settings.pop("shuffled")
    scores = scores.shuffled(settings["seed"]) if shuffled else scores
    ks, needed = real.ks[:: max(len(real.ks) // POINTS, 1)], real.first_k(threshold)
    settings |= {"ks": [*ks, *([] if needed is None else [needed])], "threshold": 0}
    return sweep(job.model, job.examples, scores, advance=job.paid(mean_length(job.examples.test)), **settings)


def control_entries(real: Curve, controls: Mapping[Control, Curve], threshold: float) -> list[Facts]:
    """None where the task itself never has enough units."""
    k, found = real.first_k(threshold), list[Facts]()
    if k is None:
        return found
    for kind, curve in controls.items():
        share = control(real, curve, k)
        ends = {"explained_low": rounded(share.low), "explained_high": rounded(share.high)}
        told = facts_of(real, "task", "model", "method", "order", "fill")
        found.append({**told, "control": kind, "k": k, "explained": rounded(share.value), **ends})
    return found
