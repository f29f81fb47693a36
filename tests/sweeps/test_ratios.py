"""How many times the units of another model: its direction, its interval, and only where it means something."""

from dataclasses import replace

import numpy as np
import pytest

from curves_by_hand import curve_of
from headcount.sweeps import compare

KS = range(0, 401)


def two_models(paired, seed=0):
    """`dense` needs twice the heads of `sparse`; how fast a prompt's curve rises is the same in both."""
    rng = np.random.default_rng(seed)
    speed = rng.lognormal(0, 0.4, (40, 1))
    made = []
    for name, scale in (("dense", 60), ("sparse", 30)):
        rise = 1 - np.exp(-np.array(KS) / (scale * speed))
        curve = curve_of(10 * rise / rise[:, -1:], KS, model=name)
        made.append(replace(curve, provenance={"task": {"sha256": "same" if paired else name}}))
    return made


def test_a_ratio_says_which_model_needs_more():
    dense, sparse = (
        curve_of([[0, 5, 10]], [0, 50, 100], model="dense"),
        curve_of([[0, 10, 10]], [0, 40, 100], model="sparse"),
    )
    for pair in ((dense, sparse), (sparse, dense)):
        assert str(compare(*pair, 0.9)) == "dense needs 2.5x the heads of sparse (2.5 to 2.5)"


def test_equal_numbers_have_no_direction():
    one, other = (curve_of([[0, 10, 10]], [0, 40, 100], model=name) for name in ("one", "other"))
    assert str(compare(one, other)) == "one needs as many heads as other (1.0 to 1.0)"


def test_prompts_that_both_models_saw_are_drawn_together():
    """What makes a prompt slow in both models then cancels, and the interval is narrower."""
    together, apart = (compare(*two_models(paired)) for paired in (True, False))
    assert together.value == apart.value == pytest.approx(2, abs=0.15)
    assert together.low <= together.value <= together.high
    assert together.high - together.low < 0.6 * (apart.high - apart.low)


def test_a_ratio_with_an_effect_that_may_be_nothing_is_not_told():
    noise = np.random.default_rng(0).normal(size=(20, 1)) * np.array([0, 0.5, 1])
    doubtful, sound = curve_of(noise, [0, 1, 2], model="a"), curve_of([[0, 5, 10]] * 20, [0, 1, 2], model="b")
    assert doubtful.warning()
    assert compare(doubtful, sound) is None
    assert compare(sound, doubtful) is None
    assert compare(sound, sound) is not None


def test_no_ratio_where_one_never_gets_there():
    never = curve_of([[0, 0, 0]], [0, 1, 2])
    assert compare(never, curve_of([[0, 5, 10]], [0, 1, 2])) is None
