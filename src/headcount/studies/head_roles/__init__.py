"""Change in log-probability against heads ablated by role: which heads help a task, which hurt it, which do neither."""

from ..kind import StudyKind
from .settings import HeadRolesPanel

HEAD_ROLES = StudyKind(
    "head-roles", "Which heads help, which hurt, which do neither.", HeadRolesPanel, __name__, "change"
)
