"""How many times the units one model needs of another, with an interval."""

from dataclasses import dataclass

import numpy as np

from ..core.provenance import part_of
from ..core.saving import Floats
from ..core.words import in_words
from .curve import Curve
from .resampling import ends_of


@dataclass(frozen=True)
class Ratio:
    """How many times the units one model needs of another. The one that needs more stands first, so that a ratio is
    never below 1 and its direction never in doubt; its interval may go below 1."""

    more: str
    fewer: str
    more_units: int
    fewer_units: int
    units: str
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.more_units / self.fewer_units

    def __str__(self) -> str:
        units, span = in_words(self.units), f"({self.low:.1f} to {self.high:.1f})"
        if self.more_units == self.fewer_units:
            return f"{self.more} needs as many {units} as {self.fewer} {span}"
        return f"{self.more} needs {self.value:.1f}x the {units} of {self.fewer} {span}"


def compare(
    first: Curve, second: Curve, threshold: float = 0.9, level: float = 0.9, jumps: bool = True
) -> Ratio | None:
    """The ratio between the units that two curves need to be faithful; None where one of them needs none, never gets
    there, or warns that its explained effect means little.

    The interval comes from resampling both curves. Where their test prompts are the same, the same ones are drawn for
    both, so that what a draw does to both at once cancels; else each has draws of its own. `jumps`: see `needed.py`.
    """
    sides = [(curve.first_k(threshold), curve) for curve in (first, second)]
    counts = sorted(((count, curve) for count, curve in sides if count), key=lambda side: -side[0])
    if len(counts) < 2 or any(curve.warning() for curve in (first, second)):
        return None
    (more_units, more), (fewer_units, fewer) = counts
    low, high = np.exp(np.quantile(log_ratios(more, fewer, threshold, level, jumps), ends_of(level)))
    low, high = min(low, more_units / fewer_units), max(high, more_units / fewer_units)
    return Ratio(more.model, fewer.model, more_units, fewer_units, first.units, float(low), float(high))


def log_ratios(more: Curve, fewer: Curve, threshold: float, level: float | None, jumps: bool = True) -> Floats:
    """The logarithm of the ratio in every resampling, [sample]."""
    apart = 0 if same_prompts(more, fewer) else 1
    tops = more.crossings(threshold, level, jumps=jumps)
    bottoms = fewer.crossings(threshold, level, stream=apart, jumps=jumps)
    # Where one resampling never gets there, all units are the least that it needs.
    return np.asarray(np.log(np.clip(tops, 1, more.total) / np.clip(bottoms, 1, fewer.total)))


def same_prompts(first: Curve, second: Curve) -> bool:
    """Whether both were measured on the same test prompts, as the hash of their tasks says."""
    hashes = [part_of(curve.provenance, "task").get("sha256") for curve in (first, second)]
    return hashes[0] is not None and hashes[0] == hashes[1] and first.pairs == second.pairs
