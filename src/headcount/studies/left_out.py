"""Lines of a user's own file that a study leaves out: the n of `--quick` and of the defaults knows nothing of files."""

from ..tasks.examples import Task
from .panel import Panel


def left_out(panel: Panel, examples: object) -> str:
    """How many examples of how many are used, and what uses all; empty where all are used, and for other tasks."""
    if not isinstance(examples, Task) or examples.available is None:
        return ""
    total, used = sum(examples.available), len(examples.train) + panel.measured(len(examples.test))
    if used == total:
        return ""
    all_of_them = []
    if len(examples.train) + len(examples.test) < total:
        all_of_them.append(f"n={2 * max(examples.available)}")
    if panel.measured(examples.available[1]) < examples.available[1]:
        all_of_them.append("test=0")
    each = " in each repeat" if getattr(panel, "repeats", 1) > 1 else ""
    uses = "uses" if len(all_of_them) == 1 else "use"
    return f"{panel.task}: {used} of its {total:,} examples are used{each}; {' and '.join(all_of_them)} {uses} all."
