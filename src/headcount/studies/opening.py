"""`headcount.open`: a whole run back from its output folder: curves, scores, circuits, summary."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ..core.errors import HeadcountError
from ..core.reading import RUN_AGAIN, read_facts, reading_result
from ..core.words import SCORE_ORDERS, ScoreOrder
from ..rank.circuit import Circuit
from ..rank.roles import HeadRoles
from ..rank.scores import EdgeScores, HeadScores
from ..sweeps import Curve, Repeats
from .kind import Summary
from .outputs import CURVES, PROVENANCE, STUDY, SUMMARY, Provenance, read_summary
from .study import Study, read_study

AnyScores = HeadScores | EdgeScores | HeadRoles
SAVED: tuple[type[AnyScores], ...] = HeadScores, EdgeScores, HeadRoles


@dataclass(frozen=True)
class Run:
    """What a study left in its folder."""

    folder: Path
    study: Study
    summary: Summary
    """What summary.json says."""
    provenance: Provenance
    curves: tuple[Curve, ...]
    """As `headcount.run` gives them, with every value of every prompt."""
    again: tuple[Curve, ...]
    """Those of the other repeats."""
    scores: tuple[AnyScores, ...]

    def repeats(self, curve: Curve) -> Repeats:
        """A curve, and the same in the other repeats."""
        alike = ("model", "task", "method", "order", "mode", "fill")
        same = [other for other in self.again if all(getattr(other, a) == getattr(curve, a) for a in alike)]
        return Repeats((curve, *same))

    def circuits(self, threshold: float | None = None) -> dict[str, Circuit]:
        """Of a study of edges: the smallest faithful circuit of every ranking, by task, model and order; none where a
        curve never gets there. The threshold is the study's own by default."""
        level: float = threshold or getattr(self.study.panels[0], "threshold", None) or 0.9
        found = {}
        for curve in self.curves:
            k = curve.first_k(level) if curve.units == "edges" and curve.order in SCORE_ORDERS else None
            scores = self._scores_of(curve)
            if k is not None and scores is not None:
                named = f"{curve.task} · {curve.model} · {curve.order}"
                found[named] = scores.circuit(k, by=cast(ScoreOrder, curve.order), mix=curve.mix)
        return found

    def _scores_of(self, curve: Curve) -> EdgeScores | None:
        alike, of_edges = ("task", "model", "method"), (e for e in self.scores if isinstance(e, EdgeScores))
        return next((e for e in of_edges if all(getattr(e, a) == getattr(curve, a) for a in alike)), None)


def open(folder: str | Path) -> Run:
    """Open the output folder of a study: what was computed there, to be looked at, plotted or compared again.

    ```python
    run = hc.open("headcount-results/heads-kept")
    hc.plot(run.curves)
    hc.plot(run.scores)
    hc.overlap(run)
    ```
    """
    place = Path(folder)
    for name in (SUMMARY, PROVENANCE):
        if not (place / name).is_file():
            raise HeadcountError(f"{place} is not the output folder of a finished study: it has no {name}.")
    summary, provenance = read_summary(place), cast(Provenance, read_facts(place / PROVENANCE))
    if "curve_folders" not in provenance:
        raise HeadcountError(f"{place} was written by a version of headcount before 0.7. {RUN_AGAIN}")
    with reading_result(place):
        listed = provenance["curve_folders"]
        curves = {name: Curve.load(place / CURVES / name) for name in (*listed["first"], *listed["again"])}
        first, again = (tuple(curves[name] for name in names) for names in (listed["first"], listed["again"]))
        scores = _scores(place, provenance)
    return Run(place, read_study(place / STUDY), summary, provenance, first, again, scores)


def _scores(place: Path, provenance: Provenance) -> tuple[AnyScores, ...]:
    """Those that this run made; a folder may hold others, of an earlier one."""
    found: list[AnyScores] = []
    for kind in SAVED:
        for path in sorted(place.glob(f"*/*/{kind.FILE}.json")):
            entry = kind.load(path.parent)
            if entry.provenance in provenance["scores"]:
                found.append(entry)
    order = provenance["scores"]
    return tuple(sorted(found, key=lambda entry: order.index(entry.provenance)))
