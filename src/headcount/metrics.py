"""What is measured at the answer position, all of it from one pass: one number a pair.

With several right or wrong tokens, a logit difference compares the best of each side, a probability difference the
sums.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
    return _prob_diff(logits.log_softmax(-1), batch)


def log_prob(logits: Tensor, batch: Batch) -> Tensor:
    """Log of the probability of the right tokens together."""
    return _log_prob(logits.log_softmax(-1), batch)


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


@dataclass(frozen=True)
class Reference:
    """What KL is taken against: the whole model's prediction, made ready once for many cuts."""

    log_probs: Tensor
    """[pair, vocabulary]."""
    probs: Tensor

    @classmethod
    def of(cls, logits: Tensor) -> "Reference":
        log_probs = _precise(logits).log_softmax(-1)
        return cls(log_probs, log_probs.exp())

    def kl(self, log_probs: Tensor) -> Tensor:
        """KL(uncut model || cut model) over the whole vocabulary, in nats, [cut, pair]."""
        divergence: Tensor = torch.linalg.vecdot(self.probs, self.log_probs - log_probs)
        return divergence


def measure_all(logits: Tensor, batch: Batch, uncut: Reference) -> dict[str, Tensor]:
    """Every metric of one pass, [cut, pair], computed in float32 or better. Rows of the logits are the batch's pairs,
    once for each cut."""
    logits = _precise(logits)
    copies = len(logits) // len(batch)
    repeated = batch.repeated(copies)
    log_probs = logits.log_softmax(-1)
    values = {name: METRICS[name](logits, repeated) for name in LISTED_TOKENS_ONLY}
    values |= {name: of_log_probs(log_probs, repeated) for name, of_log_probs in OF_LOG_PROBS.items()}
    found = {name: value.view(copies, -1) for name, value in values.items()}
    return {**found, "kl": uncut.kl(log_probs.view(copies, len(batch), -1))}


def _precise(logits: Tensor) -> Tensor:
    return logits.float() if logits.element_size() < 4 else logits


def _prob_diff(log_probs: Tensor, batch: Batch) -> Tensor:
    return _log_mass(log_probs, batch.answers).exp() - _log_mass(log_probs, batch.wrongs).exp()


def _log_prob(log_probs: Tensor, batch: Batch) -> Tensor:
    return _log_mass(log_probs, batch.answers)


OF_LOG_PROBS: dict[str, Metric] = {"prob_diff": _prob_diff, "log_prob": _log_prob}
"""The other metrics, from log-probabilities."""


def _best(logits: Tensor, ids: Tensor) -> Tensor:
    return _gathered(logits, ids).amax(-1)


def _log_mass(log_probs: Tensor, ids: Tensor) -> Tensor:
    return _gathered(log_probs, ids).logsumexp(-1)


def _gathered(values: Tensor, ids: Tensor) -> Tensor:
    """Values of the listed tokens; fillers (-1) count as minus infinity."""
    missing = ids < 0
    return values.gather(-1, ids.clamp(min=0)).masked_fill(missing, -torch.inf)
