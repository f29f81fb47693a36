"""COMET of all masked answers of a study, in one call of its command; where it cannot be had, the reason why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..comet import HOW_TO_GET_IT, comet_scores, find_comet
from ..curves import Curve
from ..errors import HeadcountError
from ..progress import waiting
from ..provenance import versions
from ..results import load_result, save_result
from .jobs import Job, Ledger, PanelResult
from .masked import MaskedCell

Triple = tuple[str, str, str]
"""Right answer as the source, masked answer as the translation, unmasked answer as the reference: as published."""


@dataclass(frozen=True)
class Scored:
    """Scores of a list of triples, to be kept."""

    scores: list[float]

    def save(self, folder: str | Path) -> Path:
        return save_result(folder, "comet", {}, vars(self))

    @classmethod
    def load(cls, folder: str | Path) -> "Scored":
        return cls(load_result(folder, "comet")[1]["scores"])


def add_comet(panels: list[list[PanelResult]]) -> list[list[PanelResult]]:
    """The panels with COMET among the values of their curves, or with why it is missing."""
    cells: list[MaskedCell] = [result.scores for panel in panels for result in panel]
    triples = list(dict.fromkeys(triple for cell in cells for triple in _triples(cell)))
    try:
        scores = dict(zip(triples, _scored(cells[0], triples), strict=True))
    except HeadcountError as error:
        return [[_without(result, str(error)) for result in panel] for panel in panels]
    return [[_with(result, scores) for result in panel] for panel in panels]


def _scored(cell: MaskedCell, triples: Sequence[Triple]) -> list[float]:
    if cell.comet == "no":
        raise HeadcountError("COMET was not asked for.")
    command = find_comet(cell.comet or None)
    if command is None:
        raise HeadcountError(HOW_TO_GET_IT)
    sources, answers, references = (list(side) for side in zip(*triples, strict=True))
    job = Job(
        {"kind": "comet", "triples": list(triples), "model": cell.comet_model, "command": str(command),
         "versions": versions()}
    )  # fmt: skip

    def compute() -> Scored:
        with waiting(f"COMET on {len(triples):,} answers"):
            return Scored(comet_scores(sources, answers, references, command=command, model=cell.comet_model))

    return Ledger().result(job, Scored, compute, skipped=lambda: None).scores


def _triples(cell: MaskedCell) -> list[Triple]:
    """Of every masked answer, and of the unmasked ones against themselves."""
    found = [(q.answer, text, text) for q, text in zip(cell.asked, cell.whole, strict=True)]
    for masked in cell.masked.values():
        for texts in (texts for draw in masked.texts for texts in draw):
            found += [(q.answer, text, own) for q, text, own in zip(cell.asked, texts, cell.whole, strict=True)]
    return found


def _with(result: PanelResult, scores: dict[Triple, float]) -> PanelResult:
    cell: MaskedCell = result.scores
    rows = np.array([scores[triple] for triple in _triples(cell)]).reshape(-1, len(cell.asked))
    whole, rest = float(rows[0].mean()), rows[1:]
    curves: list[Curve] = []
    for curve in result.curves:
        count = curve.draws * len(curve.ks)
        own, rest = rest[:count], rest[count:]
        values = {**curve.values, "comet": own.reshape(curve.draws, len(curve.ks), -1)}
        curves.append(replace(curve, values=values, whole={**curve.whole, "comet": whole}))
    return replace(result, curves=curves)


def _without(result: PanelResult, reason: str) -> PanelResult:
    return replace(result, scores=replace(result.scores, missing={**result.scores.missing, "comet": reason}))
