"""A question as a model is asked it: in the model's own chat template, else behind a few questions with answers."""

import re
from collections.abc import Sequence
from typing import Any

from ...models import Model
from . import Question

SHOTS = (
    ("Mia has a red kite. Jo has a green kite. Whose kite is green? Answer with a name.", "Jo"),
    ("What do bees make?", "Honey"),
    ("Which is heavier: a feather, a brick or a leaf?", "A brick"),
    ("What is 3 plus 1? Answer with a number.", "4"),
)
"""What shows a model without a chat template that a short answer is wanted. They are the same for every function, so
that nothing in front of a question tells which function it asks for."""
SHORT = "Give only the answer."
"""What tells a model with a chat template the same."""


def question_prompts(model: Model, questions: Sequence[Question]) -> list[list[int]]:
    """Token ids, up to where the answer begins."""
    return [_encoded(model, prompt_text(model, question))["input_ids"] for question in questions]


def prompt_text(model: Model, question: Question) -> str:
    """The whole prompt as a text."""
    if not _chats(model):
        shots = "".join(f"Question: {asked}\nAnswer: {answer}\n\n" for asked, answer in SHOTS)
        return f"{shots}Question: {question.text}\nAnswer:"
    turn = [{"role": "user", "content": f"{question.text} {SHORT}"}]
    # Models that think aloud first are asked not to; templates that know nothing of it take no notice.
    tokenizer = model.require_tokenizer()
    return str(tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False, enable_thinking=False))


def answer_places(model: Model, question: Question) -> list[int]:
    """The positions of the prompt at which the right answer stands, as whole words of the question; empty where it does
    not, and then an accepted one may."""
    text = prompt_text(model, question)
    start = text.rfind(question.text)
    encoded = _encoded(model, text, return_offsets_mapping=True)
    for right in (question.answer, *question.accepted):
        found = [match.span() for match in re.finditer(rf"\b{re.escape(right)}\b", question.text, re.IGNORECASE)]
        places = [
            place
            for place, (first, last) in enumerate(encoded["offset_mapping"][: len(encoded["input_ids"])])
            if any(first < start + end and last > start + begin for begin, end in found)
        ]
        if start >= 0 and places:
            return places
    return []


def stop_strings(model: Model) -> tuple[str, ...]:
    """What ends an answer beside the model's own end token: without a chat template, the end of the line."""
    return () if _chats(model) else ("\n",)


def _encoded(model: Model, text: str, **asked: Any) -> dict[str, Any]:
    """A chat template has written the special tokens out; without one the tokenizer adds those that begin a text."""
    tokenizer = model.require_tokenizer()
    if _chats(model):
        return {**tokenizer(text, add_special_tokens=False, **asked)}
    return {**(tokenizer(text, **asked) if asked else {}), "input_ids": model.encode(text)}


def _chats(model: Model) -> bool:
    return bool(getattr(model.require_tokenizer(), "chat_template", None))
