"""Questions that are labelled with the cognitive function they ask for."""

from pathlib import Path

from ...core.errors import HeadcountError, require_seed
from .question import FUNCTIONS, Question, QuestionSet, function_name, function_title, of_function

__all__ = ["FUNCTIONS", "Question", "QuestionSet", "function_name", "function_title", "of_function", "questions"]
BUILT_IN = "built-in"


def questions(source: str | Path = BUILT_IN, *, seed: int = 0) -> QuestionSet:
    """The built-in questions, or those of a JSON file in the layout of CogQA.

    **Arguments:**

    - `source`: `built-in`, or the path of a file that ends in .json.
    - `seed`: of the built-in questions, and of how a file is split.
    """
    require_seed(seed)
    if str(source) == BUILT_IN:
        from .built_in import built_in_questions

        return built_in_questions(seed)
    if not str(source).endswith(".json"):
        raise HeadcountError(
            f"There are no questions {str(source)!r}. Known: {BUILT_IN}; a file in the layout of CogQA ends in .json."
        )
    from .cogqa import read_cogqa

    return read_cogqa(Path(source), seed=seed)
