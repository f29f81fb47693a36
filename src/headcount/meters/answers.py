"""Questions answered by a model, whole or with its heads changed, and the answers as texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from ..core.saving import Saved
from ..core.words import WrittenPositions
from ..edit import Filling
from ..models import Model
from ..models.changes import leaves_no_trace
from ..tasks.questions import Question
from ..tasks.questions.prompts import question_prompts, stop_strings
from .generation import PROMPT_TOKENS, Change, Cuts, generate
from .meter import Advance, Readings, silent

NEW_TOKENS = 16
"""Of an answer, at most: built-in questions ask for a few words."""


@dataclass(frozen=True)
class Answers(Saved):
    """What a model says to some questions under each of several changes of its heads."""

    FILE = "answers"

    tokens: list[list[list[int]]] = field(repr=False)
    """[variant][question][token]."""
    texts: list[list[str]]
    """[variant][question]."""

    @property
    def empty(self) -> int:
        """Answers without a word."""
        return sum(not text for texts in self.texts for text in texts)


@leaves_no_trace
def ask(
    model: Model,
    questions: Sequence[Question],
    change: Change | None = None,
    *,
    max_new_tokens: int = NEW_TOKENS,
    max_tokens: int = PROMPT_TOKENS,
    advance: Advance = silent,
) -> Answers:
    """Greedy answers of a model to questions.

    **Arguments:**

    - `change`: `Cuts` or `Pushes`, each variant of which answers all questions; None for the whole model.
    - `max_new_tokens`: what is longer is cut off there.
    """
    prompts, stops = question_prompts(model, questions), stop_strings(model)
    limits = {"max_new_tokens": max_new_tokens, "max_tokens": max_tokens}
    tokens = generate(model, prompts, change, stop=stops, advance=advance, **limits)
    return Answers(tokens, [[_text(model, answer, stops) for answer in variant] for variant in tokens])


def _text(model: Model, tokens: Sequence[int], stops: Sequence[str]) -> str:
    text = model.decode(tokens, skip_special_tokens=True)
    for stop in stops:
        text = text.partition(stop)[0]
    return text.strip()


@dataclass
class AnswerMeter:
    """Questions that are answered under masks of heads; what is read is the answers' text."""

    model: Model
    questions: Sequence[Question]
    filling: Filling = field(default_factory=Filling)
    positions: WrittenPositions = "generated"
    max_new_tokens: int = NEW_TOKENS
    advance: Advance = silent

    def __len__(self) -> int:
        return len(self.questions)

    def measure(self, masks: Tensor) -> Readings[np.object_]:
        """`masks` is [mask, layer, head], True for heads that are left alone; `text` -> [mask, question]."""
        change = Cuts(masks, self.filling, self.positions)
        said = ask(self.model, self.questions, change, max_new_tokens=self.max_new_tokens, advance=self.advance)
        return {"text": np.array(said.texts, dtype=object).reshape(len(masks), len(self.questions))}
