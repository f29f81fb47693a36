"""`headcount.plot`: any result as its figure: curves as the study that makes them does, scores as maps of heads,
attention as patterns."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..core.errors import HeadcountError, require_known
from ..core.words import FigureWidth
from ..meters.attention_patterns import AttentionPattern
from ..rank.comparison import Comparison
from ..rank.explanation import Explanation
from ..rank.roles import HeadRoles
from ..rank.scores import HeadScores
from ..sweeps import Curve
from ..sweeps.overlap import Overlap
from ..view.agreement import draw_agreement, draw_overlap
from ..view.attention import draw_attention
from ..view.head_map import draw_scores
from . import STUDIES
from .study import WIDTHS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Plotted = Curve | HeadScores | HeadRoles | Explanation | AttentionPattern | Overlap | Comparison

T = TypeVar("T")


def plot(
    results: "Plotted | Sequence[Plotted]",
    *,
    threshold: float | None = 0.9,
    title: str = "",
    one_panel: bool = False,
    width: FigureWidth = "",
) -> "Figure":
    """Draw a result, or several of one kind. Returns a matplotlib figure, to be shown or saved.

    - Curves: explained effect, one panel per task, with a colour for each model or method; curves by role, one row per
      task and one column per model; masked answers, one row per model and one column per function.
    - Scores or roles of heads: a map of heads each, with a colour bar.
    - What `headcount.attention` gives: a pattern a head, with the tokens of the prompt.
    - What `headcount.explain` gives: a map of heads.
    - What `headcount.overlap` or `headcount.compare_scores` gives: matrices of agreement.

    **Arguments:**

    - `threshold`: of explained effect.
    - `one_panel`: all curves of explained effect in one panel, also where they are of several tasks.
    - `width`: of a figure of curves: `"column"` or `"page"` of a paper; as wide as its panels by default.
    """
    listed = list(results) if isinstance(results, Sequence) else [results]
    if not listed:
        raise HeadcountError("There is nothing to plot: no curves, scores or patterns were given.")
    for kind, draw in DRAWN.items():
        if all(isinstance(entry, kind) for entry in listed):
            return draw(listed, title, {"threshold": threshold, "one_panel": one_panel, "width": width})
    came = ", ".join(sorted({type(entry).__name__ for entry in listed}))
    known = ", ".join(kind.__name__ for kind in DRAWN)
    raise HeadcountError(f"A figure shows results of one kind, such as {known}; these are {came}.")


def _curves(curves: list[Curve], title: str, asked: "Asked") -> "Figure":
    kinds = {curve.kind for curve in curves}
    if len(kinds) > 1:
        apart = f"Curves of {' and '.join(sorted(kinds))} say different things"
        raise HeadcountError(f"{apart} and cannot share a figure. Plot them one by one.")
    study = next(study for study in STUDIES.sound().values() if study.curves in kinds)
    more = {"one_panel": True} if asked["one_panel"] else {}
    if asked["width"]:
        require_known(asked["width"], WIDTHS, "width of a figure")
    if more and "explained" not in kinds:
        raise HeadcountError("Only curves of explained effect can stand in one panel. Leave one_panel out.")
    return cast("Figure", study.part("figure").plot(curves, asked["threshold"], title, width=asked["width"], **more))


def _explanations(found: list[Explanation], title: str, asked: "Asked") -> "Figure":
    one = _one(found, "prompt")
    return draw_scores([one.scores], title or f"{one.prompt}  →  {one.answer}")


def _one(entries: list[T], what: str) -> T:
    if len(entries) > 1:
        raise HeadcountError(f"A figure shows one {what}; these are {len(entries)}. Plot them one by one.")
    return entries[0]


Asked = dict[str, object]
DRAWN: "dict[type, Callable[[list[Any], str, Asked], Figure]]" = {
    Curve: _curves,
    HeadScores: lambda scores, title, asked: draw_scores(scores, title),
    HeadRoles: lambda roles, title, asked: draw_scores([entry.scores() for entry in roles], title),
    Explanation: _explanations,
    AttentionPattern: lambda patterns, title, asked: draw_attention(_one(patterns, "prompt"), title),
    Overlap: lambda found, title, asked: draw_overlap(_one(found, "overlap"), title),
    Comparison: lambda found, title, asked: draw_agreement(_one(found, "comparison")),
}
