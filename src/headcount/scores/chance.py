"""Random scores: the order that any method has to beat. A sweep's order `chance` draws many of them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..models import Model
from ..tasks.pairs import Pair
from .method import Settings


def chance(model: Model, pairs: Sequence[Pair], settings: Settings) -> Tensor:
    generator = torch.Generator().manual_seed(settings.seed)
    one = torch.rand(model.n_layers, model.n_heads, generator=generator, dtype=torch.float64)
    return one.expand(len(pairs), -1, -1)
