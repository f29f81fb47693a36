"""Head scores: one number a head, from the train split of a task. `METHODS` lists the ways to get them."""

from typing import TYPE_CHECKING, Any

from ..errors import HeadcountError, did_you_mean, require_seed
from .method import Method as Method
from .method import Settings as Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..graph import Readers
    from ..measure import Advance
    from ..models import Model
    from ..tasks.examples import Example, Task
    from .gate_fit import Fit
    from .method import ScoreFunction
    from .result import EdgeScores as EdgeScores
    from .result import HeadScores as HeadScores

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("patching", "exact: remove each head from the clean run", "2 + L·H", "patching:remove_each"),
        Method(
            "patching-restore", "exact: put each head's clean value into the counterfactual run", "2 + L·H",
            "patching:restore_each", side="corrupt", needs_pairs=True,
        ),
        Method("attribution", "patching to first order, all heads at once", "3", "attribution:attribution"),
        Method(
            "attribution-ig", "attribution with the gradient averaged between the two prompts", "2 + 2·S",
            "attribution:attribution_ig", needs_pairs=True,
        ),
        Method("gate-gradient", "mean size of the metric's gradient at a gate on it", "2", "gate_gradient:absolute"),
        Method("gate-gradient-signed", "the same with its sign", "2", "gate_gradient:signed"),
        Method(
            "direct", "direct logit attribution: what the head writes toward the answer", "1", "direct:direct",
            needs_pairs=True,
        ),
        Method("previous-token", "attention to the token before, on random tokens", "1", "patterns:previous_token"),
        Method(
            "duplicate-token", "attention to the same token, on random tokens said twice", "1",
            "patterns:duplicate_token",
        ),
        Method("induction", "attention to what followed it, on random tokens said twice", "1", "patterns:induction"),
        Method(
            "gating", "causal head gating: gates fitted to all heads together, helps minus hurts", "U", "gating:gating",
            metric="log_prob_per_token", fill="zero", samples="seeds",
        ),
        Method("chance", "random numbers, the order to beat", "0", "chance:chance"),
        Method(
            "edge-patching", "exact: take each edge from the counterfactual run", "3 + E",
            "edge_patching:edge_patching", units="edges", needs_pairs=True,
        ),
        Method(
            "eap", "edge patching to first order, all edges at once", "3", "edge_attribution:eap", units="edges",
            needs_pairs=True,
        ),
        Method(
            "eap-ig", "the same with the gradient averaged between the two prompts", "1 + 2·S",
            "edge_attribution:eap_ig", units="edges", needs_pairs=True,
        ),
        Method(
            "eap-clean-corrupted", "the same with the gradient averaged over the two prompts", "4",
            "edge_attribution:eap_clean_corrupted", units="edges", needs_pairs=True,
        ),
        Method("edge-chance", "random numbers for edges", "0", "chance:edge_chance", units="edges"),
    )
}  # fmt: skip


def register_method(name: str, *, summary: str, cost: str) -> "Callable[[ScoreFunction], ScoreFunction]":
    """Make a scoring function of your own known by a name; see `scores/method.py` for its shape."""

    def register(function: "ScoreFunction") -> "ScoreFunction":
        METHODS[name] = Method(name, summary, cost, function)
        return function

    return register


def method_named(name: str) -> Method:
    if name not in METHODS:
        raise HeadcountError(f"There is no scoring method {name!r}.{did_you_mean(name, METHODS)}")
    return METHODS[name]


def score(
    model: "Model",
    task: "Task",
    method: str = "attribution",
    *,
    metric: str | None = None,
    fill: str | None = None,
    positions: Any = "all",
    steps: int = 5,
    seed: int = 0,
    readers: "Readers" = "kv-heads",
    fit: "Fit | None" = None,
    memory: int | None = None,
    max_tokens: int | None = None,
    advance: "Advance | None" = None,
) -> "HeadScores | EdgeScores":
    """Score every head, or every edge, on the train split of a task.

    **Arguments:**

    - `method`: one of `headcount methods`.
    - `metric`: what the scores speak of; the task's own by default.
    - `fill`: what a removed head carries, for `patching`, `attribution` and `gating`. By default the counterfactual
      where a task has pairs, else zero.
    - `positions`: `all`, or `last` for the last prompt token only.
    - `steps`: points on the path of `attribution-ig` and `eap-ig`.
    - `readers`: for edges with grouped-query attention. `kv-heads`: keys and values are read once for each KV head.
      `query-heads`: once for each query head, which is how MIB and EAP-IG count.
    - `fit`: how gates are fitted, for `gating`; the paper's way by default, `headcount.QUICK` for a look.
    - `memory`: bytes that edges may use beyond the model; half a gigabyte by default, or what one prompt needs.

    A bar is shown in a terminal, unless `advance` is given, which is told how many prompts have been run.

    A positive score says that keeping the head raises the metric.
    """
    from ..cuts import POSITIONS, Filler
    from ..measure import MAX_TOKENS
    from ..metrics import require_metric
    from ..models.wiring import find_graph
    from ..progress import progress_bar
    from ..provenance import provenance
    from ..tasks.examples import pairs_only
    from .gate_fit import checked_fit
    from .result import EdgeScores, HeadScores

    chosen = method_named(method)
    if chosen.metric and metric not in (None, chosen.metric):
        raise HeadcountError(f"{method} knows the metric {chosen.metric} alone; this is {metric}.")
    metric = chosen.metric or metric or task.metric
    require_metric(metric, task.train)
    fill = fill or chosen.fill or ("counterfactual" if task.has_pairs else "zero")
    require_seed(seed)
    if positions not in POSITIONS:
        raise HeadcountError(f"There are no positions {positions!r}. Known: {', '.join(POSITIONS)}.")
    if steps < 1:
        raise HeadcountError(f"An integrated gradient needs at least 1 step; steps is {steps}.")
    examples: Sequence[Example] = task.split("train")
    if chosen.needs_pairs:
        examples = pairs_only(examples, f"The method {method}")
    if chosen.units == "edges" and (fill, positions) != ("counterfactual", "all"):
        raise HeadcountError(
            f"{method} scores edges with counterfactual fill at all positions; this is {fill}, {positions}."
        )
    max_tokens = max_tokens or MAX_TOKENS
    side: Any = chosen.side
    filler = Filler.prepare(
        model, fill, examples=examples, reference=examples, side=side, seed=seed, max_tokens=max_tokens
    )
    graph = find_graph(model, readers) if chosen.units == "edges" else None
    edges, updates = 0 if graph is None else graph.n_edges, checked_fit(fit).forwards(len(examples)) // len(examples)
    cost = chosen.forwards(model.head_count, steps, edges, updates) * len(examples)
    with progress_bar(cost, quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · {method}")
        settings = Settings(
            metric, filler, positions, steps, seed, max_tokens, advance or bar.advance, readers, memory, fit, bar.note
        )
        values = chosen.function()(model, examples, settings)
    arguments = {"metric": metric, "fill": fill, "positions": positions, "steps": steps, "seed": seed}
    if graph is not None:
        arguments["readers"] = readers
    facts = {"model": model.name, "task": task.name, "method": method, "metric": metric}
    origin = provenance(model, task, arguments)
    found = values.cpu().double().numpy()
    if graph is not None:
        return EdgeScores(**facts, graph=graph, width=_width(model), values=found, provenance=origin)
    return HeadScores(**facts, by_pair=found, samples=chosen.samples, provenance=origin)


def _width(model: "Model") -> int:
    return int(model.hf.config.get_text_config().hidden_size)


def require_units(method: str, units: str) -> None:
    if (given := method_named(method).units) != units:
        known = [name for name, other in METHODS.items() if other.units == units]
        raise HeadcountError(f"{method!r} scores {given}, and {units} are wanted. Use one of {', '.join(known)}.")
