"""What happens when each single head is removed: a map of heads, and a curve of the first of them removed together."""

from headcount import StudyKind

from .settings import SingleHeads

SINGLE_HEADS = StudyKind("single-heads", "What each head does alone.", SingleHeads, __name__, "explained")
