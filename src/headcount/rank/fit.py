"""How gates are fitted and rankings learned. (Free of torch, for the command line's sake.)"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from ..core.errors import HeadcountError
from ..core.settings import Count, Few, Listed, Rate, Settings, check
from ..core.words import RankingLoss

Above0 = Annotated[float, Field(gt=0, le=10**6, allow_inf_nan=False)]
TWO_RATES = AfterValidator(check(lambda rates: len(rates) == 2, "must be two learning rates, the first and the last"))
TWO_TEMPERATURES = AfterValidator(check(lambda two: len(two) == 2, "must be two temperatures, the first and the last"))
NOT_0 = AfterValidator(check(lambda pull: pull != 0, "must be a number other than 0"))


class Fit(Settings):
    """The defaults are those of the paper (Nam et al. 2025, section 6.2)."""

    seeds: Few = 10
    """Fits, each with first gates and minibatches of its own."""
    updates: Count = 500
    """Updates of each stage, at most."""
    batch: Count = 64
    """Examples in an update, of each seed; all of them where there are fewer."""
    free_rate: Annotated[Listed[Rate], TWO_RATES] = (0.1, 0.01)
    """Learning rate without a pull, at the first update and, falling linearly, at the last."""
    pulled_rate: Annotated[Listed[Rate], TWO_RATES] = (0.5, 0.1)
    """Learning rate with a pull."""
    pull: Annotated[float, Field(ge=-(10**6), le=10**6, allow_inf_nan=False), NOT_0] = 0.1
    """λ: its size, as both signs are fitted; with its sign in contrastive gating."""
    clamp: Above0 = 4.0
    """Value of a gate past which the pull on it ends."""
    patience: Annotated[int, Field(ge=0, le=10**6)] = 50
    """Updates after which gates are looked at, to stop a seed whose roles no longer move; 0 for never."""
    loss: Annotated[float, Field(ge=-(10**6), le=10**6)] = 1.0
    """Weight of the task loss; 0 leaves the pull alone."""

    def forwards(self, examples: int, stages: int = 3) -> int:
        """Passes of single prompts that some stages cost at most, for progress bars; a backward pass counts as one."""
        return 2 * stages * self.updates * self.prompts_of_an_update(examples)

    def prompts_of_an_update(self, examples: int) -> int:
        """Of all seeds together."""
        return min(self.batch, examples) * self.seeds

    def learning_rate(self, pulled: bool, update: int) -> float:
        return _falling(self.pulled_rate if pulled else self.free_rate, update, self.updates)


def _falling(rates: Sequence[float], update: int, updates: int) -> float:
    """From the first rate to the last, linearly."""
    first, last = rates
    return first + (last - first) * update / max(updates - 1, 1)


QUICK = Fit(seeds=2, updates=25, batch=4, free_rate=(0.5, 0.2), pulled_rate=(0.7, 0.3), pull=0.5)
"""Enough to see which heads matter most, not to publish: few updates of small batches, so larger steps, and a stronger
pull against the noise of the gradient."""


class Trained(Settings):
    """What learned rankings and pruning share (`training.py`)."""

    seeds: Few = 1
    """Rankings, each with draws of its own, in one batch."""
    updates: Count = 240
    batch: Count = 16
    """Examples in an update; fewer where memory asks for it."""
    rate: Annotated[Listed[Rate], TWO_RATES] = (0.1, 0.02)
    """Learning rate, at the first update and, falling linearly, at the last."""
    loss: RankingLoss = "distance"
    """What the kept units are trained for: the whole model's metric (`distance`), at least that (`reach`), its whole
    prediction (`kl`), or as much of the metric as can be had (`metric`)."""

    def forwards(self, examples: int) -> int:
        """As that of `Fit`."""
        return 2 * self.updates * min(self.batch, examples) * self.seeds

    def learning_rate(self, update: int) -> float:
        return _falling(self.rate, update, self.updates)


class Learning(Trained):
    """How a ranking is learned (`learned.py`)."""

    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Of the units, the first by one-pass attribution, that are learned; the others follow in its order."""
    temperature: Annotated[Listed[Above0], TWO_TEMPERATURES] = (0.5, 0.1)
    """Of the soft choice of the top k, at the first update and, falling by the same factor each time, at the last."""

    def temperature_at(self, update: int) -> float:
        first, last = self.temperature
        return first * float((last / first) ** (update / max(self.updates - 1, 1)))


class Pruning(Trained):
    """How edges are pruned (`pruning.py`): the paper's rate and loss, with fewer updates of smaller batches."""

    updates: Count = 300
    rate: Annotated[Listed[Rate], TWO_RATES] = (0.8, 0.1)
    loss: RankingLoss = "kl"
    target: Annotated[float, Field(gt=0, le=1.2)] = 0.98
    """Share of the edges to close; more than 1 presses harder."""


AnyFit = Fit | Learning | Pruning
OWN_FITS: dict[str, AnyFit] = {"learned": Learning(), "edge-learned": Learning(), "edge-pruning": Pruning()}
"""Of methods that are not fitted as gates are."""


def fit_for(method: str, fit: AnyFit | None) -> AnyFit:
    """The fit asked for, which has to be of the method's kind, or the method's own."""
    own = OWN_FITS.get(method, Fit())
    if fit is not None and not isinstance(fit, type(own)):
        raise HeadcountError(f"{method} takes a headcount.{type(own).__name__} as its fit; got {fit!r}.")
    return fit or own


def checked_fit(fit: AnyFit | None) -> Fit:
    """The fit asked for, or the paper's."""
    if fit is not None and not isinstance(fit, Fit):
        raise HeadcountError(f"fit must be a headcount.Fit, such as headcount.QUICK; got {fit!r}.")
    return fit or Fit()
