"""The settings of a study of roles. Those of the fit are the paper's by default (`rank/fit.py`)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ...core.errors import HeadcountError
from ...core.settings import Few, Listed, check
from ...core.words import GateBase
from ...rank.fit import Fit
from ..panel import Panel


class HeadRolesPanel(Panel, Fit):
    """A task, and four curves for each model."""

    metric: Literal["log_prob", "log_prob_per_token"] = "log_prob"
    """What the figure shows the change of: of the whole target, or of a target token."""
    fill: str = "zero"
    """What a closed gate lets through: zero, mean, mean-global; with pairs also counterfactual."""
    base: GateBase = "plus"
    """The gates in which heads are ablated: G+ or all ones."""
    pull: Annotated[float, Field(allow_inf_nan=False), AfterValidator(check(lambda v: v > 0, "must be above 0"))] = 0.1
    """λ: how hard gates are pulled open, and in another stage shut."""
    test: Annotated[int, Field(ge=0)] = 0
    """Test examples that are measured, at most; 0 for all. Curves cost by their number, fits do not."""
    ks: Literal["halves"] | Listed[int] = ()
    """Numbers of heads to ablate; by default every number up to a fifth of the heads or 50, whichever is less; halves
    for that number, its half, and so on."""
    draws: Few = 1
    """Random orders for each seed."""

    @property
    def fit(self) -> Fit:
        return Fit(**{name: getattr(self, name) for name in Fit.model_fields})

    def measured(self, tests: int) -> int:
        return min(tests, self.test or tests)

    def check(self) -> None:
        from ...edit import Fill

        super().check()
        if Fill.parse(self.fill).kind == "resample":
            raise HeadcountError("Gates cannot be filled by 'resample'. Use zero, mean, mean-global or counterfactual.")
