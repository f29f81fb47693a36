"""How far scores of the same units agree: between methods, between the seeds of one, and with a known circuit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.errors import HeadcountError
from ..core.provenance import Facts
from ..core.saving import Floats, Row, Saved, Tabled
from ..core.words import PLAIN_ORDERS, PlainOrder
from .ensemble import ranks
from .gating import ContrastGates
from .roles import HeadRoles
from .scores import EdgeScores, HeadScores

TOP_SHARE = 0.1  # of the heads are compared unless told otherwise


@dataclass(frozen=True, eq=False)
class Comparison(Saved, Tabled):
    """Every score against every other."""

    FILE: ClassVar[str] = "comparison"

    names: tuple[str, ...]
    by: PlainOrder  # what is compared: the scores, or their sizes
    spearman: Floats = field(repr=False)  # rank correlation, [score, score]
    jaccard: dict[int, Floats] = field(repr=False)  # k -> heads in both top k / heads in either, [score, score]
    seed_spearman: tuple[float | None, ...]  # mean over pairs of seeds; none where a score has fewer than two
    seed_jaccard: tuple[float | None, ...]  # the same at the first k

    def beside(self) -> Facts:
        return {"rows": self.rows()}

    def rows(self) -> list[Row]:
        """A row a pair of scores."""
        measures = {"spearman": self.spearman, **{f"jaccard_{k}": matrix for k, matrix in self.jaccard.items()}}
        return [
            {"first": self.names[i], "second": self.names[j], **{name: float(m[i, j]) for name, m in measures.items()}}
            for i, j in combinations(range(len(self.names)), 2)
        ]


def compare_scores(
    scores: Sequence[HeadScores], *, ks: Sequence[int] = (), by: PlainOrder = "absolute", names: Sequence[str] = ()
) -> Comparison:
    """Compare scores of the same heads.

    **Arguments:**

    - `ks`: how many top heads to compare; a tenth of all heads by default.
    - `by`: `absolute` compares the sizes of scores, which heads matter; `signed` the scores, which heads help.
    - `names`: what the scores are called; their methods by default, with what sets them apart.
    """
    if len(scores) < 2:
        raise HeadcountError(f"A comparison needs at least two scores, and {len(scores)} came.")
    if len({entry.values.shape for entry in scores}) > 1:
        listed = ", ".join(f"{entry.model} {entry.values.shape[0]} x {entry.values.shape[1]}" for entry in scores)
        raise HeadcountError(f"Only scores of the same heads can be compared; these are of {listed}.")
    if by not in PLAIN_ORDERS:
        raise HeadcountError(f"Scores are compared by 'absolute' or 'signed'; got {by!r}.")
    heads = scores[0].size
    ks = list(ks) or [max(round(TOP_SHARE * heads), 1)]
    if wrong := [k for k in ks if not 1 <= k <= heads]:
        raise HeadcountError(f"k must lie between 1 and the {heads} heads; {wrong[0]} does not.")
    values = _compared([entry.values for entry in scores], by)
    overlaps = {k: jaccard(values, k) for k in ks}
    measures = spearman, partial(jaccard, k=ks[0])
    between_seeds = [tuple(seed_agreement(entry, by, measure) for entry in scores) for measure in measures]
    return Comparison(tuple(names) or _names(scores), by, spearman(values), overlaps, *between_seeds)


def seed_agreement(scores: HeadScores, by: PlainOrder, measure: Callable[[Floats], Floats]) -> float | None:
    """Mean of a measure over pairs of seeds; none where a score has fewer than two."""
    if scores.samples != "seeds" or len(scores.by_pair) < 2:
        return None
    matrix = measure(_compared(scores.by_pair, by))
    return float(matrix[np.triu_indices(len(matrix), 1)].mean())


def load_scores(folder: str | Path) -> HeadScores:
    """Head scores that were saved as such, or as roles or contrastive gates."""
    kept: tuple[type[HeadRoles | ContrastGates], ...] = HeadRoles, ContrastGates
    for kind in kept:
        if (Path(folder) / f"{kind.FILE}.json").exists():
            return kind.load(folder).scores()
    if (Path(folder) / f"{EdgeScores.FILE}.json").exists():
        raise HeadcountError(f"The folder {folder} holds scores of edges, and scores of heads are wanted.")
    return HeadScores.load(folder)


def spearman(values: Floats) -> Floats:
    """Correlation of ranks between rows, [row, row]; equal values share their mean rank, and a row of equal values
    correlates with nothing."""
    ranked = np.stack([ranks(row) for row in values])
    centred = ranked - ranked.mean(1, keepdims=True)
    norms = np.sqrt((centred**2).sum(1, keepdims=True))
    scale = np.where(norms > 0, norms, 1.0)
    return np.asarray((centred / scale) @ (centred / scale).T)


def auroc(values: Floats, true: NDArray[np.bool_]) -> float:
    """The chance that a true unit has a larger value than one that is not, where a tie counts half: the area under the
    ROC curve. Not a number where all units are true or none is."""
    n_true, standing = int(true.sum()), ranks(values.ravel())
    n_false = true.size - n_true
    if not (n_true and n_false):
        return float("nan")
    # A rank counts the units below. Those of true units, less the pairs among themselves: Mann and Whitney's U.
    won = float(standing[true.ravel()].sum()) - n_true * (n_true - 1) / 2
    return won / (n_true * n_false)


def jaccard(values: Floats, k: int) -> Floats:
    """Heads in both top k over heads in either, between rows."""
    member = np.zeros(values.shape)
    np.put_along_axis(member, np.argsort(-values, axis=1, kind="stable")[:, :k], 1.0, axis=1)
    both = member @ member.T
    return np.asarray(both / (2 * k - both))


def _compared(maps: Sequence[Floats] | Floats, by: PlainOrder) -> Floats:
    """Maps of heads as rows."""
    rows = np.reshape(maps, (len(maps), -1))
    return np.abs(rows) if by == "absolute" else rows


def _names(scores: Sequence[HeadScores]) -> tuple[str, ...]:
    """The method; and the task and the model where they are not all the same."""
    telling = [part for part in ("task", "model") if len({getattr(entry, part) for entry in scores}) > 1]
    return tuple(" · ".join(filter(None, [entry.method, *(getattr(entry, p) for p in telling)])) for entry in scores)
