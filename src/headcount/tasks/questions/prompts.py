"""A question as a model is asked it: in the model's own chat template, else behind a few questions with answers."""

from collections.abc import Sequence

from ...errors import HeadcountError
from ...models import Model
from .question import Question

SHOTS = (
    ("Mia has a red kite. Jo has a green kite. Whose kite is green? Answer with a name.", "Jo"),
    ("What do bees make?", "Honey"),
    ("Which is heavier: a feather, a brick or a leaf?", "A brick"),
    ("What is 3 plus 1? Answer with a number.", "4"),
)
"""What shows a model without a chat template that a short answer is wanted. They are the same for every function, so
that nothing in front of a question tells which function it asks for."""


def question_prompts(model: Model, questions: Sequence[Question]) -> list[list[int]]:
    """Token ids, up to where the answer begins."""
    return [_prompt(model, question.text) for question in questions]


def stop_strings(model: Model) -> tuple[str, ...]:
    """What ends an answer beside the model's own end token: without a chat template, the end of the line."""
    return () if _chats(model) else ("\n",)


def _chats(model: Model) -> bool:
    if model.tokenizer is None:
        raise HeadcountError(
            f"{model.name} was loaded without a tokenizer, and questions are texts."
            " Pass it: headcount.load(module, tokenizer=tokenizer)."
        )
    return bool(getattr(model.tokenizer, "chat_template", None))


def _prompt(model: Model, text: str) -> list[int]:
    if not _chats(model):
        shots = "".join(f"Question: {asked}\nAnswer: {answer}\n\n" for asked, answer in SHOTS)
        return model.encode(f"{shots}Question: {text}\nAnswer:")
    turn = [{"role": "user", "content": text}]
    chat: str = model.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    # The template has written the special tokens out.
    return list(model.tokenizer(chat, add_special_tokens=False)["input_ids"])
