"""Questions that are labelled with the cognitive function they ask for."""

from pathlib import Path

from ...core.errors import HeadcountError, require_seed
from .question import FUNCTIONS as FUNCTIONS
from .question import Question as Question
from .question import QuestionSet as QuestionSet
from .question import function_name as function_name
from .question import function_title as function_title
from .question import of_function as of_function

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
