"""A probe for each head by itself: logistic regression with an L2 penalty on the head's value.

Its score for a function is the area under the ROC curve, of that function's questions against all others that the probe
was not fitted on, minus one half: 0 says that the head tells nothing about it. The mean of the layer, which the joint
classifier reads beside the head, is left out here: with it every head of a layer would tell what any of them tells.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...core.errors import HeadcountError
from ...core.saving import Floats

Ints = NDArray[np.int64]
PENALTY = 0.01
"""scikit-learn's C, on values scaled to unit variance: strong, as there are about as many dimensions as questions."""


class HeadProbes(NamedTuple):
    scores: Floats  # [function, layer, head], area under the ROC curve minus one half
    guesses: Ints  # [question, layer, head], the function that the head's probe names for each held-out question


def fit_by_head(values: Tensor, labels: Ints, held_out: Tensor, held_labels: Ints, classes: int) -> HeadProbes:
    """Probes fitted on `values` [question, layer, head, head size] and judged on `held_out`."""
    logistic, scaler, roc_auc = require_sklearn()
    shape = values.shape[1:3]
    scores, guesses = np.zeros((classes, *shape)), np.zeros((len(held_labels), *shape), dtype=np.int64)
    for layer, head in np.ndindex(*shape):
        own, held = values[:, layer, head].numpy(), held_out[:, layer, head].numpy()
        scale = scaler().fit(own)
        probe = logistic(C=PENALTY, max_iter=200, tol=1e-3).fit(scale.transform(own), labels)
        told = probe.decision_function(scale.transform(held))
        if told.ndim == 1:  # two functions have one boundary
            told = np.stack([-told, told], axis=1)
        for column, function in enumerate(probe.classes_):
            scores[function, layer, head] = roc_auc(held_labels == function, told[:, column]) - 0.5
        guesses[:, layer, head] = probe.classes_[told.argmax(1)]
    return HeadProbes(scores, guesses)


def beyond_chance(guesses: Ints, labels: Ints) -> Floats:
    """For each question, 1 or 0 for a right or wrong guess, minus how often its label is guessed at all: 0 on average
    where guesses have nothing to do with the questions. Guesses may have further dimensions behind that of questions;
    the mean over them is given."""
    by_label = {label: (guesses == label).mean(0) for label in np.unique(labels)}
    found = [(guess == label) - by_label[label] for guess, label in zip(guesses, labels, strict=True)]
    return np.array([np.mean(entry) for entry in found], dtype=np.float64)


def require_sklearn() -> tuple[type, type, Callable[..., float]]:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise HeadcountError("Probes need scikit-learn: pip install 'headcount[answers]'") from error
    return LogisticRegression, StandardScaler, roc_auc_score
