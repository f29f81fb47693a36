"""The steps of a study of masked heads: heads ranked on train and validation questions, masked and pushed on test ones.

Answers of the whole model and the probe are shared by all functions of a study; each function then has masked answers
in three orders, and pushes. COMET is asked once, for all answers together (`comet.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from typing_extensions import TypedDict

from ...core.cache import Result
from ...core.errors import HeadcountError
from ...core.keys import digest
from ...core.provenance import Facts
from ...core.words import TokenChoice, WrittenPositions
from ...meters import Advance
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
from ..plan import Found, Job, Step, Subject, told_by
from .comet import together as together
from .settings import MaskedHeads

WRITING = 3
"""What a written token costs beside one that is read."""


class Writing(TypedDict):
    new_tokens: int


class Probing(TypedDict):
    """What `headcount.probe_heads` is told."""

    choose: TokenChoice
    k: int
    seeds: int
    shuffles: int
    seed: int


class ProbeTold(Writing):
    probe: Probing
    fit: Facts


class Changing(TypedDict):
    """What `headcount.mask_answers` and `headcount.steer` are told."""

    draws: int
    positions: WrittenPositions
    seed: int
    max_new_tokens: int


class Ranked(TypedDict):
    function: str
    method: str
    """Of the scores that rank heads."""
    change: Changing


class MaskTold(Ranked):
    order: str
    ks: str | list[int]
    fill: str


class PushTold(Ranked):
    choose: TokenChoice
    tokens: int
    alphas: list[float]


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

    @property
    def empty(self) -> dict[str, int]:
        """Answers without a word: of the whole model, and under each kind of mask."""
        return {"unmasked": self.whole.count(""), **{order: masked.empty for order, masked in self.masked.items()}}


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
        panel, model, questions, test = self.panel, self.model, self.questions, self.questions.test
        probe, function = replace(found[self.probe], model=model), questions.require(panel.task)
        copied = self.copying and replace(found[self.copying], model=model)
        scores = copied or probe.scores(function, panel.method)
        answers = found[self.whole].texts[0][-len(test) :]
        own = of_function(test, function)
        asked, whole = [test[place] for place in own], [answers[place] for place in own]
        right = TEXT_METRICS[panel.metric](answers, answers, test)
        baseline = {f: float(right[of_function(test, f)].mean()) for f in questions.functions}
        origin: Facts = {"questions": questions.name, "sha256": questions.fingerprint, "arguments": panel.facts()}
        masked = {order: found[step] for order, step in self.masked.items()}
        curves, missing = [], dict[str, str]()
        title = panel.title or function_title(function)
        for said in masked.values():
            curve, reasons = masked_curve(
                None, asked, scores, said, whole, metric=panel.metric, title=title, provenance=origin
            )
            curves.append(curve)
            missing |= reasons
        pushed, reason = found.maybe(self.pushes, "not asked for")
        steering, skipped = pushed and replace(pushed, model=model), {**questions.skipped, **probe.skipped}
        return MaskedCell(
            function, model, scores, curves, probe, asked, whole, masked, baseline, steering, reason, missing, skipped
        )


def plan(
    kind: StudyKind, panel: MaskedHeads, name: str, model: Model, questions: QuestionSet, memory: int | None
) -> MaskedWork:
    """How much runs at once is fixed, whatever `memory` says."""
    ks = panel.ks if isinstance(panel.ks, str) else list(panel.ks)
    points = len(masked_ks(model.head_count, () if isinstance(ks, str) else ks))
    prompts = question_prompts(model, questions.questions)
    require_room(model, prompts, panel.new_tokens)
    # What the model is really asked depends on its tokenizer and chat template too.
    more = {"at_once": PROMPT_TOKENS, "prompts": digest(prompts)}
    subject = Subject.of(name, model, {"kind": kind.name, "panel": panel.facts()}, questions, **more)
    function, new = questions.require(panel.task), panel.new_tokens
    read, write = fmean(map(len, prompts)), float(WRITING * new)
    label, length = f"{model.name} · {function}", Writing(new_tokens=new)
    probed, count = len(questions.train) + len(questions.validation), len(questions.questions)
    tests, validations = (len(of_function(side, function)) for side in (questions.test, questions.validation))

    whole = subject.step(f"{model.name} · answers of the whole model", answer_step, length, count, read + write)
    told = ProbeTold(new_tokens=new, probe=told_by(panel, Probing, k=panel.tokens), fit=panel.fit.facts())
    words, sklearn = f"{model.name} · probes", ("scikit-learn",)
    probe = subject.step(words, probe_step, told, probed, read + new, needs=(whole,), libraries=sklearn)
    copying = None
    if panel.method == "copy":
        copying = subject.step(f"{model.name} · copy scores", copy_step, length, 0, 0.0, needs=(whole,))
    needs = (probe,) if copying is None else (probe, copying)

    def masked(order: str) -> Step[MaskedAnswers]:
        draws = 1 if order == "absolute" else panel.draws
        change = told_by(panel, Changing, draws=draws, max_new_tokens=new)
        told = told_by(panel, MaskTold, function=function, change=change, order=order, ks=ks)
        return subject.step(f"{label} · {order}", mask_step, told, tests * points * draws, write, needs=needs)

    pushes = None
    if panel.alphas:
        written = (tests + validations) * (len(panel.alphas) + 1) + tests * panel.draws
        change, first = told_by(panel, Changing, max_new_tokens=new), (whole, *needs)
        pushed = told_by(panel, PushTold, function=function, change=change, alphas=list(panel.alphas))
        pushes = subject.step(f"{label} · pushes", push_step, pushed, written, write, needs=first, optional=True)
    masks = {order: masked(order) for order in MASK_ORDERS}
    return MaskedWork(panel, model.name, questions, whole, probe, copying, masks, pushes)


def require_room(model: Model, prompts: Sequence[Sequence[int]], new: int) -> None:
    """Say before anything runs that a model cannot read the questions."""
    longest, limit = max(map(len, prompts)), model.context
    if limit and longest + new > limit:
        raise HeadcountError(
            f"Masked heads ask questions of up to {longest} tokens and answers of {new} (--new-tokens), and"
            f" {model.name} takes {limit}. Use a model that takes more, or shorter questions of your own (--questions)."
        )


def answer_step(job: Job[QuestionSet, Writing]) -> Answers:
    asked, new = job.examples.questions, job.settings["new_tokens"]
    read = fmean(map(len, question_prompts(job.model, asked)))
    return ask(job.model, asked, max_new_tokens=new, advance=job.paid(read + WRITING * new))


def probe_step(job: Job[QuestionSet, ProbeTold], whole: Answers) -> Probe:
    told, fit = job.settings, ProbeFit.of(job.settings["fit"])
    read = fmean(map(len, question_prompts(job.model, job.examples.questions)))
    advance = job.paid(read + told["new_tokens"])
    return probe_heads(job.model, job.examples, whole.tokens[0], **told["probe"], fit=fit, advance=advance)


def copy_step(job: Job[QuestionSet, Writing], whole: Answers) -> HeadScores:
    return retrieval_scores(job.model, job.examples, whole)


def mask_step(job: Job[QuestionSet, MaskTold], probe: Probe, copied: HeadScores | None = None) -> MaskedAnswers:
    told, ks = job.settings, job.settings["ks"]
    scores = copied or probe.scores(told["function"], told["method"])
    if isinstance(ks, str):  # elbow: as many others must be left to draw from, wherever it is
        ks = [min(elbow(scores), job.model.head_count // 2)]
    asked, order, advance = _of(job.examples.test, told["function"]), told["order"], _paid(job)
    return mask_answers(job.model, asked, scores, order, ks=ks, fill=told["fill"], **told["change"], advance=advance)


def push_step(
    job: Job[QuestionSet, PushTold], whole: Answers, probe: Probe, copied: HeadScores | None = None
) -> Steering:
    """Pushes on as many heads as stand out; refused where there is no direction to push."""
    told, function, train = job.settings, job.settings["function"], job.examples.train
    scores = copied or probe.scores(function, told["method"])
    own = [place for place in of_function(train, function) if whole.tokens[0][place]]
    questions, said = [train[place] for place in own], [whole.texts[0][place] for place in own]
    answers = [whole.tokens[0][place] for place in own]
    prompts = question_prompts(job.model, questions)
    values = answer_values(job.model, prompts, answers, k=told["tokens"], choose=told["choose"])
    toward = directions(values, accepted(said, said, questions) > 0)
    sides = _of(job.examples.validation, function), _of(job.examples.test, function)
    how, advance = told["change"], _paid(job)
    return steer(job.model, *sides, scores, toward, heads=elbow(scores), alphas=told["alphas"], **how, advance=advance)


def _paid(job: Job[QuestionSet, Ranked]) -> Advance:
    return job.paid(WRITING * job.settings["change"]["max_new_tokens"])


def _of(side: Sequence[Question], function: str) -> list[Question]:
    return [side[place] for place in of_function(side, function)]
