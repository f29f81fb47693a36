"""What the tables of all studies end with."""

from ..view.tables import say
from .outputs import S
from .runner import StudyResult


def print_end(result: StudyResult[S]) -> None:
    for warning in result.summary["warnings"]:
        print(f"Warning: {warning}")
    done = f"Steps: {result.computed} computed, {result.cached} from the cache."
    say(f"{done} Figure: {result.folder / 'figure.png'}")
    say(f"Report (open it in a browser): {result.report}")
