"""Adding a direction to what heads carry: the opposite of a cut, to see whether more of it helps.

z <- z + v, as inference-time intervention does (Li et al. 2023, arXiv 2306.03341).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ..core.words import WrittenPositions
from ..models import Model
from .heads import visit_heads


@contextmanager
def push_heads(model: Model, vectors: Tensor, positions: WrittenPositions = "generated") -> Iterator[None]:
    """Add to the values of heads while the block lasts.

    **Arguments:**

    - `vectors`: [push, layer, head, head size]. With several pushes, the rows of the batch are the same prompts once
      for each of them.
    - `positions`: everywhere, or from the last prompt token on.
    """
    touched = [layer for layer in range(model.n_layers) if bool(vectors[:, layer].any())]

    def visit(layer: int, z: Tensor) -> Tensor:
        added = vectors[:, layer].to(z)[:, None, None]
        if positions == "generated":
            at_last = torch.arange(z.shape[1], device=z.device) == z.shape[1] - 1
            added = added * at_last[:, None, None]
        return torch.add(z.unflatten(0, (len(vectors), -1)), added).flatten(0, 1)

    with visit_heads(model, visit, touched):
        yield
