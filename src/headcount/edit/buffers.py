"""Memory that runs with gradients have one after the other: fresh pages cost a CPU a tenth of a forward pass."""

import weakref

from torch import Tensor


class Buffers:
    def __init__(self) -> None:
        self._free: list[Tensor] = []

    def lend(self, count: int, like: Tensor, to: object) -> Tensor:
        """So many numbers, of any value, for as long as `to` is there: what autograd needs for its way back lives as
        long as it does."""
        numbers = self._free.pop() if self._free else like.new_empty(0)
        if numbers.numel() < count:
            numbers = like.new_empty(count)
        weakref.finalize(to, self._free.append, numbers)
        return numbers[:count]
