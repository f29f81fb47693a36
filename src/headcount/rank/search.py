"""Search: how few heads suffice, so that we know how far from the optimum a ranking is.

A set of heads S is kept, all others carry the fill, and the train split says how much of the effect is there:

    EE(S) = (m(S) - m(none)) / (m(all) - m(none))          m: mean of the metric over the train prompts
    faithful: |1 - EE(S)| <= 1 - threshold                 reached: EE(S) >= threshold

The smallest S that meets the aim is looked for by backward elimination, exchanges and forward selection (`subsets.py`).
That is greedy. It promises no set that does not meet its aim on train, and none larger than the ranking's; that nothing
smaller exists is said only where all smaller sets were tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError, require_known, require_seed
from ..core.progress import progress_bar
from ..core.provenance import Facts, provenance
from ..core.saving import Floats, Saved
from ..core.words import AIMS, POSITIONS, Aim, Positions, ScoreOrder
from ..edit import Filler, head_name
from ..edit.cut import parse_head
from ..meters import TOKENS_A_PASS, Advance, HeadMeter
from ..meters.metrics import require_metric
from ..models import Model, require_model
from ..models.changes import leaves_no_trace
from ..tasks.examples import Example, Task, require_task
from .method import METHODS, Request
from .scores import EdgeScores, HeadScores, warn_of_another
from .subsets import Trials, smallest_set

MASKS = 1000
"""Sets that are measured at most; the cost of the method in `methods.toml`."""


@dataclass(frozen=True)
class Found(Saved):
    """The fewest heads that a search found, and how many the ranking takes that it began with."""

    FILE: ClassVar[str] = "search"

    model: str
    task: str
    method: str  # of the ranking
    metric: str
    aim: Aim
    threshold: float
    heads: tuple[str, ...]  # in the order in which they were chosen
    explained: float  # explained effect of these heads on train
    ranked: int  # heads that the ranking takes for the same aim on train, in the better of its orders
    ranked_by: ScoreOrder  # that order
    optimal: bool  # True where all smaller sets have been tried
    masks: int  # sets that were measured
    order: tuple[str, ...] = field(repr=False)
    """All heads: those found first, as they help together, then the others by the ranking."""
    shape: tuple[int, int]  # layers, heads a layer
    provenance: Facts = field(default_factory=dict, repr=False)

    @property
    def gap(self) -> int:
        """Heads that the ranking takes and the search does not need."""
        return self.ranked - len(self.heads)

    def scores(self) -> HeadScores:
        """As head scores, whose order is the nested one, to be swept on the test split."""
        places = [layer * self.shape[1] + head for layer, head in map(parse_head, self.order)]
        values = _as_scores(places).reshape(1, *self.shape)
        origin = self.provenance
        return HeadScores(self.model, self.task, "search", self.metric, values, signed=False, provenance=origin)

    def __str__(self) -> str:
        fewest = ", the fewest there are" * self.optimal
        share = f"explained effect {self.explained:.2f} on train"
        return f"{self.ranked} heads by ranking, {len(self.heads)} by search{fewest}; {share}"


@leaves_no_trace
def search(
    model: Model,
    task: Task,
    scores: HeadScores,
    *,
    threshold: float = 0.9,
    aim: Aim = "faithful",
    metric: str | None = None,
    fill: str | None = None,
    positions: Positions = "all",
    masks: int = MASKS,
    seed: int = 0,
    max_tokens: int = TOKENS_A_PASS,
    advance: Advance | None = None,
) -> Found:
    """Look for the fewest heads with which the behaviour is there, on the train split of a task.

    **Arguments:**

    - `scores`: the ranking that the search begins with.
    - `aim`: `faithful`, explained effect within 1 - `threshold` of 1; `reached`, at least `threshold`.
    - `fill`, `positions`: what removed heads carry, and where; by default the counterfactual where a task has pairs,
      else zero.
    - `masks`: sets of heads to measure at most. The ranking's own set is always found, whatever it takes.
    - `advance`: told how many prompts have been run. Without it a bar is shown in a terminal.

    How good the heads are elsewhere is for the test split to say: `hc.sweep(model, task, found.scores())`.
    """
    require_model(model)
    require_task(task, model.vocabulary)
    if isinstance(scores, EdgeScores):
        raise HeadcountError("A search is for heads, and these are scores of edges. Give it scores of heads.")
    shape = (model.n_layers, model.n_heads)
    if scores.values.shape != shape:
        sizes = f"The scores are of {scores.size} heads, but {model.name} has {model.head_count}."
        raise HeadcountError(f"{sizes} Score this model first.")
    warn_of_another(scores, model)
    if not 0 < threshold <= 1:
        raise HeadcountError(f"A threshold of explained effect must lie above 0 and not above 1; got {threshold}.")
    require_known(aim, AIMS, "aim")
    require_known(positions, POSITIONS, "positions")
    require_seed(seed)
    examples, metric = task.split("train"), metric or task.metric
    require_metric(metric, examples)
    fill = fill or ("counterfactual" if task.has_pairs else "zero")
    filler = Filler.prepare(model, fill, examples=examples, reference=examples, seed=seed, max_tokens=max_tokens)
    with progress_bar(masks * len(examples), quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · search")
        told = advance or bar.advance
        meter = HeadMeter(model, examples, filler, positions=positions, max_tokens=max_tokens, advance=told)
        trials = Trials(meter, metric, shape, aim, threshold, masks)
        best = smallest_set(trials, scores.values.ravel(), scores.signed)
    named = tuple(head_name(divmod(place, shape[1])) for place in best.order)
    arguments: Facts = {"metric": metric, "fill": fill, "positions": positions, "seed": seed, "masks": masks}
    arguments |= {"aim": aim, "threshold": threshold, "ranking": scores.provenance}
    return Found(
        model=model.name,
        task=task.name,
        method=scores.method,
        metric=metric,
        aim=aim,
        threshold=threshold,
        heads=named[: best.size],
        explained=float(trials.explained([best.heads])[0]),
        ranked=best.ranked,
        ranked_by=best.ranked_by,
        optimal=best.optimal,
        masks=trials.run,
        order=named,
        shape=shape,
        provenance=provenance(model, task, arguments),
    )


def search_heads(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """The method `search`: from the ranking of an integrated gradient, or of attribution where the fill allows no path,
    at a threshold of 0.9. One map, [1, layer, head], whose absolute order is the nested one."""
    start = METHODS["attribution-ig" if request.filler.fill.kind == "counterfactual" else "attribution"]
    values = start.function()(model, examples, request).mean(0).numpy().ravel()
    positions, most = request.positions, request.max_tokens
    meter = HeadMeter(model, examples, request.filler, positions=positions, max_tokens=most, advance=request.advance)
    shape = (model.n_layers, model.n_heads)
    best = smallest_set(Trials(meter, request.metric, shape, "faithful", 0.9, MASKS), values, signed=True)
    return torch.from_numpy(_as_scores(best.order)).view(1, *shape)


def _as_scores(order: Sequence[int]) -> Floats:
    """Numbers from 1 down to 1/n along an order, by place."""
    values = np.empty(len(order))
    values[list(order)] = np.arange(len(order), 0, -1) / len(order)
    return values
