"""Heads that results share, against chance; and how steady the first heads of a ranking are over its repeats."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import headcount as hc
from curves_by_hand import curve_of
from families import FAMILIES, random_task, tiny
from headcount.sweeps.overlap import chance_of
from headcount.sweeps.stability import stability_of


def scores(order, method="m"):
    """Of 12 heads, the first named first."""
    values = np.zeros((1, 3, 4))
    for place, (layer, head) in enumerate(order):
        values[0, layer, head] = 12 - place
    return hc.HeadScores("model", "task", method, "logit_diff", values)


def test_heads_in_both_and_in_all():
    one, two = scores([(0, 0), (0, 1), (1, 2)], "one"), scores([(0, 1), (1, 2), (2, 3)], "two")
    found = hc.overlap([one, two], k=3)
    assert found.sets == {"one": ("a0.h0", "a0.h1", "a1.h2"), "two": ("a0.h1", "a1.h2", "a2.h3")}
    (row,) = found.rows()
    assert (row["shared"], row["by_chance"], row["jaccard"]) == (2, 0.75, 0.5)
    assert row["heads"] == "a0.h1 a1.h2"
    assert found.shared() == ("a0.h1", "a1.h2")
    assert found.shared(1) == ("a0.h1", "a1.h2", "a0.h0", "a2.h3")
    assert "2 shared, 0.8 by chance" in str(found)
    assert [text.get_text() for text in hc.plot(found).axes[0].texts] == ["3", "2", "2", "3"]


def test_chance_is_counted_over_all_sets():
    sets = list(combinations(range(7), 3))
    for shared in range(4):
        as_many = sum(len({0, 1, 2} & set(other)) >= shared for other in sets) / len(sets)
        assert chance_of(shared, 3, 3, 7) == pytest.approx(as_many)


def test_a_curve_gives_the_heads_that_it_needs():
    names = tuple(f"a{place // 4}.h{place % 4}" for place in range(12))
    first = replace(curve_of(None, [0, 2, 12], draws=np.array([[[0.0], [0.95], [1.0]]])), total=12, ranking=names)
    second = replace(first, task="other", ranking=names[::-1])
    chance = replace(first, order="chance", ranking=())
    found = hc.overlap([first, second, chance])
    assert list(found.sets.values()) == [names[:2], names[:-3:-1]]
    with pytest.raises(hc.HeadcountError, match="never explains 0.9"):
        hc.overlap([first, replace(second, values={"logit_diff": np.zeros((1, 3, 1))})])


@pytest.mark.parametrize("family", FAMILIES)
def test_methods_of_every_family_can_be_overlapped(family):
    model, task = tiny(family), random_task()
    found = hc.overlap([hc.score(model, task, method) for method in ("attribution", "patching")], k=4)
    assert found.names == ("attribution", "patching")
    assert found.total == 12


def test_names_and_lists_of_ones_own():
    found = hc.overlap({"paper": ["a0.h1", (1, 2)], "mine": scores([(0, 1)])}, k=1)
    assert found.shared() == ("a0.h1",)
    assert found.total == 12


def test_what_cannot_be_overlapped():
    with pytest.raises(hc.HeadcountError, match="two results or more"):
        hc.overlap([scores([(0, 0)])])
    other = hc.HeadScores("model", "task", "m", "logit_diff", np.zeros((1, 2, 2)))
    with pytest.raises(hc.HeadcountError, match="4 and 12 heads"):
        hc.overlap([scores([(0, 0)]), other])


def test_stability_is_the_share_of_rankings_that_have_a_head():
    found = stability_of([("a", "b", "c", "d"), ("b", "a", "d", "c"), ("a", "c", "b", "d")], 2, 4)
    assert found.shares == {"a": 1.0, "b": 2 / 3, "c": 1 / 3}
    assert found.always == ("a",)
    assert found.jaccard == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    assert found.by_chance == pytest.approx(1 / 3)
    with pytest.raises(hc.HeadcountError, match="two or more"):
        stability_of([("a", "b")], 1, 2)


def test_repeats_know_how_steady_their_heads_are():
    one = replace(curve_of(None, [0, 2, 3], draws=np.array([[[0.0], [0.95], [1.0]]])), total=3, ranking=("a", "b", "c"))
    found = hc.Repeats((one, replace(one, ranking=("b", "a", "c")), replace(one, ranking=("a", "c", "b")))).stability()
    assert (found.k, found.always) == (2, ("a",))
    assert hc.Repeats((one,)).stability() is None


def test_lists_alone_need_the_number_of_heads():
    lists = {"a": ["a0.h1", "a0.h1", "a0.h2"], "b": ["a0.h1"]}
    with pytest.raises(hc.HeadcountError, match=r"Lists do not say how many heads .* Give total="):
        hc.overlap(lists)
    (row,) = hc.overlap(lists, total=12).rows()
    assert (row["heads_first"], row["shared"], row["by_chance"]) == (2, 1, 2 / 12), "each head counts once"
    with pytest.raises(hc.HeadcountError, match="Lists of heads need names"):
        hc.overlap([["a0.h1"], ["a0.h2"]])
    with pytest.raises(hc.HeadcountError, match="'?b'? names a9.h0, and the model has 12 heads"):
        hc.overlap({"a": scores([(0, 0)]), "b": ["a9.h0"]})
    with pytest.raises(hc.HeadcountError, match="k must be at least 1"):
        hc.overlap([scores([(0, 0)]), scores([(0, 1)])], k=0)
