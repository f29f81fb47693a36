"""Answers with the first k heads of a function masked, against k random others: accuracy and COMET."""

from ..kind import StudyKind
from .settings import MaskedHeads

MASKED_HEADS = StudyKind(
    "masked-heads", "Which heads serve which cognitive function.", MaskedHeads, __name__, "answers"
)
