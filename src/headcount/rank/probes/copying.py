"""Heads that copy: the retrieval score of Wu et al. 2024 (arXiv 2404.15574).

While the model writes an answer that stands in its prompt, a head copies a token when it looks most at a place of the
needle (where the answer stands) that holds just the token being written. The score of a head is the share of the
needle's different tokens that it copies, |copied and in the needle| / |needle|, averaged over the answers. A token that
is copied twice counts once, as the paper has it.
"""

from collections.abc import Sequence
from functools import cache, partial

import torch
from torch import Tensor

from ...core.errors import HeadcountError
from ...core.provenance import Facts
from ...edit.attention import attention_weights
from ...meters import TOKENS_A_PASS
from ...meters.answers import Answers
from ...meters.text_metrics import accepted
from ...models import Model
from ...models.changes import leaves_no_trace
from ...tasks.batches import batches
from ...tasks.examples import Completion
from ...tasks.questions import QuestionSet, of_function
from ...tasks.questions.prompts import answer_places, question_prompts
from ..scores import HeadScores

Ids = Sequence[int]


@torch.no_grad()
def copy_scores(model: Model, prompts: Sequence[Ids], answers: Sequence[Ids], needles: Sequence[Ids]) -> Tensor:
    """[question, layer, head]; `answers` are written behind the prompts, `needles` the positions in each prompt that
    hold the answer."""
    if empty := [place for place, needle in enumerate(needles) if not needle]:
        raise HeadcountError(f"A needle has at least one position in the prompt; that of prompt {empty[0]} has none.")
    examples = [Completion(tuple(prompt), tuple(answer)) for prompt, answer in zip(prompts, answers, strict=True)]
    word = cache(partial(_word, model))
    scores = torch.zeros(len(examples), model.n_layers, model.n_heads, dtype=torch.float64)
    for places, batch in batches(examples, model.device, TOKENS_A_PASS):
        patterns = attention_weights(model, batch.clean)
        looked = torch.stack([p[batch.rows, :, batch.spots].argmax(-1).cpu() for p in patterns], dim=1)
        for row, place in enumerate(places):
            own, written = (batch.rows == row).cpu(), list(map(word, examples[place].target))
            needle = {position: word(prompts[place][position]) for position in needles[place]}
            scores[place] = _copied(looked[own], written, needle)
    return scores


def _copied(looked: Tensor, written: Sequence[str], needle: dict[int, str]) -> Tensor:
    """The share of the needle (position -> word) that each head copies, [layer, head]; `looked` is [step, layer, head],
    `written` the word of each step."""
    wanted = set(needle.values())
    copied = torch.zeros(looked.shape[1:], dtype=torch.float64)
    for word in wanted & set(written):
        steps = [step for step, other in enumerate(written) if other == word]
        spots = torch.tensor([position for position, other in needle.items() if other == word])
        copied += torch.isin(looked[steps], spots).any(0)
    return copied / len(wanted)


def _word(model: Model, token: int) -> str:
    """A token as a word, so that one is the same with and without the space in front of it, or its capital letter."""
    text = "" if model.tokenizer is None else str(model.tokenizer.decode([token]))
    return text.strip().casefold() or f"{token}"


@leaves_no_trace
def retrieval_scores(model: Model, questions: QuestionSet, answers: Answers) -> HeadScores:
    """Copy scores from the retrieval questions of train and validation that the whole model answers right; `answers`
    are its own to `questions.questions`."""
    asked = (*questions.train, *questions.validation)
    own = of_function(asked, "retrieval")
    texts = [answers.texts[0][place] for place in own]
    right = accepted(texts, texts, [asked[place] for place in own])
    needles = {place: answer_places(model, asked[place]) for place in own}
    used = [place for place, was_right in zip(own, right, strict=True) if was_right and needles[place]]
    if not used:
        raise HeadcountError(
            f"Copy scores need retrieval questions that {model.name} answers right with words of the question;"
            f" of {len(own)} there is none."
        )
    prompts = question_prompts(model, [asked[place] for place in used])
    written, needed = zip(*[(answers.tokens[0][place], needles[place]) for place in used], strict=True)
    scores = copy_scores(model, prompts, written, needed).numpy()
    facts: Facts = {"questions": len(own), "answered_right": len(used)}
    return HeadScores(model.name, "retrieval", "copy", "copied share of the needle", scores, provenance=facts)
