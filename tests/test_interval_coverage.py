"""How often stated intervals hold the truth, by simulation from distributions that are known. Numbers only, no model."""

from functools import cache

import numpy as np
import pytest

from headcount.sweeps import Curve

KS = (0, 2, 4, 6, 8, 10)
SHARES = np.array([0.0, 0.30, 0.60, 0.80, 0.95, 1.0])
"""True explained effect at each k."""
RUNS = 250
"""Simulated studies of each kind; a coverage of 0.9 is then known to ±0.019 (one standard error)."""
PROMPTS, TEMPLATES = 60, 12


def simulate(rng, templates):
    """The curve of one study. Each prompt has an effect of its own, and noise of its own at each k; with templates, the
    prompts of one of them share most of both."""
    groups = np.repeat(np.arange(templates), PROMPTS // templates) if templates else np.arange(PROMPTS)
    shared = 0.8 if templates else 0.0

    def draw(*shape):
        by_group = rng.standard_normal((*shape, groups.max() + 1))[..., groups]
        return np.sqrt(shared) * by_group + np.sqrt(1 - shared) * rng.standard_normal((*shape, PROMPTS))

    effect, floor, noise = 2 + 0.8 * draw(), -1 + 0.5 * draw(), 0.4 * draw(len(KS))
    values = floor + SHARES[:, None] * effect + noise
    return Curve(
        kind="explained", model="m", task="t", title="T", units="heads", method="x", order="absolute", mode="keep",
        fill="zero", metric="logit_diff", ks=KS, total=KS[-1], ranking=(), values={"logit_diff": values[None]},
        groups=tuple(f"template {group}" for group in groups) if templates else (),
    )  # fmt: skip


@cache
def coverage(templates):
    """Share of the studies whose 90 % interval holds the truth: of the mean metric and of explained effect at each k,
    and of the number of units needed at thresholds that lie between the true values of two k."""
    rng = np.random.default_rng(0)
    hits = {"mean": [], "explained": [], "needed 0.7": [], "needed 0.9": []}
    for _ in range(RUNS):
        curve = simulate(rng, templates)
        for name, metric, truth in (("mean", "logit_diff", -1 + 2 * SHARES), ("explained", "explained_effect", SHARES)):
            band = curve.band(metric)
            hits[name].append((band.low <= truth) & (truth <= band.high))
        for threshold in (0.7, 0.9):
            needed = curve.units_needed(threshold)
            truth = next(k for k, share in zip(KS, SHARES, strict=True) if share >= threshold)
            low, high = (np.inf if end is None else end for end in (needed.low, needed.high))
            hits[f"needed {threshold}"].append(low <= truth <= high)
    return {name: np.mean(found, axis=0) for name, found in hits.items()}
