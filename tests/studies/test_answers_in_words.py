"""The answer of a study in a sentence: how many, which, how surely, against chance."""

from dataclasses import replace

import numpy as np
import pytest

import headcount as hc
from curves_by_hand import curve_of
from headcount.studies.kept.table import _mixed
from headcount.studies.kept.words import answer, firmness, of_named
from headcount.sweeps.curve import Interval


def curve(total=20, needs=3, mode="keep", **changes):
    """Explained effect is 1 from `needs` units on; the whole model is right on three prompts of four."""
    rows = [[0] * needs + [1] * (total + 1 - needs)] * 4
    made = curve_of(rows if mode == "keep" else [row[::-1] for row in rows], range(total + 1), mode)
    right = np.array([[[1, 1, 1, 0]] * (total + 1)], dtype=float)
    names = tuple(f"a0.h{head}" for head in range(total))
    return replace(made, values={**made.values, "accuracy": right}, ranking=names, model="gpt2", **changes)


def alone(made):
    return hc.Repeats((made,))


def test_it_says_how_many_which_how_surely_and_against_chance():
    chance = replace(curve(needs=20), order="chance")
    assert answer("IOI", alone(curve()), curve().units_needed(0.9), chance) == (
        "IOI: gpt2 needs 3 of 20 heads for 90 % of the effect (90 % interval 3 to 3): a0.h0, a0.h1, a0.h2. As many"
        " random heads explain 0.00 of it. The whole model is right on 75 % of the prompts."
    )


def test_next_to_nothing_has_no_sign():
    lower = replace(curve(needs=20), order="chance")
    lower.values["logit_diff"][:, 1:-1] -= 1e-4
    assert "explain 0.00 of it" in answer("IOI", alone(curve()), curve().units_needed(0.9), lower)


def test_one_head_is_spoken_of_as_one():
    one, chance = curve(needs=1), replace(curve(needs=20), order="chance")
    assert "a0.h0. One random head explains 0.00 of it." in answer("IOI", alone(one), one.units_needed(0.9), chance)


@pytest.mark.parametrize(
    ("rankings", "k", "words"),
    [
        (("abc", "acb"), 1, "It is the first in both repeats"),
        (("abc", "abc", "bac"), 1, "It is the first in 2 of 3 repeats"),
        (("abc", "bac", "abc"), 2, "They are the first 2 heads of all 3 repeats"),
        (("abcd", "abdc", "dacb"), 2, "Each repeat's own first 2 heads explain 0.00 on average; 1 of the named is among"
         " them in all 3 repeats, the other in 2"),
        (("abcde", "acbde", "abdce"), 3, "Each repeat's own first 3 heads explain 1.00 on average; 2 of the named are"
         " among them in all 3 repeats, the other in 2"),
        (("abcd", "dcab", "cbda"), 2, "Each repeat's own first 2 heads explain 0.00 on average; the named are among"
         " them in 1 to 2 of 3 repeats"),
        (("abc",), 2, ""),
    ],
)  # fmt: skip
def test_how_firm_the_first_heads_are(rankings, k, words):
    made = curve(total=5)
    assert firmness(hc.Repeats(tuple(replace(made, ranking=tuple(ranking)) for ranking in rankings)), k) == words


def test_repeats_that_mask_are_said_to_take_away():
    made = curve(total=4, needs=3, mode="mask")
    repeats = hc.Repeats(tuple(replace(made, ranking=tuple(ranking)) for ranking in ("abcd", "abdc", "dacb")))
    assert firmness(repeats, 2).startswith("Each repeat's own first 2 heads take away 1.00 on average; 1 of the named")


def test_number_and_names_are_those_of_all_repeats():
    """The first repeat alone would name its own first heads."""
    made = curve(total=4, needs=2)
    repeats = hc.Repeats(tuple(replace(made, ranking=tuple(ranking)) for ranking in ("abcd", "cbda", "cbad")))
    assert repeats.pooled.ranking == repeats.ranking == ("c", "b", "a", "d")
    said = answer("IOI", repeats, repeats.units_needed(0.9), None)
    assert "needs 2 of 4 heads for 90 % of the effect (90 % interval 2 to 2): c, b. Each repeat's own first 2" in said


@pytest.mark.parametrize(
    ("k", "mode", "words"),
    [
        (7, "keep", "Together these 7 explain 0.87 of it (0.80 to 0.93)"),
        (1, "keep", "Alone it explains 0.87 of it (0.80 to 0.93)"),
        (7, "mask", "Together these 7 take away 0.13 of it (0.07 to 0.20)"),
    ],
)
def test_what_the_named_heads_do_as_a_set(k, mode, words):
    assert of_named(k, Interval(0.87, 0.8, 0.93), mode) == words


def test_what_the_named_heads_explain_stands_behind_their_names():
    said = answer("IOI", alone(curve()), curve().units_needed(0.9), None, Interval(0.87, 0.8, 0.93))
    assert "a0.h0, a0.h1, a0.h2. Together these 3 explain 0.87 of it (0.80 to 0.93). The whole model" in said


def test_the_mix_of_an_order_is_said_once_where_it_is_one():
    assert _mixed([0.0, 0.0], "heads") == (
        "all heads by the size of their effect; chosen on the train prompts of each repeat"
    )
    assert _mixed([0.25, 1.0], "heads").startswith(
        "25 % (1 of 2 repeats), 100 % (1 of 2 repeats) of the first heads by how much they help, the others"
    )


def test_a_pooled_number_outside_the_range_of_the_repeats_is_explained():
    made = curve(needs=4)
    early, late = (replace(made.units_needed(0.9), each=each) for each in ((6, 8), (2, 2)))
    said = answer("IOI", alone(made), early, None)
    assert ". Each repeat alone takes more (6 to 8): in the mean of all, too much in one makes up for" in said
    said = answer("IOI", alone(made), late, None)
    assert ". Each repeat alone takes fewer (2), but in the mean of all no smaller number is enough. The whole" in said
    assert str(late).endswith("Each repeat alone takes fewer (2), but in the mean of all no smaller number is enough.")
    assert "Each repeat" not in answer("IOI", alone(made), replace(early, each=(2, 8)), None)


def test_ten_are_named_and_the_others_counted():
    said = answer("IOI", alone(curve(needs=14)), curve(needs=14).units_needed(0.9), None)
    assert "a0.h0, a0.h1" in said
    assert "a0.h9 and 4 more. The whole model" in said


def test_chance_is_read_between_the_points_that_were_measured():
    coarse = curve_of([[0, 1]] * 4, (0, 20))
    assert "As many random heads explain about 0.15 of it" in answer(
        "IOI", alone(curve()), curve().units_needed(0.9), coarse
    )


def test_what_is_masked_is_said_to_be_masked():
    masked = curve(mode="mask", needs=15)
    said = answer("IOI", alone(masked), masked.units_needed(0.9), masked)
    assert said.startswith("IOI: gpt2 loses 90 % of the effect with 6 of 20 heads masked (90 % interval 6 to 6): a0.h0")
    assert "As many random heads take away 1.00 of it" in said
    assert said.endswith("right on 75 % of the prompts.")


def test_a_curve_that_never_gets_there_says_so():
    never = replace(curve().units_needed(0.9), value=None)
    assert answer("IOI", alone(curve()), never, None) == "IOI: no number of heads of gpt2 is enough."
