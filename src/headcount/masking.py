"""The top k heads of a score masked, against k random others: what is left of a model's answers.

Random heads are drawn from those outside the top k, ten times or more; a second control also takes as many of each
layer as the top k have, since heads of some layers matter more whatever they do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from .answers import NEW_TOKENS, ask
from .curves import Curve
from .cuts import Fill, Filling
from .errors import HeadcountError, did_you_mean
from .generation import Cuts, Where
from .measure import Advance, silent
from .models import Model
from .results import load_result, save_result
from .scores.result import HeadScores
from .tasks.questions import Question, function_title
from .text_metrics import measure_answers

SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8)
"""Of all heads: 16, 32, 64 and 128 of the 1,024 heads of the published model."""
MaskOrder = Literal["top", "random", "random-matched"]
ORDERS: tuple[MaskOrder, ...] = ("top", "random", "random-matched")
FILL = "scale(0.001)"
"""As published: a masked head keeps a thousandth of its value."""

Places = NDArray[np.intp]


@dataclass(frozen=True)
class MaskedAnswers:
    """What a model says with k heads masked."""

    order: str
    ks: tuple[int, ...]
    fill: str
    positions: str
    heads: list[list[list[int]]] = field(repr=False)
    """The masked heads, layer * heads a layer + head: [draw][k][head]."""
    texts: list[list[list[str]]] = field(repr=False)
    """[draw][k][question]."""

    def save(self, folder: str | Path) -> Path:
        return save_result(folder, "masked", {}, vars(self))

    @classmethod
    def load(cls, folder: str | Path) -> "MaskedAnswers":
        _, facts = load_result(folder, "masked")
        found: dict[str, Any] = {**facts, "ks": tuple(facts["ks"])}
        return cls(**found)

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


def mask_answers(
    model: Model, questions: Sequence[Question], scores: HeadScores, order: MaskOrder, *, ks: Sequence[int] = (),
    draws: int = 10, fill: str = FILL, positions: Where = "generated", seed: int = 0,
    max_new_tokens: int = NEW_TOKENS, advance: Advance = silent,
) -> MaskedAnswers:  # fmt: skip
    """Answers to questions with heads masked, for every k and draw.

    **Arguments:**

    - `order`: `top`, heads of the largest scores, of either sign; `random`; `random-matched`, as many of each layer.
    - `ks`: numbers of heads; shares of all heads by default.
    - `positions`: `generated`, from the last prompt token on, or `all`.
    """
    if scores.values.shape != (model.n_layers, model.n_heads):
        raise HeadcountError(
            f"The scores are of {scores.values.size} heads, but {model.name} has {model.head_count}."
            " Score this model first."
        )
    if order not in ORDERS:
        raise HeadcountError(f"There is no order {order!r} of masked heads.{did_you_mean(order, ORDERS)}")
    if draws < 1:
        raise HeadcountError(f"Random heads are drawn at least once; draws is {draws}.")
    points = masked_ks(model.head_count, ks)
    ranked = np.argsort(-np.abs(scores.values).ravel(), kind="stable")
    drawn = masked_heads(ranked, model.n_heads, order, points, draws, seed)
    keeps = torch.ones(len(drawn) * len(points), model.head_count, dtype=torch.bool)
    for row, heads in zip(keeps, [heads for draw in drawn for heads in draw], strict=True):
        row[torch.as_tensor(heads.copy())] = False
    change = Cuts(keeps.unflatten(1, (model.n_layers, model.n_heads)), generation_filling(fill), positions)
    said = ask(model, questions, change, max_new_tokens=max_new_tokens, advance=advance).texts
    texts = [said[first : first + len(points)] for first in range(0, len(said), len(points))]
    return MaskedAnswers(order, points, fill, positions, [[heads.tolist() for heads in draw] for draw in drawn], texts)


def masked_heads(
    ranked: Places, heads_a_layer: int, order: MaskOrder, ks: Sequence[int], draws: int, seed: int
) -> list[list[Places]]:
    """Which heads to mask, [draw][k]; of the top k there is one draw. Random ones are never among the top k."""
    if order == "top":
        return [[ranked[:k] for k in ks]]
    drawn = []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        pick = _matched if order == "random-matched" else _anywhere
        drawn.append([pick(ranked[:k], ranked[k:], heads_a_layer, rng) for k in ks])
    return drawn


def _anywhere(top: Places, others: Places, heads_a_layer: int, rng: np.random.Generator) -> Places:
    return rng.permutation(others)[: len(top)]


def _matched(top: Places, others: Places, heads_a_layer: int, rng: np.random.Generator) -> Places:
    """As many others of each layer as are in the top; where a layer has too few left, of the nearest one that has."""
    left = {int(layer): list(rng.permutation(others[others // heads_a_layer == layer])) for layer in
            np.unique(others // heads_a_layer)}  # fmt: skip
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
            f"Heads that are masked while a model writes are filled with zero or scale(eps); this is {fill}."
        )
    return Filling(scale=parsed.scale)


def masked_curve(
    model: Model, questions: Sequence[Question], scores: HeadScores, masked: MaskedAnswers, whole: Sequence[str], *,
    metric: str = "accepted", title: str = "", provenance: dict[str, Any] | None = None,
) -> tuple[Curve, dict[str, str]]:  # fmt: skip
    """Every metric of every answer as a curve over k, and why some metrics are missing.

    **Arguments:**

    - `whole`: the answers of the whole model to the same questions.
    """
    draws, points = len(masked.texts), len(masked.ks)
    flat = [text for draw in masked.texts for texts in draw for text in texts]
    found, missing = measure_answers(flat, list(whole) * (draws * points), list(questions) * (draws * points))
    uncut, _ = measure_answers(whole, whole, questions)
    function = questions[0].function
    curve = Curve(
        model=model.name, task=function, title=title or function_title(function), units="heads",
        method=scores.method, order=masked.order, mode="mask", fill=masked.fill, metric=metric, ks=masked.ks,
        total=model.head_count, ranking=scores.top(max(masked.ks)) if masked.order == "top" else (),
        values={name: value.reshape(draws, points, len(questions)) for name, value in found.items()}, base="ones",
        whole={name: float(value.mean()) for name, value in uncut.items()},
        groups=tuple(question.template for question in questions),
        provenance={"positions": masked.positions, **(provenance or {})},
    )  # fmt: skip
    return curve, missing
