"""A list that is said again: which word comes next?

"key, map, lamp; key, map," -> " lamp", not " cup". The counterfactual has the other word in the first list. Metric:
logit(the word) - logit(the other word).
"""

from headcount import TaskEntry
from headcount.tasks.source import Draft, halves

WORDS = """
key map book lamp cup letter ball coat ring camera ticket basket pen flower kitchen garden library office museum park
school station hotel market theater bank harbor
""".split()


class SaidAgain:
    title = "Said Again"
    metric = "logit_diff"

    def pools(self, tokens, rng):
        """Words for train and words for test, one token each."""
        return halves(tokens.single(WORDS, prompt="key,"), rng, least=6, what="words")

    def draft(self, pool, rng):
        *begun, next_word, other = rng.sample(pool, 5)
        clean, corrupt = (f"{', '.join([*begun, last])}; {', '.join(begun)}," for last in (next_word, other))
        return Draft(clean, corrupt, [f" {next_word}"], [f" {other}"])


TASK = TaskEntry(SaidAgain(), "a list that is said again: which word comes next?")
