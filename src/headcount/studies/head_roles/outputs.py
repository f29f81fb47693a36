"""What a study of roles leaves behind: roles.csv, the fits themselves, the figure, and what the curves say in words."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from ...core.files import write_file
from ...core.provenance import Facts
from ...core.saving import csv_text
from ...core.words import ROLES, GateBase, Role
from ...rank.comparison import seed_agreement, spearman
from ...rank.roles import HeadRoles
from ...sweeps import Curve
from ...view.style import save_figure
from ..kind import Summary
from ..outputs import all_rounded, cannot_do, facts_of, file_names, rounded, summary_of
from ..study import Study
from .figure import draw_roles
from .steps import RolesCell


class RoleCurve(TypedDict):
    """The change at the last k, and its extremes."""

    last_k: int
    last: float | None
    lowest: float | None
    lowest_k: int
    highest: float | None
    highest_k: int


class RolesEntry(TypedDict):
    """One task and model."""

    task: str
    model: str
    heads: int
    seeds: int
    base: GateBase
    fill: str
    metric: str
    test_examples: int
    whole_model: dict[str, float | None]
    shares: dict[Role, dict[str, float | None]]
    seed_agreement: dict[str, float | None]
    updates: list[int]
    curves: dict[str, RoleCurve]  # by role, and by chance
    words: dict[str, str]


class RolesSummary(Summary):
    cells: list[RolesEntry]


def write(folder: Path, study: Study, cells: Sequence[Sequence[RolesCell]]) -> RolesSummary:
    """Write everything into the folder and return the summary."""
    flat = list(chain.from_iterable(cells))
    for cell, name in zip(flat, file_names([(cell.scores.task, cell.scores.model) for cell in flat]), strict=True):
        cell.scores.save(folder / "roles" / name)
    write_file(folder / "roles.csv", csv_text([row for cell in flat for row in cell.scores.rows()]))
    rows = [[(cell.scores, cell.curves) for cell in row] for row in cells]
    save_figure(draw_roles(rows, title=study.title, width=study.width), folder)
    told = cannot_do(curve for cell in flat for curve in cell.curves)
    return summary_of(RolesSummary, study, warnings=told, cells=[_entry(cell.scores, cell.curves) for cell in flat])


def _entry(roles: HeadRoles, curves: Sequence[Curve]) -> Facts:
    """How good the model is, how many heads have which role, how seeds agree, what curves do."""
    first = curves[0]
    scores = {role or "gating": roles.scores(role) for role in (None, *ROLES)}
    return {
        **facts_of(first, "task", "model"),
        "heads": first.total,
        "seeds": roles.seeds,
        **facts_of(first, "base", "fill", "metric"),
        "test_examples": first.pairs,
        "whole_model": all_rounded(first.whole),
        "shares": {role: all_rounded(by) for role, by in roles.shares().items()},
        "seed_agreement": all_rounded({name: seed_agreement(own, "signed", spearman) for name, own in scores.items()}),
        "updates": [int(n) for n in np.isfinite(roles.losses).any(2).sum(1)],
        "curves": {curve.order: _extremes(curve) for curve in curves},
        "words": words_of(curves),
    }


def _extremes(curve: Curve) -> Facts:
    """The change at the last k, the lowest and the highest."""
    value = curve.band(curve.metric).value
    places = {"lowest": int(value.argmin()), "highest": int(value.argmax())}
    found: Facts = {"last_k": curve.ks[-1], "last": rounded(value[-1])}
    for name, place in places.items():
        found |= {name: rounded(value[place]), f"{name}_k": curve.ks[place]}
    return found


def words_of(curves: Sequence[Curve]) -> dict[str, str]:
    """What each role's curve does beside what its name promises."""
    means = {curve.order: curve.band(curve.metric).value[1:] for curve in curves}
    ks = np.array(curves[0].ks[1:])
    helps, hurts = means["facilitation"], means["interference"]
    above = ks[helps >= 0]
    falls = "below zero at every k" if not len(above) else f"not below zero at k = {', '.join(map(str, above[:6]))}"
    nearest = int((np.abs([means[role] for role in ROLES]).argmin(0) == ROLES.index("irrelevance")).sum())
    rising = hurts > 0
    if rising[0]:
        until = ks[rising.argmin() - 1]  # the last one where all rise
        rises = f"above zero from k = {ks[0]} to {until}, at most {hurts.max():+.2f} at k = {ks[hurts.argmax()]}"
    elif rising.any():
        rises = f"at first {hurts[0]:+.2f}, above zero from k = {ks[rising.argmax()]}"
    else:
        rises = f"never above zero, at most {hurts.max():+.2f}"
    return {
        "facilitation": falls,
        "irrelevance": f"the nearest to zero of the three at {nearest} of {len(ks)} points",
        "interference": rises,
    }
