"""Curves as a page shows them: bands, units needed at every threshold, and the values of every prompt."""

from collections.abc import Sequence

import numpy as np

from ...core.saving import Row
from ...core.words import Control
from ...sweeps import Curve, Repeats, control
from ...sweeps.curve import EXPLAINED
from .data import THRESHOLDS, AttentionEdge, Band, ControlData, CurveData, NeededData, Number, SaidData, short, shorts

NAMED_EDGES = 500
"""Edges that a page knows by name; of heads all."""
SHOWN_EDGES = 3000
"""Attention edges of a curve, shared out among its prompts."""
SAID_POINTS = 16
"""At which a page knows what the model says, beside the units needed."""
ROW_DIGITS = 6


def curve_data(
    curve: Curve, rows: Sequence[Row], panel: int = 0, repeats: Repeats | None = None, asked: int | None = None
) -> CurveData:
    """`rows`: those of all repeats together, which take a moment to compute. `asked`: where the texts of its prompts
    stand. Line and order of the units are those of all repeats together; prompts those of the curve, as every repeat
    has its own."""
    explained = curve.kind == "explained"
    all_of_it = repeats or Repeats((curve,))
    pooled, several = all_of_it.pooled, len(all_of_it.curves) > 1
    named = len(curve.ranking) if curve.units == "heads" else NAMED_EDGES
    chance = curve.order.startswith("chance")
    return CurveData(
        panel=panel,
        model=curve.model,
        task=curve.task,
        method=curve.method,
        order=curve.order,
        mode=curve.mode,
        fill=curve.fill,
        units=curve.units,
        kind=curve.kind,
        metric=curve.metric,
        shown=EXPLAINED if explained else curve.metric,
        total=pooled.total,
        ks=list(pooled.ks),
        prompts=pooled.pairs,
        draws=curve.draws,
        repeats=len(all_of_it.curves),
        bands=bands_of(rows)[1],
        needed=_needed(all_of_it) if explained else None,
        warning=pooled.warning() if explained else None,
        mixes=[one.mix for one in all_of_it.curves if one.mix is not None],
        ranking=list(pooled.ranking[:named]),
        by_prompt=None if chance or curve.kind == "answers" else _by_prompt(curve),
        prompt_ks=list(curve.ks) if several else [],
        asked=asked,
        said=_said(curve, pooled.first_k(0.9) if explained else None) if curve.said else None,
        attention=_attention(curve) if curve.own else None,
        whole={name: short(value) for name, value in curve.whole.items()},
    )


def control_data(real: Curve, kind: Control, own: Curve, panel: int = 0) -> ControlData:
    """A control as a line beside the curve that it controls."""
    shares = [control(real, own, k) for k in own.ks]
    band = Band(*(shorts(getattr(share, side) for share in shares) for side in ("value", "low", "high")))
    return ControlData(panel, real.model, real.task, real.method, real.order, kind, list(own.ks), band)


def bands_of(rows: Sequence[Row]) -> tuple[list[int], dict[str, Band]]:
    """The ks of a curve's rows, and a band for each metric."""
    sides: dict[str, dict[str, list[Number]]] = {}
    ks = list(dict.fromkeys(int(row["k"] or 0) for row in rows))
    for row in rows:
        of_metric = sides.setdefault(str(row["metric"]), {"value": [], "low": [], "high": []})
        for side, values in of_metric.items():
            number = row[side]
            values.append(short(None if number in (None, "") else float(number or 0), ROW_DIGITS))
    return ks, {metric: Band(**side) for metric, side in sides.items()}


def _needed(repeats: Repeats) -> NeededData:
    found = repeats.needed_at(THRESHOLDS)
    return NeededData(*([getattr(one, side) for one in found] for side in ("value", "low", "high")))


def _by_prompt(curve: Curve) -> list[list[Number]]:
    return [shorts(row, 4) for row in curve.values[curve.metric].mean(0).tolist()]


def _said(curve: Curve, needed: int | None) -> SaidData:
    """At some of the k, among them the ends and what is nearest to the units needed."""
    last = len(curve.ks) - 1
    places = {round(step * last / (SAID_POINTS - 1)) for step in range(SAID_POINTS)}
    nearest = [] if needed is None else [int(np.abs(np.array(curve.ks) - needed).argmin())]
    chosen = sorted(places.union(nearest))
    ids = curve.said["said"][chosen].astype(int)
    named = {token: place for place, token in enumerate(dict.fromkeys(ids.ravel().tolist()))}
    return SaidData(
        ks=[curve.ks[place] for place in chosen],
        words=[curve.words[str(token)] for token in named],
        tokens=[[named[token] for token in row] for row in ids.tolist()],
        chances=[shorts(row, 3) for row in curve.said["said_chance"][chosen].tolist()],
    )


def _attention(curve: Curve) -> list[list[AttentionEdge]]:
    most = max(SHOWN_EDGES // len(curve.own), 10)

    def edge(layer: float, head: float, query: float, key: float, score: float) -> AttentionEdge:
        return AttentionEdge(int(layer), int(head), int(query), int(key), short(score, 3))

    by_number = sorted((int(number), edges) for number, edges in curve.own.items())
    return [[edge(*row) for row in edges[:most].tolist()] for _, edges in by_number]
