"""How gates are fitted. (Free of torch, for the command line's sake.)"""

from typing import Annotated

from pydantic import AfterValidator, Field

from ..core.errors import HeadcountError
from ..core.settings import Listed, Settings, check

Count = Annotated[int, Field(ge=1)]
Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
TWO = AfterValidator(check(lambda rates: len(rates) == 2, "must be two learning rates, the first and the last"))
NOT_0 = AfterValidator(check(lambda pull: pull != 0, "must be a number other than 0"))


class Fit(Settings):
    """The defaults are those of the paper (Nam et al. 2025, section 6.2)."""

    seeds: Count = 10
    """Fits, each with first gates and minibatches of its own."""
    updates: Count = 500
    """Of each stage, at most."""
    batch: Count = 64
    """Examples in an update, of each seed; all of them where there are fewer."""
    free_rate: Annotated[Listed[Above0], TWO] = (0.1, 0.01)
    """Learning rate without a pull, at the first update and, falling linearly, at the last."""
    pulled_rate: Annotated[Listed[Above0], TWO] = (0.5, 0.1)
    """Learning rate with a pull."""
    pull: Annotated[float, Field(allow_inf_nan=False), NOT_0] = 0.1
    """λ: its size, as both signs are fitted; with its sign in contrastive gating."""
    clamp: Above0 = 4.0
    """Past which the pull on a gate ends."""
    patience: Annotated[int, Field(ge=0)] = 50
    """Updates after which gates are looked at, to stop a seed whose roles no longer move; 0 for never."""
    loss: float = 1.0
    """Weight of the task loss; 0 leaves the pull alone."""

    def forwards(self, examples: int, stages: int = 3) -> int:
        """Passes of single prompts that some stages cost at most, for progress bars; a backward pass counts as one."""
        return 2 * stages * self.updates * min(self.batch, examples) * self.seeds

    def learning_rate(self, pulled: bool, update: int) -> float:
        first, last = self.pulled_rate if pulled else self.free_rate
        return first + (last - first) * update / max(self.updates - 1, 1)


QUICK = Fit(seeds=2, updates=25, batch=4, free_rate=(0.5, 0.2), pulled_rate=(0.7, 0.3), pull=0.5)
"""Enough to see which heads matter most, not to publish: few updates of small batches, so larger steps, and a stronger
pull against the noise of the gradient."""

LEARNED = Fit(seeds=1, updates=240, batch=16, free_rate=(0.05, 0.05), patience=0)
"""For a learned ranking: one stage, whose scores move by a tenth of the soft mask's width an update at most."""
LEARNED_EDGES = LEARNED.changed(updates=300)


def checked_fit(fit: Fit | None) -> Fit:
    """The fit asked for, or the paper's."""
    if fit is not None and not isinstance(fit, Fit):
        raise HeadcountError(f"fit must be a headcount.Fit, such as headcount.QUICK; this is {fit!r}.")
    return fit or Fit()
