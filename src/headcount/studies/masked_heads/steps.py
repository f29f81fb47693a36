"""The steps of a study of masked heads: heads ranked on train and validation questions, masked and pushed on test ones.

Answers of the whole model and the probe are shared by all functions of a study; each function then has masked answers
in three orders, and pushes. COMET is asked once, for all answers together (`comet.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.cache import Result
from ...core.keys import digest
from ...meters.answers import Answers, ask
from ...meters.generation import PROMPT_TOKENS
from ...meters.text_metrics import TEXT_METRICS, accepted
from ...models import Model
from ...rank.probes.copying import retrieval_scores
from ...rank.probes.fit import ProbeFit
from ...rank.probes.probe import Probe, elbow, probe_heads
from ...rank.probes.values import answer_values
from ...rank.scores import HeadScores
from ...sweeps import Curve
from ...sweeps.masking import MASK_ORDERS, MaskedAnswers, mask_answers, masked_curve, masked_ks
from ...sweeps.steering import Steering, directions, steer
from ...tasks.questions import Question, QuestionSet, function_title, of_function
from ...tasks.questions.prompts import question_prompts
from ..kind import StudyKind
from ..plan import Found, Job, Step, Subject
from .comet import together
from .settings import MaskedHeads

__all__ = ["MaskedCell", "MaskedWork", "plan", "together"]

HERE = __name__
PROBE_LIBRARIES = ("scikit-learn",)
WRITING = 3
"""What a written token costs beside one that is read."""


@dataclass(frozen=True)
class MaskedCell:
    """What was found for one function and model."""

    function: str
    model: str
    scores: HeadScores
    """By which the heads were ranked."""
    curves: list[Curve]
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


@dataclass(frozen=True)
class MaskedWork:
    """The steps of one function and model."""

    panel: MaskedHeads
    model: str
    questions: QuestionSet = field(repr=False)
    whole: Step[Answers]
    probe: Step[Probe]
    copying: Step[HeadScores] | None
    masked: dict[str, Step[MaskedAnswers]]
    pushes: Step[Steering] | None
    note: str = ""

    @property
    def steps(self) -> Sequence[Step[Result]]:
        return [*self.masked.values(), *([] if self.pushes is None else [self.pushes])]

    def gather(self, found: Found) -> MaskedCell:
        panel, model = self.panel, self.model
        whole, probe = found[self.whole], replace(found[self.probe], model=model)
        function = self.questions.require(panel.task)
        copied = None if self.copying is None else replace(found[self.copying], model=model)
        scores = copied or probe.scores(function, panel.method)
        said = {order: found[step] for order, step in self.masked.items()}
        steering, reason = found.maybe(self.pushes, "not asked for")
        test = self.questions.test
        answers = whole.texts[0][-len(test) :]
        own = of_function(test, function)
        asked, texts = [test[place] for place in own], [answers[place] for place in own]
        right = TEXT_METRICS[panel.metric](answers, answers, test)
        title = panel.title or function_title(function)
        origin = {"questions": self.questions.name, "sha256": self.questions.fingerprint, "arguments": panel.facts()}
        curves, missing = [], dict[str, str]()
        for masked in said.values():
            curve, reasons = masked_curve(
                None, asked, scores, masked, texts, metric=panel.metric, title=title, provenance=origin
            )
            curves.append(curve)
            missing |= reasons
        return MaskedCell(
            function=function,
            model=model,
            scores=scores,
            curves=curves,
            probe=probe,
            asked=asked,
            whole=texts,
            masked=said,
            baseline={f: float(right[of_function(test, f)].mean()) for f in self.questions.functions},
            steering=steering and replace(steering, model=model),
            no_steering=reason,
            missing=missing,
            skipped={**self.questions.skipped, **probe.skipped},
            empty={"unmasked": texts.count(""), **{order: masked.empty for order, masked in said.items()}},
        )


def plan(
    kind: StudyKind, panel: MaskedHeads, name: str, model: Model, questions: QuestionSet, memory: int | None
) -> MaskedWork:
    """How much runs at once is fixed, whatever `memory` says."""
    if not isinstance(panel.ks, str):
        masked_ks(model.head_count, panel.ks)
    prompts = question_prompts(model, questions.questions)
    # What the model is really asked depends on its tokenizer and chat template too.
    more = {"at_once": PROMPT_TOKENS, "prompts": digest(prompts)}
    subject = Subject.of(name, model, {"kind": kind.name, "panel": panel.facts()}, questions, **more)
    function, new = questions.require(panel.task), panel.new_tokens
    read, write = sum(map(len, prompts)) / len(prompts), float(WRITING * new)
    probed, count = len(questions.train) + len(questions.validation), len(questions.questions)

    def step(
        what: str, returns: type[Any], cost: float, forwards: int, settings: dict[str, Any], **rest: Any
    ) -> Step[Any]:
        return Step(
            label=f"{model.name} · {what}",
            function=f"{HERE}:{rest.pop('does')}",
            returns=returns,
            settings={"new_tokens": new, **settings},
            subject=subject,
            cost=cost,
            forwards=forwards,
            **rest,
        )

    whole = step("answers of the whole model", Answers, count * (read + write), count, {}, does="answer_step")
    reading = {"choose": panel.choose, "tokens": panel.tokens, "seed": panel.seed}
    probe_settings = {**reading, "seeds": panel.seeds, "shuffles": panel.shuffles, "fit": panel.fit.facts()}
    probe = step(
        "probes",
        Probe,
        probed * (read + new),
        probed,
        probe_settings,
        needs=(whole,),
        libraries=PROBE_LIBRARIES,
        does="probe_step",
    )
    copying = None
    if panel.method == "copy":
        copying = step("copy scores", HeadScores, 0.0, 0, {}, needs=(whole,), does="copy_step")
    ranked = {"function": function, "method": panel.method, "seed": panel.seed, "draws": panel.draws}
    ranked |= {"positions": panel.positions}
    needs = (probe,) if copying is None else (probe, copying)
    tests = len(of_function(questions.test, function))
    points = len(masked_ks(model.head_count, () if isinstance(panel.ks, str) else panel.ks))

    def masked_step(order: str) -> Step[MaskedAnswers]:
        draws = 1 if order == "absolute" else panel.draws
        ks = panel.ks if isinstance(panel.ks, str) else list(panel.ks)
        settings = {**ranked, "order": order, "draws": draws, "ks": ks, "fill": panel.fill}
        written = tests * points * draws
        return step(
            f"{function} · {order}", MaskedAnswers, written * write, written, settings, needs=needs, does="mask_step"
        )

    pushes = None
    if panel.alphas:
        sides = tests + len(of_function(questions.validation, function))
        written = sides * (len(panel.alphas) + 1) + tests * panel.draws
        settings = {**ranked, **reading, "alphas": list(panel.alphas)}
        pushes = step(
            f"{function} · pushes",
            Steering,
            written * write,
            written,
            settings,
            needs=(whole, *needs),
            optional=True,
            does="push_step",
        )
    masked = {order: masked_step(order) for order in MASK_ORDERS}
    return MaskedWork(panel, model.name, questions, whole, probe, copying, masked, pushes)


def answer_step(job: Job) -> Answers:
    asked = job.examples.questions
    read = sum(map(len, question_prompts(job.model, asked))) / len(asked)
    new = job.settings["new_tokens"]
    return ask(job.model, asked, max_new_tokens=new, advance=job.paid(read + WRITING * new))


def probe_step(job: Job, whole: Answers) -> Probe:
    settings = dict(job.settings)
    fit, k, new = ProbeFit(**settings.pop("fit")), settings.pop("tokens"), settings.pop("new_tokens")
    read = sum(map(len, question_prompts(job.model, job.examples.questions))) / len(job.examples.questions)
    return probe_heads(job.model, job.examples, whole.tokens[0], fit=fit, k=k, advance=job.paid(read + new), **settings)


def copy_step(job: Job, whole: Answers) -> HeadScores:
    return retrieval_scores(job.model, job.examples, whole)


def mask_step(job: Job, probe: Probe, copied: HeadScores | None = None) -> MaskedAnswers:
    settings = dict(job.settings)
    function, method, new = settings.pop("function"), settings.pop("method"), settings.pop("new_tokens")
    scores = copied or probe.scores(function, method)
    # As many others must be left to draw from, wherever the elbow is.
    stand_out = [min(elbow(scores), job.model.head_count // 2)]
    ks = stand_out if settings.pop("ks") == "elbow" else job.settings["ks"]
    asked = _of(job.examples.test, function)
    advance = job.paid(WRITING * new)
    return mask_answers(job.model, asked, scores, ks=ks, max_new_tokens=new, advance=advance, **settings)


def push_step(job: Job, whole: Answers, probe: Probe, copied: HeadScores | None = None) -> Steering:
    """Pushes on as many heads as stand out; refused where there is no direction to push."""
    settings = dict(job.settings)
    function, method, new = settings.pop("function"), settings.pop("method"), settings.pop("new_tokens")
    choose, tokens = settings.pop("choose"), settings.pop("tokens")
    scores, train = copied or probe.scores(function, method), job.examples.train
    own = [place for place in of_function(train, function) if whole.tokens[0][place]]
    questions, said = [train[place] for place in own], [whole.texts[0][place] for place in own]
    answers = [whole.tokens[0][place] for place in own]
    values = answer_values(job.model, question_prompts(job.model, questions), answers, k=tokens, choose=choose)
    toward = directions(values, accepted(said, said, questions) > 0)
    sides = _of(job.examples.validation, function), _of(job.examples.test, function)
    advance = job.paid(WRITING * new)
    return steer(
        job.model, *sides, scores, toward, heads=elbow(scores), max_new_tokens=new, advance=advance, **settings
    )


def _of(side: Sequence[Question], function: str) -> list[Question]:
    return [side[place] for place in of_function(side, function)]
