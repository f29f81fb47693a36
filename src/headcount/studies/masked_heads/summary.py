"""The schema of summary.json."""

from typing import NotRequired, TypedDict

from ..kind import Summary

Number = float | None
"""None where JSON has no number for it."""


class PushEntry(TypedDict):
    """What pushes gain, or why there are none."""

    reason: NotRequired[str]
    heads: NotRequired[int]
    alpha: NotRequired[float]
    unpushed: NotRequired[Number]
    gain: NotRequired[Number]
    low: NotRequired[Number]
    high: NotRequired[Number]
    control_alpha: NotRequired[float]
    control_gain: NotRequired[Number]
    alphas: NotRequired[list[float]]
    test: NotRequired[list[Number]]
    validation: NotRequired[list[Number]]


class MaskedEntry(TypedDict):
    """One function and model."""

    function: str
    model: str
    heads: int
    method: str
    metric: str
    similarity: str
    test_questions: int
    fill: str
    ks: list[int]
    draws: int
    unmasked: dict[str, Number]
    curves: dict[str, dict[str, list[Number]]]
    """Order -> metric -> value at each k."""
    words: dict[str, str]
    elbow: int
    top_heads: list[str]
    seed_agreement: Number
    steering: PushEntry
    skipped: dict[str, int]
    empty_answers: dict[str, int]
    missing: dict[str, str]


class ProbeEntry(TypedDict):
    model: str
    questions: str
    choose: str
    chance: Number
    joint_accuracy: list[Number]
    joint_control: Number
    head_control: Number
    head_accuracy_mean: Number
    head_accuracy_best: Number
    seed_agreement: dict[str, Number]
    skipped: dict[str, int]


class MaskedSummary(Summary):
    similarity: str
    """The metric beside accuracy in the figure; empty where there is none."""
    cells: list[MaskedEntry]
    probes: list[ProbeEntry]
    baseline: dict[str, dict[str, Number]]
    notes: list[str]
