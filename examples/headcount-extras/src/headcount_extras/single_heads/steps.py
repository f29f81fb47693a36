"""Two steps for each task and model: every head removed alone on train, then the first few together on test."""

from dataclasses import dataclass, replace

import headcount as hc
from headcount.edit import check_fill
from headcount.meters import TOKENS_A_PASS
from headcount.meters.memory import head_bytes
from headcount.studies.plan import Found, Job, Step, Subject, mean_length

from .settings import SingleHeads


@dataclass(frozen=True)
class SingleCell:
    """What was found for one task and model."""

    panel: SingleHeads
    scores: hc.HeadScores
    curves: list[hc.Curve]


@dataclass(frozen=True)
class SingleWork:
    panel: SingleHeads
    names: dict[str, str]
    """Of model and task; no part of what defines a step, as the same weights may be called differently today."""
    title: str
    alone: Step[hc.HeadScores]
    together: Step[hc.Curve]
    note: str = ""

    @property
    def steps(self) -> list[Step]:
        return [self.alone, self.together]

    def gather(self, found: Found) -> SingleCell:
        scores = replace(found[self.alone], **self.names)
        curve = replace(found[self.together], **self.names, title=self.title)
        return SingleCell(self.panel, scores, [curve])


def plan(
    kind: hc.StudyKind, panel: SingleHeads, name: str, model: hc.Model, task: hc.Task, memory: int | None
) -> SingleWork:
    """Nothing runs yet. A step names its function, and its settings are all that the function is told."""
    check_fill(panel.fill, task.train)
    subject = Subject.of(name, model, {"kind": kind.name, "panel": panel.facts()}, task, at_once=TOKENS_A_PASS)
    label, settings = f"{model.name} · {task.name}", {"fill": panel.fill, "metric": task.metric, "seed": panel.seed}

    def step(function: str, returns: type, more: dict, examples: tuple, runs: int, needs: tuple = ()) -> Step:
        forwards = runs * len(examples)
        return Step(
            label=f"{label} · {function.replace('_', ' ')}",
            function=f"{__name__}:{function}",
            returns=returns,
            settings={**settings, **more},
            subject=subject,
            needs=needs,
            cost=forwards * mean_length(examples),
            forwards=forwards,
            memory=head_bytes(model, examples),
            libraries=("headcount-extras",),  # another version of it may compute another number
        )

    ks = list(range(min(panel.together, model.head_count) + 1))
    alone = step("remove_each", hc.HeadScores, {"method": "patching"}, task.train, model.head_count + 2)
    curve = {"mask": "signed", "ks": ks, "threshold": 0.0}
    together = step("remove_together", hc.Curve, curve, task.test, len(ks) + 1, (alone,))
    return SingleWork(panel, {"model": model.name, "task": task.name}, task.title, alone, together)


def remove_each(job: Job[hc.Task]) -> hc.HeadScores:
    return hc.score(job.model, job.examples, advance=job.paid(mean_length(job.examples.train)), **job.settings)


def remove_together(job: Job[hc.Task], scores: hc.HeadScores) -> hc.Curve:
    return hc.sweep(job.model, job.examples, scores, advance=job.paid(mean_length(job.examples.test)), **job.settings)
