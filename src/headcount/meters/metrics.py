"""What is measured where answers are predicted, all of it from one pass: one number an example.

With several right or wrong tokens, a logit difference compares the best of each side, a probability difference the
sums. A completion is predicted token by token: its log-probability is the sum over the tokens of its target.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import HeadcountError, did_you_mean
from ..tasks.batches import Batch
from ..tasks.examples import Example, Pair

Metric = Callable[[Tensor, Batch], Tensor]
"""(logits [spot, vocabulary], the examples) -> [example]; differentiable, so that attribution can use it."""


def logit_diff(logits: Tensor, batch: Batch) -> Tensor:
    """Best right logit - best wrong logit."""
    return batch.by_row(_best(logits, batch.answers) - _best(logits, batch.wrongs))


def prob_diff(logits: Tensor, batch: Batch) -> Tensor:
    """Probability of the right tokens together - that of the wrong tokens together."""
    return _prob_diff(logits.log_softmax(-1), batch)


def log_prob(logits: Tensor, batch: Batch) -> Tensor:
    """Log of the probability of the right tokens together; of a target of several tokens, the sum over them."""
    return _log_prob(logits.log_softmax(-1), batch)


def log_prob_per_token(logits: Tensor, batch: Batch) -> Tensor:
    """The same, divided by the number of target tokens."""
    return _log_prob_per_token(logits.log_softmax(-1), batch)


def accuracy(logits: Tensor, batch: Batch) -> Tensor:
    """1 where the best of all right and wrong tokens is a right one. Without wrong tokens to choose among: 1 where
    every token of the target is the one that the model would say."""
    best = _best(logits, batch.answers)
    missed = best < logits.amax(-1)
    if batch.wrongs.shape[1]:
        missed = torch.where((batch.wrongs >= 0).any(1), best <= _best(logits, batch.wrongs), missed)
    return (batch.by_row(missed.to(logits.dtype)) == 0).to(logits.dtype)


METRICS: dict[str, Metric] = {
    "logit_diff": logit_diff,
    "prob_diff": prob_diff,
    "log_prob": log_prob,
    "log_prob_per_token": log_prob_per_token,
    "accuracy": accuracy,
}
"""KL to the uncut model stands beside these: it needs a second set of logits."""

NEED_WRONGS = ("logit_diff", "prob_diff")
"""Metrics that compare with wrong answers."""

LISTED_TOKENS_ONLY = ("logit_diff", "accuracy")
"""Metrics that look at the logits of the right and wrong tokens and at no others."""


OF_PAIRS = ("logit_diff", "prob_diff", "log_prob", "accuracy", "kl")
OF_COMPLETIONS = ("log_prob", "log_prob_per_token", "accuracy")
"""Everything that is reported at every point of a sweep."""


def measured(examples: Sequence[Example]) -> tuple[str, ...]:
    return OF_PAIRS if all(isinstance(example, Pair) for example in examples) else OF_COMPLETIONS


def require_metric(name: str, examples: Sequence[Example]) -> None:
    """The metric exists, and these examples have what it needs."""
    metric_named(name)
    if name in NEED_WRONGS and not all(isinstance(example, Pair) for example in examples):
        raise HeadcountError(
            f"{name} compares right with wrong next tokens, and this task has targets only. Use log_prob,"
            " log_prob_per_token or accuracy."
        )


def batch_for(metric: str, batch: Batch) -> tuple[Tensor | None, Batch]:
    """The tokens whose logits a metric needs (None for all), and the batch whose answers count among those."""
    if metric not in LISTED_TOKENS_ONLY or not batch.has_wrongs:
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


def measure_all(logits: Tensor, batch: Batch, names: Sequence[str], uncut: Reference | None) -> dict[str, Tensor]:
    """The named metrics of one pass, [cut, example], computed in float32 or better. Rows of the logits are the batch's
    spots, once for each cut."""
    logits = _precise(logits)
    copies = len(logits) // len(batch.rows)
    repeated = batch.repeated(copies)
    log_probs = logits.log_softmax(-1)
    values = {name: METRICS[name](logits, repeated) for name in names if name in LISTED_TOKENS_ONLY}
    values |= {name: OF_LOG_PROBS[name](log_probs, repeated) for name in names if name in OF_LOG_PROBS}
    found = {name: value.view(copies, -1) for name, value in values.items()}
    if uncut is not None:
        found["kl"] = uncut.kl(log_probs.view(copies, len(batch), -1))
    return found


def _precise(logits: Tensor) -> Tensor:
    return logits.float() if logits.element_size() < 4 else logits


def _prob_diff(log_probs: Tensor, batch: Batch) -> Tensor:
    return batch.by_row(_log_mass(log_probs, batch.answers).exp() - _log_mass(log_probs, batch.wrongs).exp())


def _log_prob(log_probs: Tensor, batch: Batch) -> Tensor:
    return batch.by_row(_log_mass(log_probs, batch.answers))


def _log_prob_per_token(log_probs: Tensor, batch: Batch) -> Tensor:
    return _log_prob(log_probs, batch) / batch.by_row(log_probs.new_ones(len(log_probs)))


OF_LOG_PROBS: dict[str, Metric] = {
    "prob_diff": _prob_diff,
    "log_prob": _log_prob,
    "log_prob_per_token": _log_prob_per_token,
}
"""The other metrics, from log-probabilities."""


def _best(logits: Tensor, ids: Tensor) -> Tensor:
    return _gathered(logits, ids).amax(-1)


def _log_mass(log_probs: Tensor, ids: Tensor) -> Tensor:
    return _gathered(log_probs, ids).logsumexp(-1)


def _gathered(values: Tensor, ids: Tensor) -> Tensor:
    """Values of the listed tokens; fillers (-1) count as minus infinity."""
    missing = ids < 0
    return values.gather(-1, ids.clamp(min=0)).masked_fill(missing, -torch.inf)
