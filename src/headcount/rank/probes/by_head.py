"""A probe for each head by itself: logistic regression with an L2 penalty on the head's value.

Its score for a function is the area under the ROC curve, of that function's questions against all others that the probe
was not fitted on, minus one half: 0 says that the head tells nothing about it. The mean of the layer, which the joint
classifier reads beside the head, is left out here: with it every head of a layer would tell what any of them tells.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...core.errors import HeadcountError
from ...core.saving import Floats
from ..comparison import auroc

Ints = NDArray[np.int64]
PENALTY = 0.01
"""scikit-learn's C, on values scaled to unit variance: strong, as there are about as many dimensions as questions."""


def fit_by_head(values: Tensor, labels: Ints, held_out: Tensor) -> Floats:
    """Probes fitted on `values` [question, layer, head, head size]; what each says of `held_out`, [question, layer,
    head, function]: its guess is the function of the largest number. Labels are 0, 1, … without a gap."""
    logistic, scaler = require_sklearn()
    told = np.zeros((len(held_out), *values.shape[1:3], len(np.unique(labels))))
    for layer, head in np.ndindex(*values.shape[1:3]):
        own, held = values[:, layer, head].numpy(), held_out[:, layer, head].numpy()
        scale = scaler().fit(own)
        probe = logistic(C=PENALTY, max_iter=200, tol=1e-3).fit(scale.transform(own), labels)
        sides = probe.decision_function(scale.transform(held))
        # Two functions have one boundary.
        told[:, layer, head] = np.stack([-sides, sides], axis=1) if sides.ndim == 1 else sides
    return told


def areas(told: Floats, labels: Ints) -> Floats:
    """Area under the ROC curve minus one half, [function, layer, head]."""
    scores = np.zeros((told.shape[3], *told.shape[1:3]))
    for function, layer, head in np.ndindex(scores.shape):
        scores[function, layer, head] = auroc(told[:, layer, head, function], labels == function) - 0.5
    return scores


def require_sklearn() -> tuple[type, type]:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise HeadcountError("Probes need scikit-learn: pip install 'headcount[answers]'") from error
    return LogisticRegression, StandardScaler
