"""What every meter is: examples made ready once, and measured under any number of masks."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.saving import Floats

Values = dict[str, Floats]
"""Metric -> [mask, example]."""
Readings = dict[str, NDArray[Any]]
"""The same where what is read may also be text."""
Advance = Callable[[int], None]
"""Told how many prompts have been run, for a progress bar."""
TOKENS_A_PASS = 2048
"""Tokens in one forward pass. Fixed, not read off the machine, so that runs can be repeated bit for bit."""
KEPT_BYTES = 2**30
"""Head values of the fill are kept between calls up to this size; beyond it they are run again."""
Part = tuple[int, int]
"""Number, from 0, and of how many."""
WHOLE: Part = (0, 1)
M = TypeVar("M", contravariant=True)


class Meter(Protocol[M]):
    """Heads take masks [mask, layer, head], edges [mask, writer, reader]; see each meter."""

    @property
    def advance(self) -> Advance: ...

    def __len__(self) -> int:
        """Examples."""

    def measure(self, masks: M) -> Readings:
        """What is left under each mask, [mask, example]."""


class SharedMeter(Meter[Tensor], Protocol):
    """One whose masks can be shared out: those of a part give the same bits as among all others."""

    @property
    def metrics(self) -> Sequence[str]: ...

    def share(self, masks: Tensor, part: Part) -> Tensor:
        """Which of the masks are in a part: whole passes, so that none runs with other masks than it would."""


def shared_out(count: int, together: int, part: Part) -> Tensor:
    """Places from 0 to `count` that are in a part: whole groups of so many that run together."""
    number, of = part
    groups = -(-count // together)
    first, last = (min(groups * end // of * together, count) for end in (number, number + 1))
    return torch.arange(first, last)


def silent(prompts: int) -> None:
    """No progress."""
