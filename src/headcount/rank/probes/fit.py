"""How the joint classifier of Cognitive Mirrors is fitted. (Free of torch, for the command line's sake.)"""

from typing import Annotated

from pydantic import Field

from ...core.settings import Count, Few, Rate, Settings


class ProbeFit(Settings):
    """The sizes are the published ones."""

    epochs: Few = 30
    """Passes over the train questions."""
    batch: Count = 64
    """Questions in an update."""
    rate: Rate = 1e-3
    """Learning rate."""
    shuffle: bool = True
    projection: Few = 64
    hidden: Few = 512
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3
    layer_mean: bool = True
