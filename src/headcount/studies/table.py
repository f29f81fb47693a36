"""What the tables of all studies end with."""

from .outputs import S
from .runner import StudyResult


def print_end(result: StudyResult[S]) -> None:
    for warning in result.summary["warnings"]:
        print(f"Warning: {warning}")
    done = f"Steps: {result.computed} computed, {result.cached} from the cache."
    print(f"{done} Figure: {result.folder / 'figure.png'}")
