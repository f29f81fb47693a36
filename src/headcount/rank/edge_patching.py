"""Exact edge patching: one run for each edge, in which that edge alone carries the counterfactual.

    score(f, b) = m(clean run) - m(clean run, edge (f, b) carrying what f writes in the counterfactual run)

As many forwards as there are edges: for tiny models, and to check what `eap` and `eap-ig` approximate.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..meters import CircuitMeter
from ..models import Model
from ..tasks.examples import Pair
from .method import Request

AT_ONCE = 64


def edge_patching(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    meter = CircuitMeter(model, pairs, readers=request.readers, memory=request.memory, advance=request.advance)
    real = torch.from_numpy(meter.wiring.graph.real)
    whole = meter.measure(real[None])[request.metric].mean()
    edges = real.nonzero()
    scores = torch.zeros(real.shape, dtype=torch.float64)
    for some in edges.split(AT_ONCE):
        keeps = real.repeat(len(some), 1, 1)
        keeps[torch.arange(len(some)), some[:, 0], some[:, 1]] = False
        without = meter.measure(keeps)[request.metric].mean(1)
        scores[some[:, 0], some[:, 1]] = torch.from_numpy(np.asarray(whole - without))
    return scores
