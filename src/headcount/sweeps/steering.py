"""The opposite of masking: push the heads of a function toward what they carry when the answer is right.

For each head the direction is d = mean(z | right) - mean(z | wrong) over answered train questions, scaled to length 1;
s is the standard deviation of z · d over all of them. While the model writes, z <- z + alpha · s · d on the heads
chosen (Li et al. 2023, arXiv 2306.03341; Cognitive Mirrors, arXiv 2512.10978, with alpha = 5). How hard to push is
chosen on the validation questions, and the gain is measured on the test questions, beside pushes of the same size in
random directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypedDict

from ..core.errors import HeadcountError
from ..core.saving import Floats, Saved
from ..core.words import WrittenPositions
from ..meters import Advance, silent
from ..meters.answers import NEW_TOKENS, ask
from ..meters.generation import Pushes
from ..meters.text_metrics import accepted
from ..models import Model
from ..models.changes import leaves_no_trace
from ..rank.scores import HeadScores
from ..tasks.questions import Question
from .resampling import ends_of, resamplings

ALPHAS = (0.5, 1.0, 2.0, 5.0)
FEWEST = 3
"""Right and wrong answers among the train questions, below which there is no direction to speak of."""


class Pushed(TypedDict, total=False):
    """How heads were pushed."""

    seed: int
    draws: int
    positions: WrittenPositions
    control_alpha: float


@dataclass(frozen=True, eq=False)
class Steering(Saved):
    """Accuracy with and without pushes."""

    FILE: ClassVar[str] = "steering"

    model: str
    function: str
    heads: int
    alphas: tuple[float, ...]
    """0 first: the whole model."""
    validation: Floats = field(repr=False)
    """[alpha, question], 1 where the answer is right."""
    test: Floats = field(repr=False)
    control: Floats = field(repr=False)
    """On test, pushed at random with the alpha chosen: [draw, question]."""
    templates: tuple[str, ...] = field(repr=False)
    """Of the test questions."""
    provenance: Pushed = field(default_factory=Pushed, repr=False)

    @property
    def chosen(self) -> int:
        """The place of the alpha that is best on validation; the smaller of equals, so 0 where no push helps."""
        return int(self.validation.mean(1).argmax())

    def gain(self, level: float = 0.9) -> tuple[float, float, float]:
        """Accuracy on test at the alpha chosen minus that of the whole model, with an interval over templates."""
        change = self.test[self.chosen] - self.test[0]
        low, high = np.quantile(resamplings(self.templates, level) @ change, ends_of(level))
        return float(change.mean()), float(low), float(high)


def directions(values: Tensor, right: NDArray[np.bool_]) -> Tensor:
    """s · d for every head, [layer, head, head size], of values [question, layer, head, head size]."""
    if min(right.sum(), (~right).sum()) < FEWEST:
        raise HeadcountError(
            f"A direction from wrong to right answers needs at least {FEWEST} of each, and the model has"
            f" {right.sum()} right and {(~right).sum()} wrong."
        )
    apart = values[right].mean(0) - values[~right].mean(0)
    unit: Tensor = apart / apart.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    spread = (values * unit).sum(-1).std(0)
    return unit * spread[..., None]


@leaves_no_trace
def steer(
    model: Model,
    validation: Sequence[Question],
    test: Sequence[Question],
    scores: HeadScores,
    toward: Tensor,
    *,
    heads: int,
    alphas: Sequence[float] = ALPHAS,
    draws: int = 5,
    positions: WrittenPositions = "generated",
    seed: int = 0,
    max_new_tokens: int = NEW_TOKENS,
    advance: Advance = silent,
) -> Steering:
    """Push the first `heads` heads of a score, and measure accuracy.

    **Arguments:**

    - `validation`, `test`: questions of one function, to choose alpha on and to measure on.
    - `toward`: the `directions`, from other questions.
    - `draws`: random directions of the same size, the control.
    """
    if not alphas:
        raise HeadcountError("A push needs at least one alpha above 0, and none came.")
    if wrong := [alpha for alpha in alphas if alpha <= 0]:
        raise HeadcountError(f"A push has an alpha above 0; got {wrong[0]}.")
    if not 1 <= heads <= model.head_count:
        raise HeadcountError(f"{model.name} has {model.head_count} heads to push; {heads} is not between 1 and that.")
    chosen = torch.zeros(model.n_layers, model.n_heads, 1)
    for layer, head in scores.order()[:heads]:
        chosen[layer, head] = 1
    strengths = torch.tensor([0.0, *alphas]).view(-1, 1, 1, 1)

    def right(side: Sequence[Question], vectors: Tensor) -> Floats:
        said = ask(model, side, Pushes(vectors, positions), max_new_tokens=max_new_tokens, advance=advance).texts
        return np.stack([accepted(texts, texts, side) for texts in said])

    on_validation, on_test = (right(side, strengths * toward * chosen) for side in (validation, test))
    alpha = (0.0, *alphas)[int(on_validation.mean(1).argmax())] or max(alphas)
    random = torch.randn((draws, *toward.shape), generator=torch.Generator().manual_seed(seed))
    random = random / random.norm(dim=-1, keepdim=True) * toward.norm(dim=-1, keepdim=True)
    control = right(test, alpha * random * chosen)
    results = (on_validation, on_test, control, tuple(question.template for question in test))
    facts = Pushed(seed=seed, draws=draws, positions=positions, control_alpha=alpha)
    return Steering(model.name, test[0].function, heads, (0.0, *alphas), *results, facts)
