"""The first k heads of a score masked, against k random others: what is left of a model's answers.

Random heads are drawn from those outside the first k, ten times or more; a second control also takes as many of each
layer as the first k have, since heads of some layers matter more whatever they do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..core.errors import HeadcountError, did_you_mean, require_draws
from ..core.provenance import Facts
from ..core.saving import Saved
from ..core.words import CHANCE_ORDERS, WrittenPositions
from ..edit import Fill, Filling
from ..meters import Advance, silent
from ..meters.answers import NEW_TOKENS, AnswerMeter
from ..meters.text_metrics import measure_answers
from ..models import Model
from ..models.changes import leaves_no_trace
from ..rank.scores import HeadScores
from ..tasks.questions import Question, function_title
from .curve import Curve
from .orders import Places, UnitOrder, measured, ranked_places
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


@leaves_no_trace
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
    masks = UnitOrder(heads.shape, heads.places, len(drawn), lambda draw, k: drawn[draw][points.index(k)], "mask")
    said = measured(masks, meter, points)["text"]
    chosen = [[heads.tolist() for heads in draw] for draw in drawn]
    return MaskedAnswers(order, points, fill, positions, chosen, said.tolist())


def masked_heads(
    ranked: Places, heads_a_layer: int, order: str, ks: Sequence[int], draws: int, seed: int
) -> list[list[Places]]:
    """Which heads to mask, [draw][k]: the first k of a score, in one draw, or random heads that are never among them.
    `chance-matched` takes as many of each layer as the first k have, or of the nearest layer that has some left."""
    if order == "absolute":
        return [[ranked[:k] for k in ks]]
    rngs = [np.random.default_rng([seed, draw]) for draw in range(draws)]
    if order == "chance":
        return [[rng.permutation(ranked[k:])[:k] for k in ks] for rng in rngs]
    return [[_matched(ranked[:k], ranked[k:], heads_a_layer, rng) for k in ks] for rng in rngs]


def _matched(top: Places, others: Places, heads_a_layer: int, rng: np.random.Generator) -> Places:
    layers = others // heads_a_layer
    left = {int(layer): list(rng.permutation(others[layers == layer])) for layer in np.unique(layers)}
    picked = []
    for layer in rng.permutation(top // heads_a_layer):
        nearest = min((other for other in left if left[other]), key=lambda other: (abs(other - layer), other))
        picked.append(left[nearest].pop())
    return np.array(picked, dtype=np.intp)


def generation_filling(fill: str) -> Filling:
    """What masked heads carry while a model writes."""
    parsed = Fill.parse(fill)
    if parsed.kind not in ("zero", "scale"):
        raise HeadcountError(
            f"Heads that are masked while a model writes are filled with zero or scale(eps); got {fill}."
        )
    return Filling(scale=parsed.scale)


def masked_curve(
    model: Model | None,
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

    - `model`: None where it is called as the scores say.
    - `whole`: the answers of the whole model to the same questions.
    """
    texts = np.array(masked.texts, dtype=object)
    times, function = texts.shape[0] * texts.shape[1], questions[0].function
    found, missing = measure_answers(texts.ravel().tolist(), [*whole] * times, [*questions] * times)
    uncut, _ = measure_answers(whole, whole, questions)
    curve = Curve(
        model=model.name if model else scores.model,
        task=function,
        title=title or function_title(function),
        units="heads",
        method=scores.method,
        order=masked.order,
        mode="mask",
        fill=masked.fill,
        metric=metric,
        ks=masked.ks,
        total=scores.size,
        ranking=scores.top(max(masked.ks)) if masked.order == "absolute" else (),
        values={name: value.reshape(texts.shape) for name, value in found.items()},
        kind="answers",
        whole={name: float(value.mean()) for name, value in uncut.items()},
        groups=tuple(question.template for question in questions),
        provenance={"positions": masked.positions, **(provenance or {})},
    )
    return curve, missing
