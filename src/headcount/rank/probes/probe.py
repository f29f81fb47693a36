"""Probes for a set of questions: which heads tell which function is at work.

Fitted on the train questions, ranked on the validation questions; the test questions are left for measuring what
masking does. The same probes fitted to shuffled labels are the control: they should be no better than chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.errors import HeadcountError, did_you_mean, require_known
from ...core.provenance import Facts
from ...core.saving import Floats, Saved
from ...core.words import TokenChoice
from ...meters import Advance, silent
from ...models import Model
from ...models.changes import leaves_no_trace
from ...tasks.questions import QuestionSet
from ...tasks.questions.prompts import question_prompts
from ..comparison import jaccard, seed_agreement, spearman
from ..scores import HeadScores
from .by_head import areas, fit_by_head
from .control import ALARM, Control, guess_table, judge, shuffled_labels
from .fit import ProbeFit
from .joint import JointClassifier, features, fit_joint
from .values import answer_values

PROBES = ("probe", "probe-by-head")


@dataclass(frozen=True, eq=False)
class Probe(Saved):
    """How much each head tells about each function, and how well probes do at all."""

    FILE: ClassVar[str] = "probe"
    AXES: ClassVar[dict[str, tuple[str, ...]]] = {
        "functions": ("function",), "importance": ("seed", "function", "layer", "head"),
        "by_head": ("function", "layer", "head"), "head_accuracy": ("layer", "head"),
    }  # fmt: skip

    model: str
    questions: str  # the name of the set
    functions: tuple[str, ...]
    choose: str
    importance: Floats = field(repr=False)  # of the joint classifier, [seed, function, layer, head]
    by_head: Floats = field(repr=False)  # area under the ROC curve minus one half, [function, layer, head]
    joint_accuracy: Floats  # share of the validation questions whose function the joint classifier names, [seed]
    joint_control: Floats = field(repr=False)  # its guesses, fitted to shuffled labels, [shuffle, guess, function]
    head_accuracy: Floats = field(repr=False)  # of a probe a head, [layer, head]
    head_control: Floats = field(repr=False)  # guesses with shuffled labels, mean over heads, as above
    chance: float  # the share of the most frequent function among the validation questions
    skipped: dict[str, int] = field(default_factory=dict)  # why questions could not be used -> how many
    provenance: Facts = field(default_factory=dict, repr=False)

    def scores(self, function: str, method: str = "probe") -> HeadScores:
        """The scores of heads for one function."""
        if function not in self.functions:
            raise HeadcountError(f"The probe knows nothing about {function!r}.{did_you_mean(function, self.functions)}")
        require_known(method, PROBES, "probe")
        place = self.functions.index(function)
        by_sample = self.importance[:, place] if method == "probe" else self.by_head[place][None]
        metric = "importance" if method == "probe" else "roc_auc - 0.5"
        return HeadScores(self.model, function, method, metric, by_sample, "seeds", provenance=self.provenance)

    def seed_agreement(self, function: str) -> float | None:
        """Mean rank correlation of |importance| between seeds; none with a single seed."""
        return seed_agreement(self.scores(function), "absolute", spearman)

    def overlap(self, k: int, method: str = "probe") -> Floats:
        """Shared heads of the top k of every two functions, over heads in either, [function, function]."""
        return jaccard(np.stack([np.abs(self.scores(f, method).values).ravel() for f in self.functions]), k)

    def controls(self) -> dict[str, Control]:
        """How far from chance the probes are that were fitted to shuffled labels, and how often chance is as far."""
        return {"joint probe": judge(self.joint_control), "mean probe of a head": judge(self.head_control)}

    def control_words(self) -> list[str]:
        """A sentence for each control that is not at chance; none where all is well."""
        found = self.controls()
        return [
            f"With shuffled labels the {name} is {excess:+.1%} from chance on questions that it has not seen"
            f" ({len(self.joint_control)} shuffles; chance alone is as far in {by_chance:.2%} of cases), where it"
            " should be at chance: something beside the labels is learnt, and its scores should not be trusted."
            for name, (excess, by_chance) in found.items()
            if by_chance < ALARM / len(found)
        ]


@leaves_no_trace
def probe_heads(
    model: Model,
    questions: QuestionSet,
    answers: Sequence[Sequence[int]],
    *,
    choose: TokenChoice = "surprisal",
    k: int = 5,
    fit: ProbeFit | None = None,
    seeds: int = 5,
    shuffles: int = 5,
    seed: int = 0,
    advance: Advance = silent,
) -> Probe:
    """Probe every head for every function that a set of questions has.

    **Arguments:**

    - `answers`: token ids of the whole model's answers to `questions.questions`, in that order.
    - `choose`, `k`: the answer tokens at which heads are read: `first`, `last`, `mean`, or the k of highest
      `surprisal`.
    - `seeds`: fits of the joint classifier; `shuffles`: controls of each kind.
    """
    if seeds < 1 or shuffles < 1:
        raise HeadcountError(f"A probe needs at least one seed and one shuffle; these are {seeds} and {shuffles}.")
    fit = fit or ProbeFit()
    functions = _answered(questions, answers)
    asked, n_train = (*questions.train, *questions.validation), len(questions.train)
    used = [p for p, question in enumerate(asked) if answers[p] and question.function in functions]
    own, said = [asked[place] for place in used], [answers[place] for place in used]
    empty = sum(not answer for answer in answers[: len(asked)])
    left_out = {"empty answers": empty, "function not in every split": len(asked) - empty - len(used)}
    values = answer_values(model, question_prompts(model, own), said, choose=choose, k=k, advance=advance)
    labels = torch.tensor([functions.index(question.function) for question in own])
    fitted = torch.tensor([place < n_train for place in used])
    data = _Split(values[fitted], labels[fitted], values[~fitted], labels[~fitted], len(functions), fit)
    held_labels = data.held_labels.numpy()
    fits = [data.joint(seed * 1000 + number) for number in range(seeds)]
    mixed = [data.shuffled(seed * 1000 + number) for number in range(shuffles)]
    by_head = data.by_head()
    return Probe(
        model=model.name,
        questions=questions.name,
        functions=functions,
        choose=choose,
        importance=np.stack([data.importance(classifier) for classifier in fits]),
        by_head=areas(by_head, held_labels),
        joint_accuracy=np.array([float((data.guesses(classifier) == held_labels).mean()) for classifier in fits]),
        joint_control=np.stack([m.table(m.guesses(m.joint(seed * 1000 + n))) for n, m in enumerate(mixed)]),
        head_accuracy=(by_head.argmax(-1) == held_labels[:, None, None]).mean(0),
        head_control=np.stack([shuffled.table(shuffled.by_head().argmax(-1)) for shuffled in mixed]),
        chance=float(np.bincount(held_labels).max() / len(held_labels)),
        skipped={reason: count for reason, count in left_out.items() if count},
        provenance={"fit": fit.facts(), "seeds": seeds, "shuffles": shuffles, "seed": seed, "choose": choose, "k": k},
    )


def _answered(questions: QuestionSet, answers: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """The functions of which the model answers a question to fit on and one to judge on, with a word."""
    first = len(questions.train)
    sides = (questions.train, answers[:first]), (questions.validation, answers[first:])
    said = [{q.function for q, answer in zip(side, own, strict=False) if answer} for side, own in sides]
    found = tuple(function for function in questions.functions if all(function in side for side in said))
    if len(found) < 2:
        raise HeadcountError(
            "A probe tells functions apart and needs two or more of which the model answers train and validation"
            f" questions with a word; there is {', '.join(found) or 'none'}."
        )
    return found


@dataclass(frozen=True)
class _Split:
    """Values and labels to fit on, and others to judge on."""

    values: Tensor
    labels: Tensor
    held: Tensor
    held_labels: Tensor
    classes: int
    fit: ProbeFit

    def shuffled(self, seed: int) -> "_Split":
        return replace(self, labels=shuffled_labels(len(self.labels), self.classes, seed))

    def joint(self, seed: int) -> JointClassifier:
        return fit_joint(self.values, self.labels, self.classes, self.fit, seed)

    @torch.no_grad()
    def guesses(self, classifier: JointClassifier) -> NDArray[np.int64]:
        logits: Tensor = classifier(features(self.held, self.fit.layer_mean))
        return logits.argmax(1).numpy()

    def importance(self, classifier: JointClassifier) -> Floats:
        """Mean over the held-out questions of each function, [function, layer, head]."""
        found = classifier.importance(features(self.held, self.fit.layer_mean), self.held_labels)
        means = [found[self.held_labels == c].mean(0).double().numpy() for c in range(self.classes)]
        return np.stack(means).reshape(-1, *self.values.shape[1:3])

    def by_head(self) -> Floats:
        return fit_by_head(self.values, self.labels.numpy(), self.held)

    def table(self, guesses: NDArray[np.int64]) -> Floats:
        """How many held-out questions of each function get each guess."""
        return guess_table(guesses, self.held_labels.numpy(), self.classes)


def elbow(scores: HeadScores) -> int:
    """How many heads stand out: where the sorted |scores| are farthest below the line from the first to the last."""
    sizes = np.sort(np.abs(scores.values).ravel())[::-1]
    places = np.arange(len(sizes))
    line = sizes[0] + (sizes[-1] - sizes[0]) * places / max(len(sizes) - 1, 1)
    return int((line - sizes).argmax()) or 1
