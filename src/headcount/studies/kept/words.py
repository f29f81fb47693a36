"""The answer of a study of what is kept, in words: how many units, which, how surely, and against chance."""

from collections.abc import Sequence

import numpy as np

from ...core.words import Mode, in_words
from ...sweeps import Curve, Repeats, UnitsNeeded
from ...sweeps.curve import Interval
from ...sweeps.needed import words_of_repeats

NAMED = 10
"""Units that a sentence names."""


def answer(
    title: str, repeats: Repeats, needed: UnitsNeeded, chance: Curve | None, together: Interval[float] | None = None
) -> str:
    """One line per curve: number, names and accuracy are those of all its repeats together. `together` is what the
    named units explain, where that was measured beside the repeats."""
    curve = repeats.pooled
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
    if names := named(curve.ranking, needed.value):
        said += f": {names}"
    if together is not None:
        said += f". {of_named(needed.value, together, curve.mode)}"
    if firm := firmness(repeats, needed.value):
        said += f". {firm}"
    if apart := words_of_repeats(needed.value, needed.span):
        said += f". {apart.removesuffix('.')}"
    if (by_chance := _explained(chance, needed.value)) is not None:
        verbs, done = (("explain", "explains"), by_chance) if keeps else (("take away", "takes away"), 1 - by_chance)
        one, about = needed.value == 1, "" if chance and needed.value in chance.ks else "about "
        whose = f"One random {units[:-1]}" if one else f"As many random {units}"
        said += f". {whose} {verbs[one]} {about}{_share(done)} of it"
    accuracy = float(curve.band("accuracy").value[-1 if keeps else 0])
    return f"{said}. The whole model is right on {_percent(accuracy)} of the prompts."


def named(ranking: Sequence[str], k: int) -> str:
    """The first of k units by their names, and how many more there are."""
    first = ranking[: min(k, NAMED)]
    return ", ".join(first) + (f" and {k - len(first):,} more" if first and k > len(first) else "")


def of_named(k: int, explained: Interval[float], mode: Mode) -> str:
    """What the units that are named do as a set."""
    these, s = ("Alone it", "s") if k == 1 else (f"Together these {k:,}", "")
    if mode == "mask":
        lost = _share(1 - explained.value), _share(1 - explained.high), _share(1 - explained.low)
        return "{} take{} away {} of it ({} to {})".format(these, s, *lost)
    return "{} explain{} {} of it ({} to {})".format(these, s, *map(_share, explained))


def firmness(repeats: Repeats, k: int) -> str:
    """What the repeats do with their own first k units, and how many of the first k by mean rank are among them; empty
    where there is one ranking, or where some name fewer units than that."""
    count = len(repeats.curves)
    if count < 2 or min(len(curve.ranking) for curve in repeats.curves) < k:
        return ""
    units, stable = in_words(repeats.curves[0].units), repeats.stability(k)
    assert stable is not None  # there are two rankings or more
    times = sorted(round(count * stable.shares.get(unit, 0)) for unit in repeats.ranking[:k])
    everywhere, every = times.count(count), "both repeats" if count == 2 else f"all {count} repeats"
    if k == 1:
        return f"It is the first in {every if everywhere else f'{times[0]} of {count} repeats'}"
    rest = times[: k - everywhere]
    if not rest:
        return f"They are the first {k:,} {units} of {every}"
    pooled, span = repeats.pooled, " to ".join(dict.fromkeys(map(str, (rest[0], rest[-1]))))
    explained = pooled.at(k).value
    does = f"explain {_share(explained)}" if pooled.mode == "keep" else f"take away {_share(1 - explained)}"
    own = f"Each repeat's own first {k:,} {units} {does} on average"
    if not everywhere:
        return f"{own}; the named are among them in {span} of {count} repeats"
    verb, others = "is" if everywhere == 1 else "are", "the other" if len(rest) == 1 else "the others"
    return f"{own}; {everywhere:,} of the named {verb} among them in {every}, {others} in {span}"


def _share(of_effect: float) -> str:
    return f"{round(of_effect, 2) + 0.0:.2f}"  # 0.00 and not -0.00


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _explained(chance: Curve | None, k: int) -> float | None:
    """Of the effect with k random units, between the two nearest k that were measured."""
    if chance is None:
        return None
    found = float(np.interp(k, chance.ks, chance.band().value))
    return found if np.isfinite(found) else None
