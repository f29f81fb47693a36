"""Adding a direction to what heads carry: the opposite of a cut, to see whether more of it helps.

z <- z + v, as inference-time intervention does (Li et al. 2023, arXiv 2306.03341).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

from ..models import Model
from .heads import visit_heads


@contextmanager
def push_heads(
    model: Model, vectors: Tensor, positions: Literal["all", "generated"] = "generated"
) -> Iterator[None]:  # fmt: skip
    """Add to the values of heads while the block lasts.

    **Arguments:**

    - `vectors`: [push, layer, head, head size]. With several pushes, the rows of the batch are the same prompts once
      for each of them.
    - `positions`: everywhere, or from the last prompt token on.
    """
    touched = [layer for layer in range(model.n_layers) if bool(vectors[:, layer].any())]

    def visit(layer: int, z: Tensor) -> Tensor:
        added = vectors[:, layer].to(z)[:, None, None]
        by_push = z.unflatten(0, (len(vectors), -1))
        if positions == "generated":
            at_last = torch.arange(z.shape[1], device=z.device) == z.shape[1] - 1
            added = added * at_last[:, None, None]
        pushed: Tensor = by_push + added
        return pushed.flatten(0, 1)

    with visit_heads(model, visit, touched):
        yield
