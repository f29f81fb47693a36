"""Short questions that each ask for one cognitive function, in our own words: eight functions, twelve templates each.

"Anna lives in Rome. Ben lives in Oslo. Where does Ben live?" -> "Oslo" is retrieval, "What is 7 times 8?" -> "56" is
math-calculation. A template stands in one split only: six a function in train, three in validation, three in test. The
splits share no names, things, places or other words that stories are filled with, and no rows of tables; they do share
the numbers of sums and prices.
"""

import random

from .conclusions import INFERENCE, MATH_CALCULATION
from .language import SEMANTIC_UNDERSTANDING, SYNTACTIC_UNDERSTANDING
from .lookup import KNOWLEDGE_RECALL, RETRIEVAL
from .question import Question, QuestionSet
from .reasoning import DECISION_MAKING, LOGICAL_REASONING
from .templates import Templates

TEMPLATES: dict[str, Templates] = {
    "retrieval": RETRIEVAL,
    "knowledge-recall": KNOWLEDGE_RECALL,
    "semantic-understanding": SEMANTIC_UNDERSTANDING,
    "syntactic-understanding": SYNTACTIC_UNDERSTANDING,
    "math-calculation": MATH_CALCULATION,
    "inference": INFERENCE,
    "logical-reasoning": LOGICAL_REASONING,
    "decision-making": DECISION_MAKING,
}
QUESTIONS_A_TEMPLATE = {"train": 16, "validation": 11, "test": 11}


def built_in_questions(seed: int = 0) -> QuestionSet:
    """1,296 questions, shuffled. The same seed gives the same ones."""
    sides = {}
    for split, count in QUESTIONS_A_TEMPLATE.items():
        side = []
        for function, templates in TEMPLATES.items():
            for name, template in templates[split].items():
                drafts = template.draw(count, split, random.Random(f"{seed} {function} {name}"))
                side += [Question(function, name, **vars(draft)) for draft in drafts]
        random.Random(f"{seed} {split}").shuffle(side)
        sides[split] = tuple(side)
    return QuestionSet("built-in", sides["train"], sides["validation"], sides["test"])
