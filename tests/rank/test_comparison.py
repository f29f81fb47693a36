"""Agreement between scores, by hand."""

from dataclasses import replace

import numpy as np
import pytest

import headcount as hc
from headcount.rank.comparison import auroc, jaccard, load_scores, spearman
from headcount.view.agreement import draw_agreement


def scores(method, values, samples="examples", task="t", model="m"):
    return hc.HeadScores(model, task, method, "log_prob", np.asarray(values, dtype=np.float64), samples=samples)


A = scores("a", [[[4, 3], [2, 1]]])
B = scores("b", [[[1, 2], [3, 4]]])
C = scores("c", [[[4, -5], [2, 1]]])


def test_spearman_is_the_correlation_of_ranks():
    values = np.array([[1.0, 2, 3, 4], [10, 20, 300, 4000], [4, 3, 2, 1], [1, 3, 2, 4]])
    assert spearman(values)[0] == pytest.approx([1, 1, -1, 0.8])


def test_equal_values_share_their_mean_rank():
    # Ranks 1.5, 1.5, 3 against 1, 2, 3: the covariance is 1.5, the variances 1.5 and 2.
    assert spearman(np.array([[5.0, 5, 7], [1, 2, 3]]))[0, 1] == pytest.approx(1.5 / np.sqrt(1.5 * 2))


def test_a_score_that_tells_no_heads_apart_correlates_with_nothing():
    assert spearman(np.array([[1.0, 1, 1], [1, 2, 3]]))[0, 1] == 0


def test_auroc_is_the_share_of_pairs_in_which_the_true_unit_is_larger_and_a_tie_is_half():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, true = rng.integers(0, 4, (3, 4)).astype(float), rng.random((3, 4)) < 0.4
        true[0, :2] = True, False
        won = [(one > other) + (one == other) / 2 for one in values[true] for other in values[~true]]
        assert auroc(values, true) == pytest.approx(np.mean(won))


def test_auroc_ends_at_one_and_zero_and_says_nothing_where_all_units_are_true():
    values, true = np.array([3.0, 2.0, 0.0, 0.0]), np.array([True, True, False, False])
    assert (auroc(values, true), auroc(-values, true), auroc(0 * values, true)) == (1, 0, 0.5)
    assert np.isnan(auroc(values, true | True))
    assert np.isnan(auroc(values, true & False))


def test_jaccard_is_shared_over_all_top_heads():
    assert jaccard(np.array([[4.0, 3, 2, 1], [1, 4, 3, 2]]), 2)[0, 1] == pytest.approx(1 / 3)


def test_compare_by_size_or_with_the_sign():
    by_size, signed = (hc.compare_scores([A, C], ks=[1], by=by) for by in ("absolute", "signed"))
    assert by_size.jaccard[1][0, 1] == 0
    assert signed.jaccard[1][0, 1] == 1
    assert hc.compare_scores([A, B]).spearman[0, 1] == pytest.approx(-1)


def test_seeds_agree_as_far_as_their_pairs_do():
    fitted = scores("gating", [[[4, 3], [2, 1]], [[4, 3], [2, 1]], [[1, 2], [3, 4]]], samples="seeds")
    found = hc.compare_scores([A, fitted], ks=[2])
    assert found.seed_spearman == (None, pytest.approx((1 - 1 - 1) / 3))
    assert found.seed_jaccard == (None, pytest.approx(1 / 3))


def test_names_say_what_sets_scores_apart():
    assert hc.compare_scores([A, B]).names == ("a", "b")
    assert hc.compare_scores([A, scores("a", A.by_pair, task="u")]).names == ("a · t", "a · u")


@pytest.mark.parametrize(
    ("listed", "arguments", "words"),
    [
        ([A], {}, "at least two scores"),
        ([A, scores("d", [[[1, 2, 3]]], model="n")], {}, "m 2 x 2, n 1 x 3"),
        ([A, B], {"ks": [5]}, "between 1 and the 4 heads"),
        ([A, B], {"by": "size"}, "'absolute' or 'signed'"),
    ],
)
def test_what_cannot_be_compared_is_said(listed, arguments, words):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.compare_scores(listed, **arguments)


def test_roles_and_scores_are_both_found_in_their_folders(tmp_path):
    gates = np.full((2, 2, 2), 0.9)
    roles = hc.HeadRoles("m", "t", "zero", gates, gates, gates, np.zeros((3, 1, 2)))
    assert load_scores(roles.save(tmp_path / "roles")).method == "gating"
    assert load_scores(A.save(tmp_path / "scores")).method == "a"
    with pytest.raises(hc.HeadcountError, match="holds no scores.json"):
        load_scores(tmp_path)


def test_the_figure_has_a_map_for_every_measure():
    found = hc.compare_scores([A, B, C], ks=[1, 2])
    titles = [ax.get_title(loc="left") for ax in draw_agreement(found).axes]
    assert titles == ["Spearman", "Jaccard, top 1", "Jaccard, top 2"]


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_saved_scores_that_are_no_numbers_rank_nothing(tmp_path, number):
    values = A.by_pair.copy()
    values[0, 0, 0] = number
    with pytest.raises(hc.HeadcountError, match="by_pair holds numbers that are not finite, which rank nothing"):
        load_scores(replace(A, by_pair=values).save(tmp_path))


def test_orders_and_counts_that_are_none_are_refused():
    for ask in (lambda: A.order("helpful"), lambda: A.top(2, by="Absolute")):
        with pytest.raises(hc.HeadcountError, match="There is no order of scores '"):
            ask()
    with pytest.raises(hc.HeadcountError, match="the model's 4 heads; -1 does not"):
        A.top(-1)
    assert len(A.top(9)) == 4
