"""Heads that copy: the retrieval score of Wu et al. 2024 (arXiv 2404.15574).

While the model writes an answer that stands in its prompt, a head copies a token when it looks most at a place of the
needle (where the answer stands) that holds just the token being written. The score of a head is the share of the
needle's different tokens that it copies, |copied and in the needle| / |needle|, averaged over the answers. A token that
is copied twice counts once, as the paper has it.
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from ...core.errors import HeadcountError
from ...meters import TOKENS_A_PASS, Advance, silent
from ...meters.answers import Answers
from ...meters.text_metrics import accepted
from ...models import Model
from ...tasks.batches import batches
from ...tasks.examples import Completion
from ...tasks.questions import QuestionSet, of_function
from ...tasks.questions.prompts import answer_places, question_prompts
from ..patterns import eager_attention
from ..scores import HeadScores


@torch.no_grad()
def copy_scores(
    model: Model, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], needles: Sequence[Sequence[int]],
    *, max_tokens: int = TOKENS_A_PASS, advance: Advance = silent,
) -> Tensor:  # fmt: skip
    """[question, layer, head].

    **Arguments:**

    - `answers`: what the model writes behind each prompt.
    - `needles`: positions in each prompt that hold the answer.
    """
    if empty := [place for place, needle in enumerate(needles) if not needle]:
        raise HeadcountError(f"A needle has at least one position in the prompt; that of prompt {empty[0]} has none.")
    examples = [Completion(tuple(prompt), tuple(answer)) for prompt, answer in zip(prompts, answers, strict=True)]
    words = Words(model)
    scores = torch.zeros(len(examples), model.n_layers, model.n_heads, dtype=torch.float64)
    with eager_attention(model):
        for places, batch in batches(examples, model.device, max_tokens):
            patterns = model.hf(input_ids=batch.clean, output_attentions=True, use_cache=False).attentions
            looked = torch.stack([p[batch.rows, :, batch.spots].argmax(-1).cpu() for p in patterns], dim=1)
            for row, place in enumerate(places):
                own = (batch.rows == row).cpu()
                written = [words(token) for token in examples[place].target]
                scores[place] = _copied(looked[own], written, prompts[place], set(needles[place]), words)
            advance(len(places))
    return scores


def _copied(looked: Tensor, written: Sequence[str], prompt: Sequence[int], needle: set[int], words: "Words") -> Tensor:
    """The share of the needle that each head copies, [layer, head]; `looked` is [step, layer, head]."""
    wanted = {words(prompt[position]) for position in needle}
    copied = torch.zeros(looked.shape[1:], dtype=torch.float64)
    for word in wanted & set(written):
        steps = [step for step, other in enumerate(written) if other == word]
        spots = torch.tensor([position for position in needle if words(prompt[position]) == word])
        copied += torch.isin(looked[steps], spots).any(0)
    return copied / len(wanted)


class Words:
    """Tokens as words, so that one is the same with and without the space in front of it, or its capital letter."""

    def __init__(self, model: Model) -> None:
        self._tokenizer = model.tokenizer
        self._word = cache(self._decode)

    def __call__(self, token: int) -> str:
        return self._word(token)

    def _decode(self, token: int) -> str:
        if self._tokenizer is None:
            return str(token)
        text = str(self._tokenizer.decode([token]))
        return text.strip().casefold() or f"{token}"


def retrieval_scores(model: Model, questions: QuestionSet, answers: Answers) -> HeadScores:
    """Copy scores from the retrieval questions of train and validation that the whole model answers right.

    **Arguments:**

    - `answers`: of the whole model to `questions.questions`.
    """
    asked = (*questions.train, *questions.validation)
    own = of_function(asked, "retrieval")
    texts = [answers.texts[0][place] for place in own]
    right = accepted(texts, texts, [asked[place] for place in own])
    prompts = {place: question_prompts(model, [asked[place]])[0] for place in own}
    needles = {place: answer_places(model, asked[place]) for place in own}
    used = [place for place, was_right in zip(own, right, strict=True) if was_right and needles[place]]
    if not used:
        raise HeadcountError(
            f"Copy scores need retrieval questions that {model.name} answers right with words of the question;"
            f" of {len(own)} there is none."
        )
    scores = copy_scores(
        model, [prompts[place] for place in used], [answers.tokens[0][place] for place in used],
        [needles[place] for place in used],
    )  # fmt: skip
    facts = {"questions": len(own), "answered_right": len(used)}
    return HeadScores(model.name, "retrieval", "copy", "copied share of the needle", scores.numpy(), provenance=facts)
