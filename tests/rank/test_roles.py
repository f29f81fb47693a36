"""Scores, labels and aggregation of roles, worked out by hand; and the curves that follow from them."""

import numpy as np
import pytest

import headcount as hc
from golden_folders import PLANTED
from headcount.sweeps.roles import role_grid

# One layer of four heads: facilitating, irrelevant, interfering, and the rare one with G+ low and G- high.
PLUS = np.array([[[0.9, 0.8, 0.1, 0.3]], [[0.7, 0.6, 0.6, 0.2]]])
MINUS = np.array([[[0.8, 0.1, 0.2, 0.9]], [[0.4, 0.1, 0.3, 0.6]]])


def roles():
    return hc.HeadRoles("m", "t", "zero", PLUS * 0, PLUS, MINUS, np.zeros((3, 5, 2)), {"arguments": {"seed": 7}})


def test_scores_are_those_of_the_papers_first_table():
    assert np.array_equal(roles().score("facilitation"), MINUS)
    assert roles().score("interference") == pytest.approx(1 - PLUS)
    assert roles().score("irrelevance") == pytest.approx(PLUS * (1 - MINUS))


def test_labels_at_one_half():
    first, second = roles().labels()
    assert first[0].tolist() == ["facilitating", "irrelevant", "interfering", "facilitating"]
    assert second[0].tolist() == ["unclear", "irrelevant", "unclear", "interfering"]


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("mean", [0.6, 0.1, 0.25, 0.75]),
        ("max", [0.8, 0.1, 0.3, 0.9]),
        ("always", [0, 0, 0, 1]),
        ("any", [1, 0, 0, 1]),
    ],
)
def test_aggregation_over_seeds(how, wanted):
    assert roles().aggregate("facilitation", how)[0] == pytest.approx(wanted)


def test_shares_of_the_heads():
    assert roles().shares()["facilitation"] == pytest.approx({"mean": 3 / 8, "always": 1 / 4, "any": 2 / 4})


def test_the_order_of_a_role_puts_its_highest_score_first():
    assert roles().order("facilitation", 0).tolist() == [3, 0, 2, 1]
    assert roles().order("interference", 0).tolist() == [2, 3, 1, 0]


def test_as_head_scores_without_a_role_helps_minus_hurts():
    assert roles().scores().by_pair == pytest.approx(PLUS + MINUS - 1)
    assert roles().scores("interference").method == "gating-interference"


def test_rows_name_the_seed_and_the_label():
    rows = roles().rows()
    assert len(rows) == 8
    assert (rows[0]["seed"], rows[-1]["seed"], rows[2]["label"]) == (7, 8, "interfering")


def test_roles_are_saved_and_loaded(tmp_path):
    again = hc.HeadRoles.load(roles().save(tmp_path))
    assert np.array_equal(again.plus, PLUS)
    assert again.rows() == roles().rows()


def test_unknown_roles_and_aggregations_suggest_the_nearest():
    with pytest.raises(hc.HeadcountError, match="Did you mean 'facilitation'"):
        roles().score("facilitating")
    with pytest.raises(hc.HeadcountError, match="no aggregation"):
        roles().aggregate("facilitation", "median")


# ---------------------------------------------------------------------------------------------------------------------
# Curves


@pytest.fixture(scope="module")
def planted():
    return hc.load(str(PLANTED))


@pytest.fixture(scope="module")
def truth(planted_task):
    """Roles as planted, of two seeds that differ a little in G+."""
    plus, minus = np.full((2, 3, 4), 0.98), np.full((2, 3, 4), 0.02)
    plus[1] = 0.96
    for layer, head in ((0, 1), (1, 3)):
        minus[:, layer, head] = 0.98
    plus[:, 1, 0] = minus[:, 1, 0] = 0.02
    return hc.HeadRoles("planted", "planted", "zero", plus, plus, minus, np.zeros((3, 1, 2)))


def log_prob(planted, examples, gates):
    """Mean log-probability of the target with gates put on by hand."""
    import torch

    total = 0.0
    for example in examples:
        handles = []
        for layer, block in enumerate(planted.hf.transformer.h):
            scale = torch.tensor(gates[layer], dtype=torch.float32).repeat_interleave(16)
            handles.append(block.attn.c_proj.register_forward_pre_hook(lambda m, args, scale=scale: (args[0] * scale,)))
        with torch.no_grad():
            logits = planted.hf(input_ids=torch.tensor([example.prompt])).logits[0, -1]
        for handle in handles:
            handle.remove()
        total += float(logits.log_softmax(-1)[example.target[0]])
    return total / len(examples)


@pytest.mark.parametrize("base", ["plus", "ones"])
def test_a_point_is_the_change_from_open_to_shut_of_the_first_k(planted, planted_task, truth, base):
    task = hc.Task("planted", "Planted", "log_prob", planted_task.train, planted_task.test[:6])
    curves = {curve.order: curve for curve in hc.sweep_roles(planted, task, truth, ks=[2], base=base)}
    wanted = []
    for seed in range(2):
        shut = truth.plus[seed].copy() if base == "plus" else np.ones((3, 4))
        opened = shut.copy()
        shut[[0, 1], [1, 3]], opened[[0, 1], [1, 3]] = 0, 1
        wanted.append(log_prob(planted, task.test, shut) - log_prob(planted, task.test, opened))
    curve = curves["facilitation"]
    assert curve.values["log_prob_change"][:, 1].mean(1) == pytest.approx(wanted, abs=1e-4)
    assert curve.band("log_prob_change").value.tolist() == [0, pytest.approx(np.mean(wanted), abs=1e-4)]
    assert curve.whole["log_prob"] == pytest.approx(log_prob(planted, task.test, np.ones((3, 4))), abs=1e-4)


def test_the_planted_curves_do_what_the_roles_promise(planted, planted_task, truth):
    curves = {curve.order: curve for curve in hc.sweep_roles(planted, planted_task, truth, ks=range(51))}
    means = {order: curve.band("log_prob_change").value for order, curve in curves.items()}
    assert curves["facilitation"].ks == tuple(range(13)), "all heads of a model with fewer than fifty"
    assert (means["facilitation"][1:] < -5).all()
    assert abs(means["irrelevance"][:10]).max() < 1e-5
    assert means["interference"][1] > 1
    assert curves["facilitation"].draws == 2


def test_chance_has_its_draws_for_every_seed(planted, planted_task, truth):
    one, three = (
        hc.sweep_roles(planted, planted_task, truth, orders=["chance"], ks=[1], draws=draws)[0] for draws in (1, 3)
    )
    assert (one.draws, three.draws) == (2, 6)


def test_a_curve_of_roles_has_no_explained_effect(planted, planted_task, truth, tmp_path):
    curve = hc.sweep_roles(planted, planted_task, truth, orders=["irrelevance"], ks=[1])[0]
    assert "explained_effect" not in curve.metrics
    with pytest.raises(hc.HeadcountError, match="no metric 'explained_effect'"):
        curve.band()
    again = hc.Curve.load(curve.save(tmp_path))
    assert (again.base, again.whole, again.rows()) == (curve.base, curve.whole, curve.rows())


def test_the_grid_grows_with_the_model_unless_told_otherwise():
    assert role_grid(270, None) == list(range(51))
    assert role_grid(72, None) == list(range(15)), "50 of 72 heads would be no small cut"
    assert role_grid(8, None) == [0, 1, 2, 3, 4]
    assert role_grid(2, None) == [0, 1, 2]
    assert role_grid(270, "halves") == [0, 1, 3, 6, 12, 25, 50]
    assert role_grid(72, "halves") == [0, 1, 3, 7, 14]
    assert role_grid(12, [3, 40]) == [0, 3, 12]
    with pytest.raises(hc.HeadcountError, match="whole number from 0 on"):
        role_grid(12, [-1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"base": "minus"}, "no base 'minus'"),
        ({"orders": ["facilitating"]}, "Did you mean 'facilitation'"),
        ({"draws": 0}, "at least 1 draw"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_what_cannot_be_swept_is_said(planted, planted_task, truth, arguments, words):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.sweep_roles(planted, planted_task, truth, **arguments)


def test_roles_of_another_model_are_refused(planted, planted_task):
    with pytest.raises(hc.HeadcountError, match="The roles are of 4 heads, but planted has 12"):
        hc.sweep_roles(planted, planted_task, roles())
