"""What every meter is: examples made ready once, and measured under any number of masks."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar

from ..core.saving import Floats

Values = dict[str, Floats]
"""Metric -> [mask, example]."""
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
T = TypeVar("T", bound=np.generic, default=np.float64)
Readings = dict[str, NDArray[T]]
"""The same of numbers, or of texts."""


class Meter(Protocol[M, T]):
    """Heads take masks [mask, layer, head], edges [mask, writer, reader]; see each meter."""

    @property
    def advance(self) -> Advance: ...

    def __len__(self) -> int:
        """Examples."""

    def measure(self, masks: M) -> Readings[T]:
        """What is left under each mask, [mask, example]."""


class SharedMeter(Meter[Tensor, T], Protocol[T]):
    """One whose work can be shared out."""

    def measure(self, masks: Tensor, part: Part = WHOLE) -> Readings[T]:
        """Of a part, what other parts measure is not a number. A part is whole passes, the same that the whole work
        has, so that its numbers are the same bits."""


def own_passes(passes: Sequence[int], part: Part) -> list[range]:
    """Which passes of each batch are in a part, where each batch has so many: those of one batch go together, as far
    as that can be, because a batch has to be made ready."""
    number, of = part
    first, last = (sum(passes) * end // of for end in (number, number + 1))
    found, before = [], 0
    for count in passes:
        found.append(range(max(first - before, 0), min(max(last - before, 0), count)))
        before += count
    return found


def silent(prompts: int) -> None:
    """No progress."""
