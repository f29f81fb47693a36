"""The answer of a study in a sentence: how many, which, how surely, against chance."""

from dataclasses import replace

import numpy as np

from curves_by_hand import curve_of
from headcount.studies.kept.words import answer


def curve(total=20, needs=3, mode="keep", **changes):
    """Explained effect is 1 from `needs` units on; the whole model is right on three prompts of four."""
    rows = [[0] * needs + [1] * (total + 1 - needs)] * 4
    made = curve_of(rows if mode == "keep" else [row[::-1] for row in rows], range(total + 1), mode)
    right = np.array([[[1, 1, 1, 0]] * (total + 1)], dtype=float)
    names = tuple(f"a0.h{head}" for head in range(total))
    return replace(made, values={**made.values, "accuracy": right}, ranking=names, model="gpt2", **changes)


def test_it_says_how_many_which_how_surely_and_against_chance():
    chance = replace(curve(needs=20), order="chance")
    assert answer("IOI", curve(), curve().units_needed(0.9), chance) == (
        "IOI: gpt2 needs 3 of 20 heads for 90 % of the effect (90 % interval 3 to 3): a0.h0, a0.h1, a0.h2. As many"
        " random heads explain 0.00 of it. The whole model is right on 75 % of the prompts."
    )


def test_ten_are_named_and_the_others_counted():
    said = answer("IOI", curve(needs=14), curve(needs=14).units_needed(0.9), None)
    assert "a0.h0, a0.h1" in said
    assert "a0.h9 and 4 more. The whole model" in said


def test_chance_is_read_between_the_points_that_were_measured():
    coarse = curve_of([[0, 1]] * 4, (0, 20))
    assert "As many random heads explain 0.15 of it" in answer("IOI", curve(), curve().units_needed(0.9), coarse)


def test_what_is_masked_is_said_to_be_masked():
    masked = curve(mode="mask", needs=15)
    said = answer("IOI", masked, masked.units_needed(0.9), masked)
    assert said.startswith("IOI: gpt2 loses 90 % of the effect with 6 of 20 heads masked (90 % interval 6 to 6): a0.h0")
    assert "As many random heads take away 1.00 of it" in said
    assert said.endswith("right on 75 % of the prompts.")


def test_a_curve_that_never_gets_there_says_so():
    never = replace(curve().units_needed(0.9), value=None)
    assert answer("IOI", curve(), never, None) == "IOI: no number of heads of gpt2 is enough."
