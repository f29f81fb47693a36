"""What every meter is: examples made ready once, and measured under any number of masks."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

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
M = TypeVar("M", contravariant=True)


class Meter(Protocol[M]):
    """Heads take masks [mask, layer, head], edges [mask, writer, reader]; see each meter."""

    @property
    def advance(self) -> Advance: ...

    def __len__(self) -> int:
        """Examples."""

    def measure(self, masks: M) -> Readings:
        """What is left under each mask, [mask, example]."""


def silent(prompts: int) -> None:
    """No progress."""
