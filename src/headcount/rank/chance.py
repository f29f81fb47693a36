"""Random scores: the order that any method has to beat. A sweep's order `chance` draws many of them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..models import Model
from ..models.wiring import find_graph
from ..tasks.examples import Example
from .method import Request


def chance(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    generator = torch.Generator().manual_seed(request.seed)
    one = torch.rand(model.n_layers, model.n_heads, generator=generator, dtype=torch.float64)
    return one.expand(len(examples), -1, -1)


def edge_chance(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    real = torch.from_numpy(find_graph(model, request.readers).real)
    generator = torch.Generator().manual_seed(request.seed)
    return torch.rand(real.shape, generator=generator, dtype=torch.float64) * real
