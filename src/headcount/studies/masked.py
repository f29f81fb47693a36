"""The study of masked heads: heads ranked on train and validation questions, masked and pushed on test questions."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from ..answers import Answers, ask
from ..comet import checkpoint, find_comet
from ..curves import Curve
from ..errors import HeadcountError, did_you_mean
from ..generation import MAX_TOKENS, POSITIONS, Where
from ..masking import ORDERS, MaskedAnswers, MaskOrder, generation_filling, mask_answers, masked_curve, masked_ks
from ..models import Model
from ..probing.by_head import require_sklearn
from ..probing.copying import retrieval_scores
from ..probing.joint import ProbeFit
from ..probing.probe import METHODS, Probe, elbow, probe_heads
from ..probing.values import CHOICES, Choice, answer_values
from ..progress import Bar
from ..scores.result import HeadScores
from ..steering import Steering, directions, steer
from ..tasks.questions import FUNCTIONS, Question, QuestionSet, function_name, function_title, of_function, questions
from ..tasks.questions.prompts import question_prompts
from ..text_metrics import METRICS, accepted
from .jobs import Job, Ledger, PanelResult, array_digest, job_of
from .spec import MaskedPanel

RANKINGS = (*METHODS, "copy")
ACCURACIES = ("accepted", "exact", "unaffected")


def check_masked(panel: MaskedPanel) -> None:
    """What can be known to be wrong before a model is loaded."""
    if function_name(panel.task) not in FUNCTIONS:
        raise HeadcountError(f"There is no function {panel.task!r}.{did_you_mean(panel.task, FUNCTIONS)}")
    for key, known in (
        ("method", RANKINGS), ("choose", CHOICES), ("metric", ACCURACIES), ("positions", POSITIONS)
    ):  # fmt: skip
        if getattr(panel, key) not in known:
            raise HeadcountError(f"{key} of masked heads cannot be {getattr(panel, key)!r}. Known: {', '.join(known)}.")
    if isinstance(panel.ks, str) and panel.ks != "elbow":
        raise HeadcountError(f'ks of masked heads are a list of whole numbers, or "elbow"; this is {panel.ks!r}.')
    generation_filling(panel.fill)
    fit_of(panel)
    require_sklearn()
    # A metric says by itself whether it can be computed here.
    METRICS[panel.metric]([""], [""], [Question("", "", "", "")])
    panel_questions(panel)
    if panel.comet != "no":
        find_comet(panel.comet or None)
        checkpoint(panel.comet_model)


def panel_questions(panel: MaskedPanel, model: Model | None = None) -> QuestionSet:
    found = questions(panel.questions, seed=panel.seed).limited(panel.n)
    if len(found.functions) < 2:
        raise HeadcountError(
            f"A probe tells functions apart, and {found.name} has questions of {', '.join(found.functions) or 'none'}"
            " in all three splits. Add questions of another function."
        )
    found.require(panel.task)
    return found


def fit_of(panel: MaskedPanel) -> ProbeFit:
    return ProbeFit(epochs=panel.epochs, batch=panel.batch, rate=panel.rate)


@dataclass(frozen=True)
class MaskedCell:
    """What was found for one function and model."""

    function: str
    model: str
    scores: HeadScores
    """By which the heads were ranked."""
    probe: Probe
    asked: list[Question] = field(repr=False)
    """The test questions of the function."""
    whole: list[str] = field(repr=False)
    """What the whole model says to them."""
    masked: dict[str, MaskedAnswers] = field(repr=False)
    baseline: dict[str, float]
    """Accuracy of the whole model on the test questions, function by function."""
    steering: Steering | None
    no_steering: str
    """Why there is none."""
    missing: dict[str, str]
    """Metrics that could not be computed, and why."""
    skipped: dict[str, int]
    empty: dict[str, int]
    """Answers without a word: of the whole model, and under each kind of mask."""
    comet: str
    comet_model: str


@dataclass(frozen=True)
class MaskedWork:
    """The jobs of one function and model: answers of the whole model, a probe (both shared by all functions), masked
    answers for each kind of mask, and pushes."""

    panel: MaskedPanel
    model: Model
    questions: QuestionSet
    memory: int | None
    """Not asked here: how much runs at once is fixed."""

    @property
    def function(self) -> str:
        return self.questions.require(self.panel.task)

    def _of(self, side: Sequence[Question]) -> list[Question]:
        """The questions of the function."""
        return [side[place] for place in of_function(side, self.function)]

    def say_forecast(self, quiet: bool) -> None:
        """Nothing to say, but what only the model can tell is checked before work begins."""
        if not isinstance(self.panel.ks, str):
            masked_ks(self.model.head_count, self.panel.ks)

    def run(self, bar: Bar, ledger: Ledger) -> PanelResult:
        whole = self._whole(bar, ledger)
        probe = self._probe(whole, bar, ledger)
        scores = self._scores(probe, whole, bar, ledger)
        # As many others must be left to draw from, wherever the elbow is.
        stand_out = (min(elbow(scores), self.model.head_count // 2),)
        ks = stand_out if self.panel.ks == "elbow" else cast(tuple[int, ...], self.panel.ks)
        ks = masked_ks(self.model.head_count, ks)
        said: dict[str, MaskedAnswers] = {order: self._masked(order, scores, ks, bar, ledger) for order in ORDERS}
        steering, reason = self._steering(scores, whole, bar, ledger)
        first = len(self.questions.train) + len(self.questions.validation)
        test = self.questions.test
        own = of_function(test, self.function)
        asked, texts = [test[place] for place in own], [whole.texts[0][first + place] for place in own]
        right = METRICS[self.panel.metric](whole.texts[0][first:], whole.texts[0][first:], test)
        curves: list[Curve] = []
        missing: dict[str, str] = {}
        for masked in said.values():
            curve, reasons = self._curve(masked, scores, asked, texts)
            curves.append(curve)
            missing |= reasons
        cell = MaskedCell(
            self.function, self.model.name, scores, probe, asked, texts, said,
            baseline={f: float(right[of_function(test, f)].mean()) for f in self.questions.functions},
            steering=steering, no_steering=reason, missing=missing,
            skipped={**self.questions.skipped, **probe.skipped},
            empty={"unmasked": texts.count(""), **{order: masked.empty for order, masked in said.items()}},
            comet=self.panel.comet, comet_model=self.panel.comet_model,
        )  # fmt: skip
        return PanelResult(cell, curves)

    def _whole(self, bar: Bar, ledger: Ledger) -> Answers:
        bar.describe(f"{self.model.name} · answers of the whole model")
        asked = self.questions.questions
        return ledger.result(
            self._job("answers", new_tokens=self.panel.new_tokens), Answers,
            lambda: ask(self.model, asked, max_new_tokens=self.panel.new_tokens, advance=self._paid(bar, ANSWER)),
            skipped=lambda: bar.advance(len(asked) * ANSWER),
        )  # fmt: skip

    def _probe(self, whole: Answers, bar: Bar, ledger: Ledger) -> Probe:
        panel = self.panel
        settings: dict[str, Any] = {
            "choose": panel.choose, "k": panel.tokens, "seeds": panel.seeds, "shuffles": panel.shuffles,
            "seed": panel.seed,
        }  # fmt: skip
        bar.describe(f"{self.model.name} · probes")
        found = ledger.result(
            self._job("probe", new_tokens=panel.new_tokens, fit=vars(fit_of(panel)), **settings), Probe,
            lambda: probe_heads(
                self.model, self.questions, whole.tokens[0], fit=fit_of(panel), advance=self._paid(bar, READ),
                **settings,
            ),
            skipped=lambda: bar.advance(self._probed * READ),
        )  # fmt: skip
        return replace(found, model=self.model.name)

    def _scores(self, probe: Probe, whole: Answers, bar: Bar, ledger: Ledger) -> HeadScores:
        if self.panel.method != "copy":
            return probe.scores(self.function, self.panel.method)
        bar.describe(f"{self.model.name} · copy scores")
        found = ledger.result(
            self._job("copy", new_tokens=self.panel.new_tokens), HeadScores,
            lambda: retrieval_scores(self.model, self.questions, whole), skipped=lambda: None,
        )  # fmt: skip
        return replace(found, model=self.model.name)

    def _masked(
        self, order: MaskOrder, scores: HeadScores, ks: tuple[int, ...], bar: Bar, ledger: Ledger
    ) -> MaskedAnswers:
        panel = self.panel
        settings: dict[str, Any] = {
            "ks": list(ks), "draws": 1 if order == "top" else panel.draws, "fill": panel.fill,
            "positions": cast(Where, panel.positions),
            "seed": panel.seed, "max_new_tokens": panel.new_tokens,
        }  # fmt: skip
        asked = self._of(self.questions.test)
        bar.describe(f"{self.model.name} · {self.function} · {order}")
        return ledger.result(
            self._job("masked", function=self.function, order=order, scores=array_digest(scores.values), **settings),
            MaskedAnswers,
            lambda: mask_answers(self.model, asked, scores, order, advance=self._paid(bar, WRITE), **settings),
            skipped=lambda: bar.advance(self._masked_cost(order)),
        )

    def _curve(
        self, masked: MaskedAnswers, scores: HeadScores, asked: list[Question], whole: list[str]
    ) -> tuple[Curve, dict[str, str]]:
        title = self.panel.title or function_title(self.function)
        facts = {"questions": self.questions.name, "sha256": self.questions.fingerprint, "arguments": vars(self.panel)}
        return masked_curve(
            self.model, asked, scores, masked, whole, metric=self.panel.metric, title=title, provenance=facts,
        )  # fmt: skip

    def _steering(self, scores: HeadScores, whole: Answers, bar: Bar, ledger: Ledger) -> tuple[Steering | None, str]:
        """Pushes on as many heads as stand out; where there is no direction to push, why."""
        panel, function, train = self.panel, self.function, self.questions.train
        if not panel.alphas:
            return None, "not asked for"
        own = [place for place in of_function(train, function) if whole.tokens[0][place]]
        said = [whole.texts[0][place] for place in own]
        settings: dict[str, Any] = {
            "alphas": list(panel.alphas), "draws": panel.draws, "positions": panel.positions, "seed": panel.seed,
            "max_new_tokens": panel.new_tokens, "heads": elbow(scores),
        }  # fmt: skip

        def compute() -> Steering:
            prompts = question_prompts(self.model, [train[place] for place in own])
            values = answer_values(
                self.model, prompts, [whole.tokens[0][place] for place in own], k=panel.tokens,
                choose=cast(Choice, panel.choose),
            )  # fmt: skip
            toward = directions(values, accepted(said, said, [train[place] for place in own]) > 0)
            sides = (self._of(self.questions.validation), self._of(self.questions.test))
            return steer(self.model, *sides, scores, toward, advance=self._paid(bar, WRITE), **settings)

        bar.describe(f"{self.model.name} · {function} · pushes")
        job = self._job("steering", function=function, scores=array_digest(scores.values), choose=panel.choose,
                        tokens=panel.tokens, **settings)  # fmt: skip
        try:
            found = ledger.result(job, Steering, compute, skipped=lambda: bar.advance(self._steering_cost()))
            return replace(found, model=self.model.name), ""
        except HeadcountError as error:
            return None, str(error)

    def cost(self) -> float:
        """In forward tokens, about, for the progress bar; what all functions share is counted for each."""
        shared = len(self.questions.questions) * ANSWER + self._probed * READ
        return shared + sum(self._masked_cost(order) for order in ORDERS) + self._steering_cost()

    @property
    def _probed(self) -> int:
        return len(self.questions.train) + len(self.questions.validation)

    def _masked_cost(self, order: str) -> float:
        points = len(masked_ks(self.model.head_count, () if isinstance(self.panel.ks, str) else self.panel.ks))
        tests = len(of_function(self.questions.test, self.function))
        return tests * points * (1 if order == "top" else self.panel.draws) * WRITE

    def _steering_cost(self) -> float:
        sides = (self.questions.validation, self.questions.test)
        asked = sum(len(of_function(side, self.function)) for side in sides)
        control = len(of_function(self.questions.test, self.function)) * self.panel.draws
        return (asked * (len(self.panel.alphas) + 1) + control) * WRITE if self.panel.alphas else 0

    def _paid(self, bar: Bar, price: float) -> Any:
        return lambda count: bar.advance(count * price)

    @cached_property
    def _prompts(self) -> str:
        """What the model is really asked depends on its tokenizer and chat template too."""
        return hashlib.sha256(repr(question_prompts(self.model, self.questions.questions)).encode()).hexdigest()[:16]

    def _job(self, kind: str, **settings: Any) -> Job:
        return job_of(kind, self.model, self.questions, MAX_TOKENS, {**settings, "prompts": self._prompts})


ANSWER, READ, WRITE = 3.0, 2.0, 1.0
"""Cost of an answer with its prompt read, of an answer read again, and of an answer behind a prompt already read."""
