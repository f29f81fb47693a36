"""The examples that a measurement runs on: clean and counterfactual prompts of equal length, and batches of them."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from ..errors import HeadcountError

Split = Literal["train", "test"]


@dataclass(frozen=True)
class Pair:
    """A clean prompt and its counterfactual, aligned token by token, with the right and the wrong next tokens."""

    clean: tuple[int, ...]
    corrupt: tuple[int, ...]
    answers: tuple[int, ...]
    wrongs: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.clean) != len(self.corrupt):
            raise HeadcountError(
                f"A pair must have prompts of equal length: the clean one has {len(self.clean)} tokens,"
                f" the corrupt one {len(self.corrupt)}. Change words until both counts agree."
            )
        for name in ("clean", "answers", "wrongs"):
            if not getattr(self, name):
                raise HeadcountError(f"A pair must have at least one token in {name!r}, and this one has none.")
        if both := set(self.answers) & set(self.wrongs):
            raise HeadcountError(f"A token cannot be right and wrong at once; this pair has {sorted(both)} in both.")


@dataclass(frozen=True)
class Task:
    """A named set of pairs with its metric. Scores are fitted on `train`, curves are measured on `test`."""

    name: str
    title: str
    metric: str
    train: tuple[Pair, ...] = field(repr=False)
    test: tuple[Pair, ...] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """A hash of the metric and of every token id: what a result depends on, however the task was made."""
        facts = [[self.metric], *([[p.clean, p.corrupt, p.answers, p.wrongs] for p in side] for side in self.sides)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def sides(self) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
        return self.train, self.test

    def split(self, name: Split) -> tuple[Pair, ...]:
        pairs = self.train if name == "train" else self.test
        if not pairs:
            raise HeadcountError(f"The task {self.name!r} has no {name} pairs. Give it more examples.")
        return pairs


@dataclass(frozen=True)
class Batch:
    """Pairs as tensors, padded on the right."""

    clean: Tensor
    """Token ids, [pair, position]."""
    corrupt: Tensor
    """Token ids, [pair, position]."""
    last: Tensor
    """Position of the last real token, [pair]."""
    answers: Tensor
    """Ids of the right next tokens, [pair, answer], filled up with -1."""
    wrongs: Tensor
    """Ids of the wrong next tokens, [pair, wrong], filled up with -1."""

    def __len__(self) -> int:
        return len(self.last)

    @property
    def length(self) -> int:
        return self.clean.shape[1]

    def repeated(self, times: int) -> "Batch":
        """The whole batch again and again, so that many cuts of the same pairs run in one forward."""
        if times == 1:
            return self
        return Batch(*(tensor.repeat(times, *[1] * (tensor.dim() - 1)) for tensor in self.tensors()))

    def among_listed(self) -> tuple[Tensor, "Batch"]:
        """All right and wrong tokens of the batch, and the batch with places among them in the place of token ids."""
        both = torch.cat([self.answers, self.wrongs], dim=1)
        tokens = both[both >= 0].unique()
        places = torch.searchsorted(tokens, both).where(both >= 0, both)
        answers, wrongs = places.split([self.answers.shape[1], self.wrongs.shape[1]], dim=1)
        return tokens, replace(self, answers=answers.contiguous(), wrongs=wrongs.contiguous())

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        return self.clean, self.corrupt, self.last, self.answers, self.wrongs


def collate(pairs: Sequence[Pair], device: torch.device) -> Batch:
    return Batch(
        clean=_padded([pair.clean for pair in pairs], 0, device),
        corrupt=_padded([pair.corrupt for pair in pairs], 0, device),
        last=torch.tensor([len(pair.clean) - 1 for pair in pairs], device=device),
        answers=_padded([pair.answers for pair in pairs], -1, device),
        wrongs=_padded([pair.wrongs for pair in pairs], -1, device),
    )


def batches(pairs: Sequence[Pair], device: torch.device, max_tokens: int) -> Iterator[tuple[list[int], Batch]]:
    """Pairs of similar shape together, at most `max_tokens` a batch: (their indices, their tensors).

    Once a batch is worth running, it waits for no longer pair, which would only add padding. How pairs fall into
    batches depends on the pairs alone, so that a run can be repeated bit for bit.
    """
    waiting: list[int] = []
    width = 0
    for index in sorted(
        range(len(pairs)), key=lambda index: (len(pairs[index].clean), _first_difference(pairs[index]))
    ):
        length = len(pairs[index].clean)
        full = length * (len(waiting) + 1) > max_tokens
        worth_running = length > width and width * len(waiting) >= max_tokens // 8
        if waiting and (full or worth_running):
            yield waiting, collate([pairs[i] for i in waiting], device)
            waiting = []
        width = length
        waiting.append(index)
    if waiting:
        yield waiting, collate([pairs[i] for i in waiting], device)


def _first_difference(pair: Pair) -> int:
    both = zip(pair.clean, pair.corrupt, strict=True)
    return next((i for i, (clean, corrupt) in enumerate(both) if clean != corrupt), len(pair.clean))


def _padded(rows: Sequence[Sequence[int]], filler: int, device: torch.device) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows], device=device)
