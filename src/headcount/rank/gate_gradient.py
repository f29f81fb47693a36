"""Gate gradient (Michel et al. 2019, arXiv 1905.10650): put a gate g = 1 on every head, z -> g·z, and ask for dm/dg.

    gate-gradient:         score(h) = mean over pairs of |dm/dg_h|      the paper's importance
    gate-gradient-signed:  score(h) = mean over pairs of  dm/dg_h       positive: opening the gate raises the metric

Since dm/dg = sum over positions of z · dm/dz, one backward pass gives all gates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..models import Model
from ..tasks.batches import Batch
from ..tasks.examples import Example
from .gradients import by_batch, head_gradients, sum_where
from .method import Request


def signed(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    def score(indices: list[int], batch: Batch) -> Tensor:
        values, gradients = head_gradients(model, batch.clean, batch, request.metric)
        products = [torch.einsum("bphd,bphd->bph", z, g) for z, g in zip(values, gradients, strict=True)]
        return sum_where(products, batch, request)

    return by_batch(model, examples, request, 2, score)


def absolute(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    return signed(model, examples, request).abs()
