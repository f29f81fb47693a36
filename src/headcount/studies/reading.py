"""The step that reads test prompts for people: their texts, and what the whole model says to them."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from ..tasks.examples import Example, Task
from ..tasks.texts import PromptTexts, prompt_texts
from .plan import Job, Step, Subject, mean_length


class Reading(TypedDict):
    prompts: int


def reading_step(subject: Subject, label: str, examples: Sequence[Example]) -> Step[PromptTexts]:
    """The first test examples as texts. Numbers do not depend on it, so a study goes on where it is refused."""
    runs, told = 2 * len(examples), Reading(prompts=len(examples))
    return subject.step(f"{label} · prompts", read_step, told, runs, mean_length(examples), optional=True)


def read_step(job: Job[Task, Reading]) -> PromptTexts:
    examples = job.examples.test[: job.settings["prompts"]]
    return prompt_texts(job.model, examples, job.paid(mean_length(examples)))
