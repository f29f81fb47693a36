"""How the joint classifier of Cognitive Mirrors is fitted. (Free of torch, for the command line's sake.)"""

from typing import Annotated

from pydantic import Field

from ...core.settings import Settings

Count = Annotated[int, Field(ge=1)]


class ProbeFit(Settings):
    """The sizes are the published ones."""

    epochs: Count = 30
    """Passes over the train questions."""
    batch: Count = 64
    """Questions in an update."""
    rate: Annotated[float, Field(gt=0)] = 1e-3
    """Learning rate."""
    shuffle: bool = True
    projection: Count = 64
    hidden: Count = 512
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3
    layer_mean: bool = True
