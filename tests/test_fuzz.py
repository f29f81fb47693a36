"""Mutated inputs of every reader, the same in every run; `make fuzz` runs 20,000 others."""

from fuzz.campaign import OUTCOMES, READERS, campaign

SEED, COUNT = 20_000, 500
COSTLY = ("lm-eval", "run")
"""Their cases take a second or two each; tests of their own look at what was found there."""


def test_mutated_inputs_are_taken_or_refused_in_a_sentence(own_cache, tmp_path):
    counts, wrong = campaign(tmp_path, SEED, range(COUNT), tuple(name for name in READERS if name not in COSTLY))
    assert wrong == []
    for outcome in OUTCOMES:  # a campaign in which nothing is ever taken, or ever refused, would show nothing
        assert sum(count for (_, found), count in counts.items() if found == outcome) > COUNT / 10
