"""`headcount.score`: one number per head or edge, by any method, from the train split of a task."""

from collections.abc import Sequence

from ..core.errors import HeadcountError, require_known, require_seed
from ..core.plain import quoted
from ..core.progress import progress_bar
from ..core.provenance import Facts, provenance
from ..core.words import POSITIONS, Positions, Readers
from ..edit import Filler, check_fill
from ..edit.edge_fills import check_cut
from ..meters import TOKENS_A_PASS, Advance
from ..meters.metrics import require_metric
from ..models import Model, require_model
from ..models.backward_rules import no_edges
from ..models.changes import leaves_no_trace
from ..models.wiring import find_graph, has_edges
from ..tasks.examples import Example, Task, pairs_only, require_task
from .direct import no_final_norm
from .fit import AnyFit, Trained, fit_for
from .method import METHODS, Method, Request
from .scores import EdgeScores, HeadScores

MOST_STEPS = 10_000


def asked_of(
    model: Model,
    task: Task,
    method: str,
    *,
    metric: str | None = None,
    fill: str | None = None,
    positions: Positions = "all",
    steps: int = 5,
    seed: int = 0,
    fit: AnyFit | None = None,
) -> tuple[Method, str, str, Sequence[Example]]:
    """The method, metric, fill and examples that scores are made with; or what does not go together, told before
    anything runs. The arguments are those of `score`."""
    require_model(model)
    require_task(task, model.vocabulary)
    chosen = METHODS.named(method)
    if chosen.metric and metric not in (None, chosen.metric):
        raise HeadcountError(f"{method} knows the metric {chosen.metric} alone; got {quoted(metric)}.")
    metric = chosen.metric or metric or task.metric
    require_metric(metric, task.train, method if chosen.by_gradient else "")
    fill = fill or chosen.fill or ("counterfactual" if task.has_pairs else "zero")
    require_seed(seed)
    require_known(positions, POSITIONS, "positions")
    if type(steps) is not int or not 1 <= steps <= MOST_STEPS:
        raise HeadcountError(f"An integrated gradient needs from 1 to {MOST_STEPS:,} steps; steps is {quoted(steps)}.")
    examples: Sequence[Example] = task.split("train")
    if chosen.needs_pairs:
        examples = pairs_only(examples, f"The method {method}")
    if chosen.units == "edges":
        check_cut(fill, positions)
        if fill != "counterfactual" and not chosen.any_fill:
            known = [name for name, other in METHODS.sound().items() if other.any_fill]
            raise HeadcountError(
                f"{method} scores edges with counterfactual fill; got {fill}. Use one of {', '.join(known)}."
            )
    else:
        kind = check_fill(fill, examples).kind
        if chosen.fills and kind not in chosen.fills:
            raise HeadcountError(f"{method} takes the fill {' or '.join(chosen.fills)}; got {quoted(fill)}.")
    own = fit_for(method, fit)
    if isinstance(own, Trained) and own.loss == "kl" and not task.has_pairs:
        raise HeadcountError("The loss 'kl' needs pairs of prompts, and this task has targets only. Use 'distance'.")
    if chosen.family == "edges" and not has_edges(model):
        raise no_edges(model)
    if chosen.family == "final norm" and model.anatomy.final_norm is None:
        raise no_final_norm(model)
    return chosen, metric, fill, examples


@leaves_no_trace
def score(
    model: Model,
    task: Task,
    method: str = "attribution",
    *,
    metric: str | None = None,
    fill: str | None = None,
    positions: Positions = "all",
    steps: int = 5,
    seed: int = 0,
    readers: Readers = "kv-heads",
    fit: AnyFit | None = None,
    memory: int | None = None,
    max_tokens: int | None = None,
    advance: Advance | None = None,
) -> HeadScores | EdgeScores:
    """Score every head, or every edge, on the train split of a task.

    **Arguments:**

    - `method`: one of `headcount methods`.
    - `metric`: what the scores speak of; the task's own by default.
    - `fill`: what a removed head carries, for `patching`, `attribution` and `gating`; or a removed edge, for `eap` and
      `edge-patching`. By default the counterfactual where a task has pairs, else zero.
    - `positions`: `all`, or `last` for the last prompt token only.
    - `steps`: points on the path of `attribution-ig` and `eap-ig`.
    - `seed`: of whatever a method draws; for `attribution-eg` and `eap-eg` the point of each prompt.
    - `readers`: for edges with grouped-query attention. `kv-heads`: keys and values are read once for each KV head.
      `query-heads`: once for each query head, which is how MIB and EAP-IG count. `components`: edges are counted whole,
      from component to component; a head is one reader, whose query, key and value see the same.
    - `fit`: a `headcount.Fit` says how gates are fitted, for `gating`; the paper's way by default, `headcount.QUICK`
      for a look. A `headcount.Learning` says how rankings are learned, a `headcount.Pruning` how edges are pruned.
    - `memory`: bytes that edges may use beyond the model; just below a gigabyte by default, or what one prompt needs.

    A bar is shown in a terminal, unless `advance` is given, which is told how many prompts have been run.

    A positive score says that keeping the head raises the metric.
    """
    chosen, metric, fill, examples = asked_of(
        model, task, method, metric=metric, fill=fill, positions=positions, steps=steps, seed=seed, fit=fit
    )
    most, side = max_tokens or TOKENS_A_PASS, chosen.side
    filler = Filler.prepare(model, fill, examples=examples, reference=examples, side=side, seed=seed, max_tokens=most)
    graph = find_graph(model, readers) if chosen.units == "edges" else None
    updates = fit_for(method, fit).forwards(len(examples)) // len(examples)
    cost = chosen.forwards(model.head_count, steps, graph.n_edges if graph else 0, updates) * len(examples)
    with progress_bar(cost, quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · {method}")
        told = advance or bar.advance
        request = Request(metric, filler, positions, steps, seed, most, told, readers, memory, fit, bar.note)
        found = chosen.function()(model, examples, request).cpu().double()
    if not found.isfinite().all():
        raise HeadcountError(
            f"{method} gives scores of {quoted(model.name)} on {quoted(task.name)} that are not finite numbers, so they"
            " rank nothing. 'headcount check' looks for the cause; in half precision try --dtype float32."
        )
    values = found.numpy()
    arguments: Facts = {"metric": metric, "fill": fill, "positions": positions, "steps": steps, "seed": seed}
    about = model.name, task.name, method, metric
    if graph is None:
        return HeadScores(*about, values, chosen.samples, chosen.signed, provenance(model, task, arguments))
    origin = provenance(model, task, {**arguments, "readers": readers})
    width = int(model.hf.config.get_text_config().hidden_size)
    return EdgeScores(*about, graph, width, values, chosen.signed, origin)
