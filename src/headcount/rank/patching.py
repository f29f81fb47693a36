"""Exact activation patching: one run for each head, with that head's value taken from elsewhere.

`patching`: the clean run, with one head removed (it carries the counterfactual, or another fill):

    score(h) = m(clean run) - m(clean run, h removed)

`patching-restore`: the counterfactual run, with one head carrying its clean value:

    score(h) = m(corrupt run, h clean) - m(corrupt run)

The first asks whether the head is needed, the second whether it is enough. Where heads cover for each other they
differ.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..meters import HeadMeter
from ..models import Model
from ..tasks.examples import Example
from .method import Request


def remove_each(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    return -_change(model, examples, request)


def restore_each(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    return _change(model, examples, request)


def _change(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """The metric with each head changed, minus the metric of the same run unchanged, [pair, layer, head]."""
    heads = model.head_count
    all_but_one = ~torch.eye(heads, dtype=torch.bool).view(heads, model.n_layers, model.n_heads)
    keeps = torch.cat([torch.ones_like(all_but_one[:1]), all_but_one])
    meter = HeadMeter(
        model, examples, request.filler,
        positions=request.positions, max_tokens=request.max_tokens, advance=request.advance,
    )  # fmt: skip
    values = meter.measure(keeps)[request.metric]
    return torch.from_numpy(values[1:] - values[0]).T.reshape(-1, model.n_layers, model.n_heads)
