"""What a study of roles leaves behind: roles.csv, the fits themselves, the figure, and what the curves say in words."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..cache import write_file
from ..comparison import seed_agreement, spearman
from ..curves import Curve
from ..figures import draw_roles, save_figure
from ..results import csv_text
from ..scores.roles import ROLES, HeadRoles
from .jobs import PanelResult
from .outputs import file_name, rounded, write_common
from .spec import Study


def write_roles(folder: Path, study: Study, panels: Sequence[Sequence[PanelResult]]) -> dict[str, Any]:
    """Write everything into the folder and return the summary."""
    results = list(chain.from_iterable(panels))
    roles: list[HeadRoles] = [result.scores for result in results]
    for entry in roles:
        entry.save(folder / "roles" / file_name(f"{entry.task}-{entry.model}"))
    write_file(folder / "roles.csv", csv_text([row for entry in roles for row in entry.rows()]))
    summary = {"title": study.title, "cells": [_cell(result.scores, result.curves) for result in results]}
    curves = [curve for result in results for curve in result.curves]
    write_common(folder, study, curves, [entry.provenance for entry in roles], summary)
    cells = [[(result.scores, result.curves) for result in panel] for panel in panels]
    save_figure(draw_roles(cells, title=study.title), folder)
    return summary


def _cell(roles: HeadRoles, curves: Sequence[Curve]) -> dict[str, Any]:
    """One task and model: how good the model is, how many heads have which role, how seeds agree, what curves do."""
    first = curves[0]
    whole = {name: rounded(value) for name, value in first.whole.items()}
    return {
        "task": first.task, "model": first.model, "heads": first.total, "seeds": roles.seeds, "base": first.base,
        "fill": first.fill, "metric": first.metric, "test_examples": first.pairs, "whole_model": whole,
        "shares": {role: {how: rounded(v) for how, v in by.items()} for role, by in roles.shares().items()},
        "seed_agreement": {
            role or "gating": rounded(seed_agreement(roles.scores(role), "signed", spearman)) for role in (None, *ROLES)
        },
        "updates": [int(n) for n in np.isfinite(roles.losses).any(2).sum(1)],
        "curves": {curve.order: _facts(curve) for curve in curves},
        "words": words_of(curves),
    }  # fmt: skip


def _facts(curve: Curve) -> dict[str, Any]:
    value = curve.band(curve.metric).value
    lowest, highest = int(value.argmin()), int(value.argmax())
    return {
        "last_k": curve.ks[-1], "last": rounded(value[-1]),
        "lowest": rounded(value[lowest]), "lowest_k": curve.ks[lowest],
        "highest": rounded(value[highest]), "highest_k": curve.ks[highest],
    }  # fmt: skip


def words_of(curves: Sequence[Curve]) -> dict[str, str]:
    """What each role's curve does beside what its name promises."""
    means = {curve.order: curve.band(curve.metric).value[1:] for curve in curves}
    ks = np.array(curves[0].ks[1:])
    helps, neither, hurts = (means[role] for role in ROLES)
    above = ks[helps >= 0]
    falls = "below zero at every k" if not len(above) else f"not below zero at k = {', '.join(map(str, above[:6]))}"
    sizes = np.abs(np.stack([helps, neither, hurts]))
    nearest = int((sizes.argmin(0) == 1).sum())
    rising = hurts > 0
    if rising[0]:
        until = int(ks[rising.argmin() - 1]) if not rising.all() else int(ks[-1])
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
