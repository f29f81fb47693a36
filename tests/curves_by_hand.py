"""Curves worked out by hand."""

import numpy as np

import headcount as hc


def curve_of(by_pair, ks, mode="keep", model="m", draws=None):
    values = np.array(by_pair, dtype=float).T[None] if draws is None else np.array(draws, dtype=float)
    return hc.Curve(
        model, "t", "T", "heads", "x", "absolute", mode, "zero", "logit_diff", tuple(ks), ks[-1], (),
        {"logit_diff": values},
    )  # fmt: skip
