"""Exact activation patching: one run for each head or edge, with what it carries taken from elsewhere.

`patching`: the clean run, with one head removed (it carries the counterfactual, or another fill):

    score(h) = m(clean run) - m(clean run, h removed)

`patching-restore`: the counterfactual run, with one head carrying its clean value:

    score(h) = m(corrupt run, h clean) - m(corrupt run)

The first asks whether the head is needed, the second whether it is enough. Where heads cover for each other they
differ.

`edge-patching`: the clean run, with the edge (f, b) alone carrying what f writes in the counterfactual run, or another
fill:

    score(f, b) = m(clean run) - m(clean run, edge (f, b) changed)

As many forwards as there are edges: for tiny models, and to check what `eap` and `eap-ig` approximate.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..meters import CircuitMeter, HeadMeter
from ..models import Model
from ..tasks.examples import Example, Pair
from .method import Request

EDGES_AT_ONCE = 64


def remove_each(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    return -restore_each(model, examples, request)


def restore_each(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """The metric with each head changed, minus the metric of the same run unchanged, [pair, layer, head]."""
    shape = model.n_layers, model.n_heads
    all_but_one = ~torch.eye(model.head_count, dtype=torch.bool).view(-1, *shape)
    keeps = torch.cat([torch.ones_like(all_but_one[:1]), all_but_one])
    positions, most = request.positions, request.max_tokens
    meter = HeadMeter(model, examples, request.filler, positions=positions, max_tokens=most, advance=request.advance)
    values = meter.measure(keeps)[request.metric]
    return torch.from_numpy(values[1:] - values[0]).T.reshape(-1, *shape)


def edge_patching(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    meter = CircuitMeter(
        model,
        pairs,
        fill=str(request.filler.fill),
        reference=pairs,
        readers=request.readers,
        memory=request.memory,
        advance=request.advance,
    )
    real = torch.from_numpy(meter.graph.real)
    whole = meter.measure(real[None])[request.metric].mean()
    scores = torch.zeros(real.shape, dtype=torch.float64)
    for some in real.nonzero().split(EDGES_AT_ONCE):
        writers, readers = some.T
        keeps = real.repeat(len(some), 1, 1)
        keeps[torch.arange(len(some)), writers, readers] = False
        scores[writers, readers] = torch.from_numpy(whole - meter.measure(keeps)[request.metric].mean(1))
    return scores
