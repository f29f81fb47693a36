"""Means of several rankings: what one method misses, another may see.

    r(u) = sign(s(u)) · rank of |s(u)| / n        1/n for the smallest of n scores, 1 for the largest; ties share one
    mean(u) = mean over the methods of r(u)

Ranks make scores of any scale comparable. Where one of the methods has no sign, sizes alone are averaged. Means of edge
scores did best in the shared task of MIB (Mondorf et al. 2025), there of the scores as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.provenance import Facts
from ..core.saving import Floats
from ..edit import Filler
from ..models import Model
from ..models.wiring import find_graph
from ..tasks.examples import Example
from .method import MEAN, Method, Request
from .scores import EdgeScores, HeadScores


def ranks(row: Floats) -> Floats:
    """Of numbers, from 0 for the smallest; equal ones share their mean rank."""
    _, place, counts = np.unique(row, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[place])


def mean_of_ranks(rows: Sequence[Floats], signed: bool) -> Floats:
    """Of scores of the same units, one row per method."""
    sizes = [(ranks(np.abs(row)) + 1) / len(row) for row in rows]
    signs = [np.sign(row) if signed else np.ones_like(row) for row in rows]
    return np.asarray(np.mean([size * sign for size, sign in zip(sizes, signs, strict=True)], axis=0))


def mean_scores(scores: Sequence[HeadScores | EdgeScores]) -> HeadScores | EdgeScores:
    """The mean of the ranks of scores of the same heads or edges, such as saved ones: as the method `mean:…`, but each
    with the metric, fill and prompts that it was scored with."""
    if len(scores) < 2:
        raise HeadcountError(f"A mean needs at least two scores, and {len(scores)} came.")
    first = scores[0]
    for other in scores:
        if _units(other) != _units(first):
            raise HeadcountError(
                f"A mean is of scores of the same units; these are of {first.size} {first.units} of {first.model} and"
                f" of {other.size} {other.units} of {other.model}."
            )
    signed = all(entry.signed for entry in scores)
    real = first.graph.real if isinstance(first, EdgeScores) else np.ones(first.values.shape, dtype=bool)
    values = np.zeros(first.values.shape)
    values[real] = mean_of_ranks([entry.values[real] for entry in scores], signed)
    tasks, metrics = (" + ".join(dict.fromkeys(getattr(s, name) for s in scores)) for name in ("task", "metric"))
    about = first.model, tasks, MEAN + ",".join(entry.method for entry in scores), metrics
    origin: Facts = {"members": [entry.provenance for entry in scores]}
    if isinstance(first, EdgeScores):
        return EdgeScores(*about, first.graph, first.width, values, signed, origin)
    return HeadScores(*about, values[None], "examples", signed, origin)


def _units(scores: HeadScores | EdgeScores) -> object:
    """What has to be the same: the graph of edges, the number of layers and heads."""
    return scores.graph if isinstance(scores, EdgeScores) else scores.values.shape


def score_by_mean(methods: Sequence[Method], model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """What the method `mean:…` computes: [1, layer, head], or [writer, reader] for edges."""
    rows = []
    for method in methods:
        own = request
        if method.side != request.filler.side:
            ready = partial(Filler.prepare, model, request.filler.fill, examples=examples, reference=examples)
            filler = ready(side=method.side, seed=request.seed, max_tokens=request.max_tokens)
            own = replace(request, filler=filler)
        found = method.function()(model, examples, own).cpu().double()
        rows.append((found if method.units == "edges" else found.mean(0)).numpy())
    edges = methods[0].units == "edges"
    real = find_graph(model, request.readers).real if edges else np.ones(rows[0].shape, dtype=bool)
    values = np.zeros(rows[0].shape)
    values[real] = mean_of_ranks([row[real] for row in rows], all(method.signed for method in methods))
    return torch.from_numpy(values if edges else values[None])
