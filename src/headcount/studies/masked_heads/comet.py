"""COMET of all masked answers of a study, in one call of its command; where it cannot be had, the reason why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from typing_extensions import TypedDict

from ...core.cache import Result
from ...core.progress import waiting
from ...core.saving import Saved
from ...meters.answers import Answers
from ...meters.comet import HOW_TO_GET_IT, comet_scores, find_comet
from ...sweeps import Curve
from ...sweeps.masking import MaskedAnswers
from ...tasks.questions import of_function
from ..plan import Found, Job, Step

if TYPE_CHECKING:
    from .steps import MaskedCell, MaskedWork

Triple = tuple[str, str, str]
"""Right answer as the source, masked answer as the translation, unmasked answer as the reference: as published."""


class FunctionTold(TypedDict):
    """Of one function and model: how many test questions there are, and which are its own, with their answers."""

    tests: int
    places: list[int]
    rights: list[str]


class CometTold(TypedDict):
    asked: list[FunctionTold]
    masks: int
    model: str
    command: str


@dataclass(frozen=True)
class CometScores(Saved):
    """Scores of different triples."""

    FILE: ClassVar[str] = "comet"

    triples: list[Triple]
    scores: list[float]


@dataclass(frozen=True)
class Comet:
    """Done once for all cells of a study."""

    steps: Sequence[Step[CometScores]]
    """One, or none."""
    reason: str = ""
    """Why there is none."""

    def finish(self, cells: "Sequence[Sequence[MaskedCell]]", found: Found) -> "list[list[MaskedCell]]":
        """The cells with COMET among the values of their curves, or with why it is missing."""
        scored, reason = found.maybe(next(iter(self.steps), None), self.reason)
        if scored is None:
            return [[replace(cell, missing={**cell.missing, "comet": reason}) for cell in row] for row in cells]
        by_triple = dict(zip(scored.triples, scored.scores, strict=True))
        return [[_with(cell, by_triple) for cell in row] for row in cells]


def together(works: "Sequence[MaskedWork]") -> Comet:
    """One step behind all answers. What the right answers are comes by value, as they are no result of a step."""
    panel = works[0].panel
    if panel.comet == "no":
        return Comet([], "COMET was not asked for.")
    command = find_comet(panel.comet or None)
    if command is None:
        return Comet([], HOW_TO_GET_IT)
    asked, needs = list[FunctionTold](), list[Step[Result]]()
    for work in works:
        test = work.questions.test
        places = of_function(test, work.questions.require(work.panel.task))
        asked.append({"tests": len(test), "places": places, "rights": [test[place].answer for place in places]})
        needs += [work.whole, *work.masked.values()]
    told = CometTold(asked=asked, masks=len(works[0].masked), model=panel.comet_model, command=str(command))
    function = f"{__name__}:comet_step"
    return Comet([Step("COMET", function, CometScores, told, needs=tuple(needs), optional=True)])


def comet_step(job: Job[None, CometTold], *answers: Answers | MaskedAnswers) -> CometScores:
    each, found = job.settings["masks"] + 1, list[Triple]()
    for number, asked in enumerate(job.settings["asked"]):
        whole, *masked = answers[number * each : (number + 1) * each]
        said = cast(Answers, whole).texts[0][-asked["tests"] :]
        own = [said[place] for place in asked["places"]]
        found += _triples(asked["rights"], own, cast(list[MaskedAnswers], masked))
    triples = list(dict.fromkeys(found))
    sources, texts, references = (list(side) for side in zip(*triples, strict=True))
    with waiting(f"COMET on {len(triples):,} answers"):
        command, model = Path(job.settings["command"]), job.settings["model"]
        return CometScores(triples, comet_scores(sources, texts, references, command=command, model=model))


def _triples(rights: Sequence[str], whole: Sequence[str], masked: Sequence[MaskedAnswers]) -> list[Triple]:
    """Of the unmasked answers against themselves, then of every masked answer."""
    found = list(zip(rights, whole, whole, strict=True))
    for texts in (texts for entry in masked for draw in entry.texts for texts in draw):
        found += zip(rights, texts, whole, strict=True)
    return found


def _with(cell: "MaskedCell", scores: dict[Triple, float]) -> "MaskedCell":
    triples = _triples([question.answer for question in cell.asked], cell.whole, list(cell.masked.values()))
    rows = np.array([scores[triple] for triple in triples]).reshape(-1, len(cell.asked))
    whole, rest = float(rows[0].mean()), rows[1:]
    curves: list[Curve] = []
    for curve in cell.curves:
        count = curve.draws * len(curve.ks)
        own, rest = rest[:count], rest[count:]
        values = {**curve.values, "comet": own.reshape(curve.draws, len(curve.ks), -1)}
        curves.append(replace(curve, values=values, whole={**curve.whole, "comet": whole}))
    return replace(cell, curves=curves)
