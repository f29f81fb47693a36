"""The first k at which a curve is near its aim, with few points."""

import numpy as np

from headcount.rank.crossing import first_near


def traced(curve):
    """A curve over k as a measure, and the k at which it was asked."""
    asked = []

    def measure(ks):
        asked.extend(ks)
        return np.array([1 - curve(k) for k in ks])

    return measure, asked


def test_a_crossing_is_found_to_one_unit_and_no_k_is_measured_twice():
    measure, asked = traced(lambda k: min(k / 700, 1))
    assert first_near(measure, [0, 1, 10, 100, 1000], 0.1, at_once=4) == 630
    assert len(asked) == len(set(asked)) < 30


def test_a_curve_that_jumps_past_its_aim_between_two_points_of_the_grid_is_followed():
    """From 0.5 at 40 to 1.5 at 60: near 1 between, and at no point of the grid but the last."""
    measure, _ = traced(lambda k: (k - 30) / 20 if k < 1000 else 1)
    assert first_near(measure, [0, 20, 40, 60, 80], 0.1, at_once=4) == 48


def test_a_curve_that_is_never_near_has_no_such_k():
    measure, asked = traced(lambda k: 2.0 if k > 50 else 0.0)
    assert first_near(measure, [0, 40, 80], 0.1, at_once=4) is None
    assert {50, 51} <= set(asked)
    assert first_near(traced(lambda k: np.nan)[0], [0, 40, 80], 0.1, at_once=4) is None
