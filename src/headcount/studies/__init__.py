"""Studies: a TOML of panels becomes a plan of steps, curves, a figure, tables and a summary. One folder a kind."""

from ..core.registry import Registry
from .head_roles import HEAD_ROLES
from .kept import ATTENTION_EDGES_KEPT, EDGES_KEPT, HEADS_KEPT
from .kind import StudyKind as StudyKind
from .masked_heads import MASKED_HEADS
from .panel import Panel as Panel

BUILT_IN = (HEADS_KEPT, EDGES_KEPT, ATTENTION_EDGES_KEPT, HEAD_ROLES, MASKED_HEADS)

STUDIES: Registry[StudyKind] = Registry("study", "headcount.studies", {kind.name: kind for kind in BUILT_IN}, StudyKind)


def register_study(kind: StudyKind) -> None:
    """Make a kind of study of your own known by its name."""
    STUDIES.add(kind.name, kind)
