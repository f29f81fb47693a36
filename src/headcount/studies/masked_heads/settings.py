"""The settings of a study of masked heads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field

from ...core.errors import HeadcountError, did_you_mean
from ...core.settings import Count, Few, Listed, Rate, check
from ...core.words import TokenChoice, WrittenPositions
from ...rank.probes.fit import ProbeFit
from ..panel import Panel

if TYPE_CHECKING:
    from ...models import Model
    from ...tasks.questions import QuestionSet

Alphas = Annotated[
    Listed[float],
    AfterValidator(check(lambda alphas: all(0 < alpha <= MOST_ALPHA for alpha in alphas), "must be above 0 each")),
]
MOST_ALPHA = 10**6
APART = "Run them as studies of their own."


class MaskedHeads(Panel):
    """A cognitive function, and for each model what is left of its answers with k heads masked."""

    FILES: ClassVar[tuple[str, ...]] = ("questions", "comet", "comet_model")

    task: str
    """Function of the questions, such as retrieval; may be repeated."""
    metric: Literal["accepted", "exact", "unaffected"] = "accepted"
    """Which accuracy the figure shows."""
    n: Annotated[int, Field(ge=2, le=10**9)] = 165
    """Questions of each function in all three splits together, at most."""
    split: Literal["templates"] = "templates"
    """Questions are always split by templates."""
    questions: str = "built-in"
    """Questions to ask: built-in, or a JSON file in the layout of CogQA."""
    method: Literal["probe", "probe-by-head", "copy"] = "probe"
    """What ranks the heads."""
    choose: TokenChoice = "surprisal"
    """Answer tokens at which heads are read: first, last, mean, or those of highest surprisal."""
    tokens: Few = 5
    """How many tokens of an answer are read."""
    seeds: Few = 5
    """Fits of the joint classifier."""
    shuffles: Few = 5
    """Control fits, with shuffled labels."""
    epochs: Few = 30
    """Training epochs of the joint classifier."""
    batch: Count = 64
    """Questions per update of the joint classifier."""
    rate: Rate = 1e-3
    """Learning rate of the joint classifier."""
    ks: Literal["elbow"] | Listed[int] = ()
    """Numbers of heads to mask, or elbow for as many as stand out; shares of all heads by default, 16, 32, 64 and 128
    of 1,024."""
    draws: Few = 10
    """Draws of random heads, and of random heads matched by layer."""
    fill: str = "scale(0.001)"
    """What masked heads carry: zero or scale(eps)."""
    positions: WrittenPositions = "generated"
    """Where heads are masked: from the last prompt token on, or in the prompt too."""
    new_tokens: Count = 16
    """Tokens of an answer, at most."""
    alphas: Alphas = (0.5, 1.0, 2.0, 5.0)
    """How hard to push the heads of a function; empty for not at all."""
    comet: str = ""
    """The command comet-score, where it is not found by itself; "no" to do without."""
    comet_model: str = "Unbabel/wmt22-comet-da"
    """COMET model: a hub id or a checkpoint."""

    @property
    def fit(self) -> ProbeFit:
        return ProbeFit(epochs=self.epochs, batch=self.batch, rate=self.rate)

    def check(self) -> None:
        from ...meters.comet import checkpoint, find_comet
        from ...meters.text_metrics import TEXT_METRICS
        from ...rank.probes.by_head import require_sklearn
        from ...sweeps.masking import generation_filling
        from ...tasks.questions import FUNCTIONS, Question, function_name

        if function_name(self.task) not in FUNCTIONS:
            raise HeadcountError(f"There is no function {self.task!r}.{did_you_mean(self.task, FUNCTIONS)}")
        generation_filling(self.fill)
        require_sklearn()
        TEXT_METRICS[self.metric]([""], [""], [Question("", "", "", "")])  # it says by itself whether it can be had
        self.examples()
        if self.comet != "no":
            find_comet(self.comet or None)
            checkpoint(self.comet_model)

    @classmethod
    def check_together(cls, panels: Sequence[Self], path: str) -> None:
        """Functions of one study share a probe, and its files are named by function and model."""
        if len({panel.task for panel in panels}) < len(panels):
            raise HeadcountError(f"{path}: two panels ask for the same function. {APART}")
        for key, value in panels[0]:
            if key not in ("task", "title") and any(getattr(panel, key) != value for panel in panels):
                told = f"{path}: the panels of a study of masked heads differ in {key}, which they have to share."
                raise HeadcountError(f"{told} {APART}")

    def examples(self, model: "Model | None" = None) -> "QuestionSet":
        """The questions, which are the same for every model."""
        from ...tasks.questions import questions

        found = questions(self.questions, seed=self.seed).limited(self.n)
        if len(found.functions) < 2:
            known = f"{found.name} has questions of {', '.join(found.functions) or 'none'} in all three splits"
            raise HeadcountError(f"A probe tells functions apart, and {known}. Add questions of another function.")
        found.require(self.task)
        return found
