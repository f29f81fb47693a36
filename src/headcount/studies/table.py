"""What the tables of all studies have in common: warnings before them, and what they end with."""

from ..view.tables import say
from .outputs import S
from .runner import StudyResult


def print_warnings(result: StudyResult[S]) -> None:
    """Beside the answer that they qualify, before any table."""
    for warning in result.summary["warnings"]:
        say(f"Warning: {warning}")


def print_end(result: StudyResult[S]) -> None:
    done = f"Steps: {result.computed} computed, {result.cached} from the cache."
    say(f"{done} Figure: {result.folder / 'figure.png'}")
    say(f"Report (open it in a browser): {result.report}")
