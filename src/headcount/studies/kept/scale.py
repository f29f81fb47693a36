"""The vertical scale of explained effect: from a little below 0 to a little above 1, grown to where the lines of a row
of panels go, with room for numbers above them all."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...core.saving import Floats

BOTTOM, TOP = -0.3, 1.17
LOWEST, HIGHEST = -1.0, 3.0
"""How far a scale grows: beyond, what lies between 0 and 1 would be too flat to read."""
ROOM = 0.205
"""Share of a panel above its lines, where it is not grown."""
MOST_STRETCH = 1.35
"""How much higher a grown panel becomes, at most."""


@dataclass(frozen=True)
class Scale:
    bottom: float = BOTTOM
    lines: float = TOP
    """Up to which lines are drawn; numbers stand above."""

    @classmethod
    def around(cls, values: Iterable[Floats]) -> "Scale":
        """Wide enough for all of them, up to its limits."""
        seen = np.concatenate([np.array([0.0, 1.0]), *values])
        seen = seen[np.isfinite(seen)]
        lowest, highest = float(seen.min()), float(seen.max())
        bottom = BOTTOM if lowest >= BOTTOM else max(lowest - 0.05, LOWEST)
        return cls(bottom, TOP if highest <= TOP else min(highest + 0.05, HIGHEST))

    @property
    def top(self) -> float:
        return self.above(1)

    def above(self, share: float) -> float:
        """The explained effect that stands at a share of the room above the lines."""
        room = ROOM / self.stretch
        return self.lines + share * (self.lines - self.bottom) * room / (1 - room)

    @property
    def stretch(self) -> float:
        """How much higher than others a panel with this scale is, so that 0 to 1 does not shrink as far as it grew."""
        return min((self.lines - self.bottom) / (TOP - BOTTOM), MOST_STRETCH)

    @property
    def ticks(self) -> list[float]:
        return [half / 2 for half in range(math.ceil(self.bottom * 2), math.floor(self.lines * 2) + 1)]
