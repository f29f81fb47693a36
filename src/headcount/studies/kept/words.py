"""The answer of a study of what is kept, in words: how many units, which, how surely, and against chance."""

import numpy as np

from ...core.words import in_words
from ...sweeps import Curve, UnitsNeeded
from ...sweeps.needed import words_of_repeats

NAMED = 10
"""Units that a sentence names."""


def answer(title: str, curve: Curve, needed: UnitsNeeded, chance: Curve | None) -> str:
    """One line per curve, with the units of its own order; `needed` may speak of several repeats."""
    share, units, keeps = _percent(needed.threshold), in_words(curve.units), curve.mode == "keep"
    if needed.value is None:
        return f"{title}: no number of {units} of {curve.model} is enough."
    low, high = (curve.total if end is None else end for end in (needed.low, needed.high))
    count = f"{needed.value:,} of {curve.total:,} {units}"
    sure = f"({_percent(needed.level)} interval {low:,} to {high:,})"
    if keeps:
        said = f"{title}: {curve.model} needs {count} for {share} of the effect {sure}"
    else:
        said = f"{title}: {curve.model} loses {share} of the effect with {count} masked {sure}"
    first = list(curve.ranking[: min(needed.value, NAMED)])
    if first:
        rest = f" and {needed.value - len(first):,} more" if needed.value > len(first) else ""
        said += f": {', '.join(first)}{rest}"
    if apart := words_of_repeats(needed.value, needed.span):
        said += f". {apart.removesuffix('.')}"
    if (by_chance := _explained(chance, needed.value)) is not None:
        verbs, done = (("explain", "explains"), by_chance) if keeps else (("take away", "takes away"), 1 - by_chance)
        one = needed.value == 1
        said += f". {f'One random {units[:-1]}' if one else f'As many random {units}'} {verbs[one]} {done:.2f} of it"
    accuracy = float(curve.band("accuracy").value[-1 if keeps else 0])
    return f"{said}. The whole model is right on {_percent(accuracy)} of the prompts."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _explained(chance: Curve | None, k: int) -> float | None:
    """Of the effect with k random units, between the two nearest k that were measured."""
    if chance is None:
        return None
    found = float(np.interp(k, chance.ks, chance.band().value))
    return found if np.isfinite(found) else None
