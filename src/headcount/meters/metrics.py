"""What is measured where answers are predicted, all of it from one pass: one number per example.

With several right or wrong tokens, a logit difference compares the best of each side, a probability difference the
sums. A completion is predicted token by token: its log-probability is the sum over the tokens of its target.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import HeadcountError, require_known
from ..tasks.batches import Batch
from ..tasks.examples import Example, Pair

Metric = Callable[[Tensor, Batch], Tensor]
"""(logits [spot, vocabulary], the examples) -> [example]; differentiable, so that attribution can use it."""


def logit_diff(logits: Tensor, batch: Batch) -> Tensor:
    """Best right logit - best wrong logit."""
    return batch.by_row(_listed(logits, batch.answers).amax(-1) - _listed(logits, batch.wrongs).amax(-1))


def accuracy(logits: Tensor, batch: Batch) -> Tensor:
    """1 where the best of all right and wrong tokens is a right one. Without wrong tokens to choose among: 1 where
    every token of the target is the one that the model would say. Logits that are no numbers are never right."""
    best = _listed(logits, batch.answers).amax(-1)
    missed = ~(best >= logits.amax(-1))
    if batch.wrongs.shape[1]:
        missed = torch.where((batch.wrongs >= 0).any(1), ~(best > _listed(logits, batch.wrongs).amax(-1)), missed)
    return (batch.by_row(missed.to(logits.dtype)) == 0).to(logits.dtype)


def _prob_diff(log_probs: Tensor, batch: Batch) -> Tensor:
    """Probability of the right tokens together - that of the wrong tokens together."""
    right, wrong = (_listed(log_probs, ids).logsumexp(-1).exp() for ids in (batch.answers, batch.wrongs))
    return batch.by_row(right - wrong)


def _log_prob(log_probs: Tensor, batch: Batch) -> Tensor:
    """Log of the probability of the right tokens together; of a target of several tokens, the sum over them."""
    return batch.by_row(_listed(log_probs, batch.answers).logsumexp(-1))


def _log_prob_per_token(log_probs: Tensor, batch: Batch) -> Tensor:
    """The same, divided by the number of target tokens."""
    return _log_prob(log_probs, batch) / batch.by_row(log_probs.new_ones(len(log_probs)))


def _after_softmax(metric: Metric) -> Metric:
    return lambda logits, batch: metric(logits.log_softmax(-1), batch)


OF_LOGITS: dict[str, Metric] = {"logit_diff": logit_diff, "accuracy": accuracy}
"""Metrics that look at the logits of the right and wrong tokens and, where there are wrong ones, at no others."""
OF_LOG_PROBS = {"prob_diff": _prob_diff, "log_prob": _log_prob, "log_prob_per_token": _log_prob_per_token}
METRICS = OF_LOGITS | {name: _after_softmax(metric) for name, metric in OF_LOG_PROBS.items()}
"""KL to the uncut model stands beside these: it needs a second set of logits."""
log_prob_per_token = METRICS["log_prob_per_token"]
SAID = ("said", "said_chance")
"""Beside metrics: the most probable next token (of a target its first), and its probability."""
OF_PAIRS = ("logit_diff", "prob_diff", "log_prob", "accuracy", "kl")
OF_COMPLETIONS = ("log_prob", "log_prob_per_token", "accuracy")
"""Everything that is reported at every point of a sweep."""


SHARE, CHANGE = (0.0, 1.0), "_change"
RANGES: dict[str, tuple[float, float]] = {
    "accuracy": SHARE,
    "prob_diff": (-1.0, 1.0),
    "log_prob": (-math.inf, 0.0),
    "log_prob_per_token": (-math.inf, 0.0),
    "kl": (0.0, math.inf),
    **dict.fromkeys(("exact", "accepted", "unaffected", "bleu", "chrf", "rouge1"), SHARE),  # of written answers
    "similarity": (-1.0, 1.0),
}
"""What a metric can be, where that is not any number."""


def range_of(name: str) -> tuple[float, float]:
    """The least and the most that a metric can be; of its change (`kl_change`), the furthest that it can move."""
    if name.endswith(CHANGE):
        low, high = range_of(name.removesuffix(CHANGE))
        return low - high, high - low
    return RANGES.get(name, (-math.inf, math.inf))


def measured(examples: Sequence[Example]) -> tuple[str, ...]:
    return OF_PAIRS if all(isinstance(example, Pair) for example in examples) else OF_COMPLETIONS


def require_metric(name: str, examples: Sequence[Example], by: str = "") -> None:
    """The metric exists, these examples have what it needs and, where something goes `by` its gradient, it has one."""
    metric_named(name)
    if by and name == "accuracy":
        raise HeadcountError(
            f"{by} goes by a gradient, and accuracy, which is right or wrong, has none. Use another metric, or a method"
            " that runs each head or edge: patching, edge-patching."
        )
    if name in ("logit_diff", "prob_diff") and measured(examples) != OF_PAIRS:
        raise HeadcountError(
            f"{name} compares right with wrong next tokens, and this task has targets only. Use log_prob,"
            " log_prob_per_token or accuracy."
        )


def require_measured(name: str, examples: Sequence[Example]) -> None:
    """The metric exists and is among those that a sweep reports of these examples."""
    require_metric(name, examples)
    if name not in measured(examples):
        known = ", ".join(metric for metric in measured(examples) if metric in METRICS)
        raise HeadcountError(f"{name} is for targets of several tokens, and pairs have answers of one. Known: {known}.")


def batch_for(metric: str, batch: Batch) -> tuple[Tensor | None, Batch]:
    """The tokens whose logits a metric needs (None for all), and the batch whose answers count among those."""
    return batch.among_listed() if metric in OF_LOGITS and batch.has_wrongs else (None, batch)


def metric_named(name: str) -> Metric:
    require_known(name, METRICS, "metric")
    return METRICS[name]


@dataclass(frozen=True)
class Reference:
    """What KL is taken against: the whole model's prediction, made ready once for many cuts."""

    log_probs: Tensor  # [pair, vocabulary]
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
    logits, copies = _precise(logits), len(logits) // len(batch.rows)
    log_probs, repeated = logits.log_softmax(-1), batch.repeated(copies)
    values = {name: OF_LOGITS[name](logits, repeated) for name in names if name in OF_LOGITS}
    values |= {name: OF_LOG_PROBS[name](log_probs, repeated) for name in names if name in OF_LOG_PROBS}
    found = {name: value.view(copies, -1) for name, value in values.items()}
    if uncut is not None:
        found["kl"] = uncut.kl(log_probs.view(copies, len(batch), -1))
    if SAID[0] in names:
        chances, tokens = log_probs[repeated.first_spots()].max(-1)
        found |= {SAID[0]: tokens.view(copies, -1), SAID[1]: chances.exp().view(copies, -1)}
    return found


def _precise(logits: Tensor) -> Tensor:
    return logits.float() if logits.element_size() < 4 else logits


def _listed(values: Tensor, ids: Tensor) -> Tensor:
    """Values of the listed tokens; fillers (-1) count as minus infinity."""
    return values.gather(-1, ids.clamp(min=0)).masked_fill(ids < 0, -torch.inf)
