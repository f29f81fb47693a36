"""The switchboard's engine: what a model says with some of its heads cut, beside what it says whole.

A prompt is read once by the whole model. A cut then runs from its first layer on, and behind a long stretch of tokens
that it cannot reach from its first token on. The numbers are those of `headcount.cut`, bit for bit; where tokens are
skipped, to the rounding of the model's precision, because sums are then taken in another order.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from typing_extensions import TypedDict

from ...edit import Filling, cut_heads, head_values
from ...edit.cut import donor_of, keep_mask, mean_filling
from ...edit.resume import Reading, last_of, resumed
from ...models import Model
from ...models.changes import changing
from ...tasks import task as make_task
from .state import OF_TASK, Asked, shown

TOP = 10
"""Tokens that are shown of each side."""
WORTH_SKIPPING = 32
"""Tokens that a cut cannot reach are skipped where they are at least so many. Fewer cost a CPU next to nothing, and
without skipping the answer is that of `headcount.cut` to the last bit."""
REFERENCE_N = 64
"""Prompts of a task, half of which a mean is taken over."""
KEPT_BYTES = 2**29
"""Readings, fills and patterns are kept up to this size; the oldest go first."""
T = TypeVar("T")


class Token(TypedDict):
    id: int
    text: str


class TokenRow(Token):
    """A next token on both sides."""

    whole: float  # probability
    cut: float
    whole_logit: float
    cut_logit: float
    side: str  # answer, wrong, or empty


class Answer(TypedDict):
    """What the page shows for a state."""

    tokens: list[Token]  # of the prompt
    other: list[Token]  # of the counterfactual prompt
    rows: list[TokenRow]  # the most probable next tokens of both sides, and the answers
    metric: str | None  # logit_diff with right and wrong answers, log_prob with right ones alone
    whole: float | None  # the metric
    cut: float | None
    none: float | None  # with every head cut
    explained: float | None  # (cut - none) / (whole - none)
    kl: float  # KL(whole || cut), in nats
    heads: int  # that are cut
    skipped_layers: int  # that were not run again
    skipped_tokens: int


@dataclass(frozen=True)
class Side:
    """What one of the two models predicts, in double precision."""

    logits: Tensor  # [vocabulary]
    shares: Tensor
    top: list[int]

    @classmethod
    def of(cls, logits: Tensor) -> "Side":
        logits = logits.cpu().double()  # some devices have no double precision
        shares = logits.softmax(-1)
        return cls(logits, shares, shares.topk(min(TOP, len(shares))).indices.tolist())

    def kl(self, other: "Side") -> float:
        """KL(this || other) in nats: Σ p (l - l') - (log Σ exp l - log Σ exp l')."""
        mean = torch.dot(self.shares, self.logits - other.logits)
        return max(float(mean - self.logits.logsumexp(-1) + other.logits.logsumexp(-1)), 0.0)


@dataclass(frozen=True)
class CutRun:
    logits: Tensor  # [vocabulary]
    skipped_layers: int = 0
    skipped_tokens: int = 0


class Kept:
    """Results by what they depend on, the oldest forgotten when they take too much room."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most, self._held = most, 0
        self._found: OrderedDict[tuple[object, ...], tuple[Any, int]] = OrderedDict()

    def __contains__(self, key: tuple[object, ...]) -> bool:
        return key in self._found

    def get(self, key: tuple[object, ...], make: Callable[[], T], size: Callable[[T], int]) -> T:
        if key in self._found:
            self._found.move_to_end(key)
            found: T = self._found[key][0]
            return found
        made = make()
        taken = size(made)
        self._found[key] = made, taken
        self._held += taken
        while self._held > self._most and len(self._found) > 1:
            self._held -= self._found.popitem(last=False)[1][1]
        return made


class Switchboard:
    """One model and what has been asked of it. Not for several threads at once."""

    def __init__(self, model: Model) -> None:
        self.model, self.kept = model, Kept()

    @contextmanager
    def stoppable(self, check: Callable[[], None]) -> Iterator[None]:
        """Call `check` before every layer that runs inside the block; it raises where the work is no longer wanted."""
        with changing() as changes:
            for layer in self.model.anatomy.layers:
                changes.before(layer, lambda *_: check())
            yield

    def tensor(self, ids: tuple[int, ...]) -> Tensor:
        return torch.tensor([ids], device=self.model.device)

    def reading(self, ids: tuple[int, ...]) -> Reading:
        """How the whole model reads a prompt."""
        return self.kept.get(("reading", ids), lambda: Reading.of(self.model, self.tensor(ids)), lambda r: r.bytes)

    def filling(self, asked: Asked) -> Filling:
        """What removed heads carry, as `headcount.cut` makes it."""
        return self.kept.get(("filling", *asked.filling_key), lambda: self._filled(asked), _filling_bytes)

    def _filled(self, asked: Asked) -> Filling:
        if asked.fill.kind == "counterfactual":
            return Filling(head_values(self.model, self.tensor(asked.other)))
        if asked.fill.kind in OF_TASK:
            reference = make_task(asked.reference, self.model, n=REFERENCE_N).train
            if asked.fill.kind == "resample":
                return Filling(head_values(self.model, self.tensor(donor_of(reference, len(asked.ids), asked.seed))))
            return mean_filling(self.model, asked.fill, reference)
        return Filling(scale=asked.fill.scale)

    def cutting(self, asked: Asked) -> AbstractContextManager[None]:
        """The cut, for runs of the whole prompt."""
        return cut_heads(self.model, keep_mask(self.model, asked.heads)[None], self.filling(asked), asked.positions)

    def run(self, asked: Asked) -> CutRun:
        """The next token's logits with the heads cut."""
        return self.kept.get(("run", *asked.cut_key), lambda: self._run(asked), _run_bytes)

    @torch.no_grad()
    def _run(self, asked: Asked) -> CutRun:
        reading = self.reading(asked.ids)
        if not asked.heads:
            return CutRun(reading.logits[0], self.model.n_layers, len(asked.ids))
        start = asked.first_position if asked.first_position >= WORTH_SKIPPING else 0
        prefix = self._prefix(asked.ids[:start]) if start else None
        past = None if prefix is None else self.model.repeated_prefix(prefix, 1)
        keep, filling = keep_mask(self.model, asked.heads)[None], self.filling(asked).from_position(start)
        ids = reading.ids[:, start:]
        with (
            resumed(self.model, reading, asked.first_layer, start),
            cut_heads(self.model, keep, filling, asked.positions),
        ):
            logits = self.model.last_logits(ids, last_of(ids), past)[0]
        return CutRun(logits, asked.first_layer, start)

    def _prefix(self, ids: tuple[int, ...]) -> Any:
        size = 2 * self.model.head_count * self.model.anatomy.head_size * len(ids) * self.model.hf.dtype.itemsize
        return self.kept.get(("prefix", ids), lambda: self.model.read_prefix(self.tensor(ids)), lambda _: size)

    def _none(self, asked: Asked) -> float | None:
        """The metric with every head cut."""
        everything = [(layer, head) for layer in range(self.model.n_layers) for head in range(self.model.n_heads)]
        return metric_of(self.run(asked.without(everything)).logits, asked)[1]

    def answer(self, asked: Asked) -> Answer:
        """What the page shows."""
        reading, run = self.reading(asked.ids), self.run(asked)
        whole = self.kept.get(("side", asked.ids), lambda: Side.of(reading.logits[0]), _side_bytes)
        cut = Side.of(run.logits)
        listed = dict.fromkeys([*asked.answers[:TOP], *asked.wrongs[:TOP], *whole.top, *cut.top])
        rows = [self._row(asked, token, whole, cut) for token in listed]
        metric, before = metric_of(whole.logits, asked)
        after, none = metric_of(cut.logits, asked)[1], self._none(asked) if metric else None
        return {
            "tokens": self.tokens(asked.ids),
            "other": self.tokens(asked.other),
            "rows": sorted(rows, key=lambda row: -max(row["whole"], row["cut"])),
            "metric": metric,
            "whole": before,
            "cut": after,
            "none": none,
            "explained": _explained(before, after, none),
            "kl": whole.kl(cut),
            "heads": len(asked.heads),
            "skipped_layers": run.skipped_layers,
            "skipped_tokens": run.skipped_tokens,
        }

    def _row(self, asked: Asked, token: int, whole: Side, cut: Side) -> TokenRow:
        return {
            "id": token,
            "text": shown(self.model, token),
            "whole": float(whole.shares[token]),
            "cut": float(cut.shares[token]),
            "whole_logit": float(whole.logits[token]),
            "cut_logit": float(cut.logits[token]),
            "side": "answer" if token in asked.answers else "wrong" if token in asked.wrongs else "",
        }

    def tokens(self, ids: tuple[int, ...]) -> list[Token]:
        return [{"id": token, "text": shown(self.model, token)} for token in ids]


def metric_of(logits: Tensor, asked: Asked) -> tuple[str | None, float | None]:
    """As `meters.metrics` has them: the best right logit against the best wrong one, or the log of the probability of
    the right tokens together."""
    if not asked.answers:
        return None, None
    logits, answers = logits.cpu().double(), list(asked.answers)
    if asked.wrongs:
        return "logit_diff", float(logits[answers].max() - logits[list(asked.wrongs)].max())
    return "log_prob", float(logits.log_softmax(-1)[answers].logsumexp(-1))


def _explained(whole: float | None, cut: float | None, none: float | None) -> float | None:
    """None where cutting every head changes nothing."""
    if whole is None or cut is None or none is None or abs(whole - none) < 1e-9:
        return None
    return (cut - none) / (whole - none)


def _filling_bytes(filling: Filling) -> int:
    return sum(value.numel() * value.element_size() for value in filling.values or ())


def _side_bytes(side: Side) -> int:
    return 2 * side.logits.numel() * side.logits.element_size()


def _run_bytes(run: CutRun) -> int:
    return run.logits.numel() * run.logits.element_size()
