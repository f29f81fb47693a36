"""Questions answered by a model, whole or with its heads changed, and the answers as texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .generation import MAX_TOKENS, Change, generate
from .measure import Advance, silent
from .models import Model
from .results import load_result, save_result
from .tasks.questions import Question
from .tasks.questions.prompts import question_prompts, stop_strings

NEW_TOKENS = 16
"""Of an answer, at most: built-in questions ask for a few words."""


@dataclass(frozen=True)
class Answers:
    """What a model says to some questions under each of several changes of its heads."""

    tokens: list[list[list[int]]] = field(repr=False)
    """[variant][question][token]."""
    texts: list[list[str]]
    """[variant][question]."""

    @property
    def empty(self) -> int:
        """Answers without a word."""
        return sum(not text for texts in self.texts for text in texts)

    def save(self, folder: str | Path) -> Path:
        """Write `answers.json` into a folder, with an empty `answers.safetensors` beside it."""
        return save_result(folder, "answers", {}, {"tokens": self.tokens, "texts": self.texts})

    @classmethod
    def load(cls, folder: str | Path) -> "Answers":
        _, facts = load_result(folder, "answers")
        found: dict[str, Any] = facts
        return cls(found["tokens"], found["texts"])


def ask(
    model: Model, questions: Sequence[Question], change: Change | None = None, *, max_new_tokens: int = NEW_TOKENS,
    max_tokens: int = MAX_TOKENS, advance: Advance = silent,
) -> Answers:  # fmt: skip
    """Greedy answers of a model to questions.

    **Arguments:**

    - `change`: `Cuts` or `Pushes`, each variant of which answers all questions; None for the whole model.
    - `max_new_tokens`: what is longer is cut off there.
    """
    tokens = generate(
        model, question_prompts(model, questions), change, max_new_tokens=max_new_tokens, stop=stop_strings(model),
        max_tokens=max_tokens, advance=advance,
    )  # fmt: skip
    stops = stop_strings(model)
    texts = [[_text(model, answer, stops) for answer in variant] for variant in tokens]
    return Answers(tokens, texts)


def _text(model: Model, tokens: Sequence[int], stops: Sequence[str]) -> str:
    text: str = model.tokenizer.decode(tokens, skip_special_tokens=True)
    for stop in stops:
        text = text.partition(stop)[0]
    return text.strip()
