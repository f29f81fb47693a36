"""What is measured at the answer position, all of it from one pass: one number a pair.

With several right or wrong tokens, a logit difference compares the best of each side, a probability difference the
sums.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .errors import HeadcountError, did_you_mean
from .tasks.pairs import Batch

Metric = Callable[[Tensor, Batch], Tensor]
"""(logits [pair, vocabulary], the pairs) -> [pair]; differentiable, so that attribution can use it."""


def logit_diff(logits: Tensor, batch: Batch) -> Tensor:
    """Best right logit - best wrong logit."""
    return _best(logits, batch.answers) - _best(logits, batch.wrongs)


def prob_diff(logits: Tensor, batch: Batch) -> Tensor:
    """Probability of the right tokens together - that of the wrong tokens together."""
    log_probs = logits.log_softmax(-1)
    return _log_mass(log_probs, batch.answers).exp() - _log_mass(log_probs, batch.wrongs).exp()


def log_prob(logits: Tensor, batch: Batch) -> Tensor:
    """Log of the probability of the right tokens together."""
    return _log_mass(logits.log_softmax(-1), batch.answers)


def accuracy(logits: Tensor, batch: Batch) -> Tensor:
    """1 where the best of all right and wrong tokens is a right one."""
    return (logit_diff(logits, batch) > 0).to(logits.dtype)


METRICS: dict[str, Metric] = {
    "logit_diff": logit_diff,
    "prob_diff": prob_diff,
    "log_prob": log_prob,
    "accuracy": accuracy,
}
"""KL to the uncut model stands beside these: it needs a second set of logits."""

MEASURED = (*METRICS, "kl")
"""Everything that a sweep reports at every point."""


LISTED_TOKENS_ONLY = ("logit_diff", "accuracy")
"""Metrics that look at the logits of the right and wrong tokens and at no others."""


def batch_for(metric: str, batch: Batch) -> tuple[Tensor | None, Batch]:
    """The tokens whose logits a metric needs (None for all), and the batch whose answers count among those."""
    if metric not in LISTED_TOKENS_ONLY:
        return None, batch
    return batch.among_listed()


def metric_named(name: str) -> Metric:
    if name not in METRICS:
        raise HeadcountError(f"There is no metric {name!r}.{did_you_mean(name, METRICS)}")
    return METRICS[name]


def kl_divergence(logits: Tensor, uncut: Tensor) -> Tensor:
    """KL(uncut model || cut model) over the whole vocabulary, in nats, [pair]."""
    reference = uncut.log_softmax(-1)
    return (reference.exp() * (reference - logits.log_softmax(-1))).sum(-1)


def measure_all(logits: Tensor, batch: Batch, uncut: Tensor) -> dict[str, Tensor]:
    """Every metric of one pass, computed in float32 or better."""
    logits, uncut = (tensor.float() if tensor.element_size() < 4 else tensor for tensor in (logits, uncut))
    values = {name: metric(logits, batch) for name, metric in METRICS.items()}
    return {**values, "kl": kl_divergence(logits, uncut)}


def _best(logits: Tensor, ids: Tensor) -> Tensor:
    return _gathered(logits, ids).amax(-1)


def _log_mass(log_probs: Tensor, ids: Tensor) -> Tensor:
    return _gathered(log_probs, ids).logsumexp(-1)


def _gathered(values: Tensor, ids: Tensor) -> Tensor:
    """Values of the listed tokens; fillers (-1) count as minus infinity."""
    missing = ids < 0
    return values.gather(-1, ids.clamp(min=0)).masked_fill(missing, -torch.inf)
