"""Examples as tensors, and how many of them run together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from .examples import Example, Pair, first_difference


@dataclass(frozen=True)
class Batch:
    """Examples padded on the right, and the spots at which something is predicted: one a pair, one for each target
    token of a completion."""

    clean: Tensor  # token ids, [row, position]
    other: Tensor | None  # those of the counterfactual prompts, [row, position]
    last: Tensor  # position of the last prompt token, [row]
    end: Tensor  # position of the last real token, [row]; behind the prompt where a target has several tokens
    rows: Tensor  # the row of each spot, [spot]
    spots: Tensor  # the position of each spot, [spot]
    answers: Tensor  # ids of the right next tokens, [spot, answer], filled up with -1
    wrongs: Tensor  # ids of the wrong next tokens, [spot, wrong], filled up with -1

    def __len__(self) -> int:
        return len(self.last)

    @property
    def length(self) -> int:
        return self.clean.shape[1]

    @property
    def corrupt(self) -> Tensor:
        """Token ids of the counterfactual prompts."""
        if self.other is None:
            raise HeadcountError("These examples have no counterfactual prompts. Use the fill 'zero' or 'mean'.")
        return self.other

    @property
    def has_wrongs(self) -> bool:
        """True where every example has wrong next tokens to compare with."""
        return bool((self.wrongs >= 0).any(1).all())

    def real(self) -> Tensor:
        """[row, position], False at padding."""
        return torch.arange(self.length, device=self.end.device) <= self.end[:, None]

    def by_row(self, values: Tensor) -> Tensor:
        """Sums of one value per spot over the spots of each row, [row]."""
        if len(self.rows) == len(self):
            return values
        return values.new_zeros(len(self)).index_add(0, self.rows, values)

    def first_spots(self) -> Tensor:
        """Where the first spot of each row stands among the spots, which are in the order of their rows, [row]."""
        return torch.searchsorted(self.rows, torch.arange(len(self), device=self.rows.device))

    def repeated(self, times: int) -> "Batch":
        """The whole batch again and again, so that many cuts of the same examples run in one forward."""
        if times == 1:
            return self
        offsets = torch.arange(times, device=self.rows.device).repeat_interleave(len(self.rows)) * len(self)
        tensors = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        again = {name: tensor.repeat(times, *[1] * (tensor.dim() - 1)) for name, tensor in tensors.items()}
        return replace(self, **{**again, "rows": again["rows"] + offsets})

    def among_listed(self) -> tuple[Tensor, "Batch"]:
        """All right and wrong tokens of the batch, and the batch with places among them in the place of token ids."""
        both = torch.cat([self.answers, self.wrongs], dim=1)
        tokens = both[both >= 0].unique()
        places = torch.searchsorted(tokens, both).where(both >= 0, both)
        answers, wrongs = places.split([self.answers.shape[1], self.wrongs.shape[1]], dim=1)
        return tokens, replace(self, answers=answers.contiguous(), wrongs=wrongs.contiguous())


def collate(examples: Sequence[Example], device: torch.device) -> Batch:
    """All pairs or all completions."""
    asked = [example.asked for example in examples]
    end = [len(example.ids) - 1 for example in examples]
    last = [final + 1 - len(each) for final, each in zip(end, asked, strict=True)]
    spots = [(row, last[row] + step) for row, each in enumerate(asked) for step in range(len(each))]
    others = [example.corrupt for example in examples if isinstance(example, Pair)]
    return Batch(
        clean=_padded([example.ids for example in examples], 0, device),
        other=_padded(others, 0, device) if len(others) == len(examples) else None,
        last=torch.tensor(last, device=device),
        end=torch.tensor(end, device=device),
        rows=torch.tensor([row for row, _ in spots], device=device),
        spots=torch.tensor([spot for _, spot in spots], device=device),
        answers=_padded([answers for each in asked for answers, _ in each], -1, device),
        wrongs=_padded([wrongs for each in asked for _, wrongs in each], -1, device),
    )


def batches(examples: Sequence[Example], device: torch.device, max_tokens: int) -> Iterator[tuple[list[int], Batch]]:
    """Examples of similar shape together, at most `max_tokens` a batch: (their indices, their tensors).

    Once a batch is worth running, it waits for no longer example, which would only add padding. How examples fall into
    batches depends on them alone, so that a run can be repeated bit for bit.
    """
    waiting: list[int] = []
    width = 0
    for index in sorted(range(len(examples)), key=lambda i: _shape(examples[i])):
        length = len(examples[index].ids)
        full = length * (len(waiting) + 1) > max_tokens
        worth_running = length > width and width * len(waiting) >= max_tokens // 8
        if waiting and (full or worth_running):
            yield waiting, collate([examples[i] for i in waiting], device)
            waiting = []
        width = length
        waiting.append(index)
    if waiting:
        yield waiting, collate([examples[i] for i in waiting], device)


def _shape(example: Example) -> tuple[int, int]:
    """Tokens, and where the two prompts of a pair begin to differ."""
    return len(example.ids), first_difference(example.clean, example.corrupt) if isinstance(example, Pair) else 0


def _padded(rows: Sequence[Sequence[int]], filler: int, device: torch.device) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows], dtype=torch.long, device=device)
