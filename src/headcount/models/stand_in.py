"""Another function in the place of a module's own `forward`, for as long as a block lasts.

A hook can change what a module returns, but the module has done its work by then. Where that work is not needed (what a
circuit leaves out, projections that are computed head by head), a stand-in saves it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def stand_in(module: nn.Module, forward: Callable[..., object]) -> Iterator[None]:
    """Call `forward` in the module's place; what was there before (another stand-in, say) comes back afterwards."""
    before = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before


def first_argument(x: Tensor, *args: object, **kwargs: object) -> Tensor:
    """The cheapest stand-in: hand on what came."""
    return x
