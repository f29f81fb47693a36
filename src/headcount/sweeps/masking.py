"""The first k heads of a score masked, against k random others: what is left of a model's answers.

Random heads are drawn from those outside the first k, ten times or more; a second control also takes as many of each
layer as the first k have, since heads of some layers matter more whatever they do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError, did_you_mean, require_draws
from ..core.provenance import Facts
from ..core.saving import Saved
from ..core.words import CHANCE_ORDERS, ChanceOrder, WrittenPositions
from ..edit import Fill, Filling
from ..meters import Advance, silent
from ..meters.answers import NEW_TOKENS, AnswerMeter
from ..meters.text_metrics import measure_answers
from ..models import Model
from ..rank.scores import HeadScores
from ..tasks.questions import Question, function_title
from .curve import Curve
from .orders import Order, Places, Point, measured, others_than, ranked_places
from .units import Heads

SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8)
"""Of all heads: 16, 32, 64 and 128 of the 1,024 heads of the published model."""
MASK_ORDERS = ("absolute", *CHANCE_ORDERS)
"""Heads of the largest scores, of either sign; random others; random others of the same layers."""
FILL = "scale(0.001)"
"""As published: a masked head keeps a thousandth of its value."""


@dataclass(frozen=True)
class MaskedAnswers(Saved):
    """What a model says with k heads masked."""

    FILE: ClassVar[str] = "masked"

    order: str
    ks: tuple[int, ...]
    fill: str
    positions: str
    heads: list[list[list[int]]] = field(repr=False)
    """The masked heads, layer * heads a layer + head: [draw][k][head]."""
    texts: list[list[list[str]]] = field(repr=False)
    """[draw][k][question]."""

    @property
    def empty(self) -> int:
        """Answers without a word."""
        return sum(not text for draw in self.texts for texts in draw for text in texts)


class MaskOrder(Order[Tensor]):
    """Chosen heads removed, which need not grow with k: random ones avoid the first k of the score, whatever k is."""

    def __init__(self, shape: tuple[int, int], drawn: Sequence[Sequence[Places]], ks: Sequence[int]) -> None:
        self.shape, self.draws = shape, len(drawn)
        self.drawn = [dict(zip(ks, heads, strict=True)) for heads in drawn]

    def masks(self, points: Sequence[Point]) -> Tensor:
        keeps = torch.ones(len(points), *self.shape, dtype=torch.bool)
        for row, (draw, k) in zip(keeps.flatten(1), points, strict=True):
            row[torch.as_tensor(self.drawn[draw][k].copy())] = False
        return keeps


def masked_ks(total: int, ks: Sequence[int] = ()) -> tuple[int, ...]:
    """Numbers of heads to mask: those asked for, else shares of all heads. As many others must be left to draw from."""
    if not ks:
        return tuple(dict.fromkeys(max(round(share * total), 1) for share in SHARES))
    for k in ks:
        if k < 1:
            raise HeadcountError(f"The number of masked heads must be at least 1; {k} is not.")
        if 2 * k > total:
            raise HeadcountError(
                f"With the top {k} of {total} heads set aside, {total - k} are left, too few to draw {k} random ones"
                f" from. Mask at most {total // 2}."
            )
    return tuple(sorted(set(ks)))


def mask_answers(
    model: Model,
    questions: Sequence[Question],
    scores: HeadScores,
    order: str = "absolute",
    *,
    ks: Sequence[int] = (),
    draws: int = 10,
    fill: str = FILL,
    positions: WrittenPositions = "generated",
    seed: int = 0,
    max_new_tokens: int = NEW_TOKENS,
    advance: Advance = silent,
) -> MaskedAnswers:
    """Answers to questions with heads masked, for every k and draw.

    **Arguments:**

    - `order`: `absolute`, the largest scores, of either sign; `chance`; `chance-matched`, as many of each layer.
    - `ks`: numbers of heads; shares of all heads by default.
    - `positions`: `generated`, from the last prompt token on, or `all`.
    """
    heads = Heads(model, scores)
    if order not in MASK_ORDERS:
        raise HeadcountError(f"There is no order {order!r} of masked heads.{did_you_mean(order, MASK_ORDERS)}")
    require_draws(draws)
    points = masked_ks(model.head_count, ks)
    drawn = masked_heads(ranked_places(heads.places, scores, "absolute"), model.n_heads, order, points, draws, seed)
    meter = AnswerMeter(model, questions, generation_filling(fill), positions, max_new_tokens, advance)
    said = measured(MaskOrder(heads.shape, drawn, points), meter, points)["text"]
    chosen = [[heads.tolist() for heads in draw] for draw in drawn]
    return MaskedAnswers(order, points, fill, positions, chosen, said.tolist())


def masked_heads(
    ranked: Places, heads_a_layer: int, order: str, ks: Sequence[int], draws: int, seed: int
) -> list[list[Places]]:
    """Which heads to mask, [draw][k]; of the score's own order there is one draw."""
    if order == "absolute":
        return [[ranked[:k] for k in ks]]
    return others_than(ranked, heads_a_layer, cast(ChanceOrder, order), ks, draws, seed)


def generation_filling(fill: str) -> Filling:
    """What masked heads carry while a model writes."""
    parsed = Fill.parse(fill)
    if parsed.kind not in ("zero", "scale"):
        raise HeadcountError(
            f"Heads that are masked while a model writes are filled with zero or scale(eps); this is {fill}."
        )
    return Filling(scale=parsed.scale)


def masked_curve(
    model: Model,
    questions: Sequence[Question],
    scores: HeadScores,
    masked: MaskedAnswers,
    whole: Sequence[str],
    *,
    metric: str = "accepted",
    title: str = "",
    provenance: Facts | None = None,
) -> tuple[Curve, dict[str, str]]:
    """Every metric of every answer as a curve over k, and why some metrics are missing.

    **Arguments:**

    - `whole`: the answers of the whole model to the same questions.
    """
    named = replace(scores, model=model.name)
    return answers_curve(named, model.head_count, questions, masked, whole, metric, title, provenance)


def answers_curve(
    scores: HeadScores,
    total: int,
    questions: Sequence[Question],
    masked: MaskedAnswers,
    whole: Sequence[str],
    metric: str,
    title: str,
    provenance: Facts | None,
) -> tuple[Curve, dict[str, str]]:
    """`masked_curve` without the model, of which the scores know the name."""
    texts = np.array(masked.texts, dtype=object)
    draws, points, _ = texts.shape
    found, missing = measure_answers(
        texts.ravel().tolist(), [*whole] * (draws * points), [*questions] * (draws * points)
    )
    uncut, _ = measure_answers(whole, whole, questions)
    function = questions[0].function
    curve = Curve(
        kind="answers",
        model=scores.model,
        task=function,
        title=title or function_title(function),
        units="heads",
        method=scores.method,
        order=masked.order,
        mode="mask",
        fill=masked.fill,
        metric=metric,
        ks=masked.ks,
        total=total,
        ranking=scores.top(max(masked.ks)) if masked.order == "absolute" else (),
        values={name: value.reshape(texts.shape) for name, value in found.items()},
        whole={name: float(value.mean()) for name, value in uncut.items()},
        groups=tuple(question.template for question in questions),
        provenance={"positions": masked.positions, **(provenance or {})},
    )
    return curve, missing
