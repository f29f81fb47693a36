"""How many times the units one model needs of another, always with its direction in words."""

from dataclasses import dataclass

from ..core.words import in_words
from .curve import Curve


@dataclass(frozen=True)
class Ratio:
    """How many times the units one model needs of another. The one that needs more stands first, so that a ratio is
    never below 1 and its direction never in doubt."""

    more: str
    fewer: str
    more_units: int
    fewer_units: int
    units: str

    @property
    def value(self) -> float:
        return self.more_units / self.fewer_units

    def __str__(self) -> str:
        units = in_words(self.units)
        if self.more_units == self.fewer_units:
            return f"{self.more} needs as many {units} as {self.fewer}"
        return f"{self.more} needs {self.value:.1f}x the {units} of {self.fewer}"


def compare(first: Curve, second: Curve, threshold: float = 0.9) -> Ratio | None:
    """The ratio between the units that two curves need; None where one of them needs none or never gets there."""
    sides = [(curve.units_needed(threshold).value, curve.model) for curve in (first, second)]
    counts = sorted(((count, model) for count, model in sides if count), key=lambda side: -side[0])
    if len(counts) < 2:
        return None
    (more_units, more), (fewer_units, fewer) = counts
    return Ratio(more, fewer, more_units, fewer_units, first.units)
