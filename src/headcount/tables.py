"""Results as tables in the terminal."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from .comparison import Comparison
    from .sparse import Evaluation
    from .studies import StudyResult


def print_kept(result: "StudyResult") -> None:
    """One table: a row a curve, with what is the same in all rows said above it."""
    entries = result.summary["curves"]
    models = dict.fromkeys(f"{entry['model']} ({entry['total']} {entry['units']})" for entry in entries)
    methods = dict.fromkeys(entry["method"] for entry in entries if entry["order"] != "chance")
    unit, share, masked = entries[0]["units"], entries[0]["threshold"], entries[0]["mode"] == "mask"
    print(f"\n{', '.join(models)}" + (f"; scored by {', '.join(methods)}." if methods else "."))
    verb = "to be masked until" if masked else "to be kept for"
    print(f"{unit.capitalize()} {verb} {share:.0%} of the effect{' is gone' * masked}, with a 90% interval:")
    rows: list[tuple[str, ...]] = [("task", "model", "order", "needed", "interval", f"no {unit} to all")]
    for entry in entries:
        needed = "never" if entry["needed"] is None else str(entry["needed"])
        low, high = (entry["total"] if end is None else end for end in (entry["needed_low"], entry["needed_high"]))
        interval = "" if entry["needed"] is None else f"{low} to {high}"
        none, whole = ("nan" if m is None else f"{m:.2f}" for m in (entry["metric_none"], entry["metric_all"]))
        effect = f"{entry['metric']} {none} to {whole}"
        rows.append((entry["task"], entry["model"], entry["order"], needed, interval, effect))
    shown = [0, *([1] if len(models) > 1 else []), 2, 3, 4, 5]
    header, *body = (tuple(row[column] for column in shown) for row in rows)
    print_table(header, body)
    if unit == "edges":
        _print_areas(entries)
    for ratio in result.summary["ratios"]:
        print(f"{ratio['task']}, {ratio['order']}: {ratio['words']}.")
    for warning in dict.fromkeys(f"{e['task']}, {e['model']}: {e['warning']}" for e in entries if e["warning"]):
        print(f"Warning: {warning}")
    print(f"Jobs: {result.computed} computed, {result.cached} from the cache. Figure: {result.folder / 'figure.png'}")


def _print_areas(entries: list[dict[str, Any]]) -> None:
    """MIB's areas, each from the order that it is meant for."""
    wanted = {"CPR": "signed", "CMD": "absolute"}
    models = dict.fromkeys((entry["task"], entry["model"]) for entry in entries)
    found = []
    for task, model in models:
        own = [entry for entry in entries if (entry["task"], entry["model"]) == (task, model)]
        areas = [[e["areas"].get(kind) for e in own if e["order"] == order] for kind, order in wanted.items()]
        found.append((task, model, *("" if not area or area[0] is None else f"{area[0]:.2f}" for area in areas)))
    print("MIB's areas: CPR of the signed order (higher is better), CMD of the absolute order (0 is best):")
    print_table(("task", "model", "CPR", "CMD"), found)


def print_table(header: tuple[str, ...], rows: "Sequence[tuple[str, ...]]") -> None:
    table = Table(*header, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    # A pipe has no width of its own; let the table have what it needs there.
    console = Console() if Console().is_terminal else Console(width=200)
    console.print(table)


def print_roles(result: "StudyResult") -> None:
    """A row a task and model for the model and its heads, and what the curves do in words."""
    cells = result.summary["cells"]
    first = cells[0]
    print(f"\n{first['seeds']} fits of causal head gating each; fill {first['fill']}, base {first['base']}.")
    print("Share of the heads with a score of at least one half (in every fit, in any);")
    print("agree: rank correlation between fits, of helps minus hurts;")
    print("log P, right: the whole model's log-probability of a target token, and its accuracy.")
    many = len({cell["model"] for cell in cells}) > 1
    rows = []
    for cell in cells:
        shares = [cell["shares"][role] for role in ("facilitation", "irrelevance", "interference")]
        told = [f"{by['mean']:.0%} ({by['always']:.0%}, {by['any']:.0%})" for by in shares]
        agree, whole = cell["seed_agreement"]["gating"], cell["whole_model"]
        per_token = whole.get("log_prob_per_token", whole["log_prob"])
        good = _number(per_token, ".2f"), _number(whole["accuracy"], ".0%")
        rows.append((*_named(cell, many), *told, "" if agree is None else f"{agree:.2f}", *good))
    header = ("task", "model") if many else ("task",)
    print_table((*header, "facilitation", "irrelevance", "interference", "agree", "log P", "right"), rows)
    print("Change in log-probability when heads are ablated in the order of a role:")
    changes = [
        (*_named(cell, many), role, _number(cell["curves"][role]["last"], "+.2f"), cell["words"].get(role, ""))
        for cell in cells
        for role in cell["curves"]
    ]
    print_table((*header, "order", f"at k = {first['curves']['chance']['last_k']}", "on the way"), changes)
    print(f"Jobs: {result.computed} computed, {result.cached} from the cache. Figure: {result.folder / 'figure.png'}")


def print_masked(result: "StudyResult") -> None:
    """How good the model and the probes are, what masking does at every k, and what pushes gain."""
    summary, cells = result.summary, result.summary["cells"]
    many = len({cell["model"] for cell in cells}) > 1
    first = cells[0]
    for probe in summary["probes"]:
        joint = sum(probe["joint_accuracy"]) / len(probe["joint_accuracy"])
        mean, best = probe["head_accuracy_mean"], probe["head_accuracy_best"]
        print(f"\n{probe['model']}: the joint probe names the function of {joint:.0%} of unseen questions, a probe of")
        print(f"one head {mean:.0%} ({best:.0%} at best), by chance {probe['chance']:.0%};")
        print(f"with shuffled labels {probe['joint_control']:+.1%} and {probe['head_control']:+.1%} from chance.")
    print(f"Accuracy ({first['metric']}) of the whole model on test questions, by function:")
    baseline = summary["baseline"]
    functions = list(dict.fromkeys(function for by in baseline.values() for function in by))
    rows = [(f, *(_number(by.get(f), ".2f") for by in baseline.values())) for f in functions]
    print_table(("function", *baseline), rows)
    second = summary["similarity"]
    print(f"Masked by {first['method']}, {first['fill']}; {first['metric']}" + (f" / {second}" if second else "") + ":")
    table = []
    same = all(cell["ks"] == first["ks"] for cell in cells)
    for cell in cells:
        for order, by_metric in cell["curves"].items():
            shown = [by_metric[name] for name in (cell["metric"], second) if name]
            points = [" / ".join(_number(value, ".2f") for value in values) for values in zip(*shown, strict=True)]
            if not same:
                points = [f"k = {k}: {point}" for k, point in zip(cell["ks"], points, strict=True)]
            table.append(((cell["function"], cell["model"]) if many else (cell["function"],)) + (order, *points))
    header = ("function", "model") if many else ("function",)
    print_table((*header, "heads", *(f"k = {k}" if same else "" for k in first["ks"])), table)
    print(f"Top heads at the largest k against {first['draws']} draws of as many others:")
    told = [((c["function"], c["model"]) if many else (c["function"],)) + tuple(c["words"].values()) for c in cells]
    print_table((*header, *first["words"]), told)
    _print_pushes(cells)
    for note in summary["notes"]:
        print(f"Note: {note}")
    print(f"Jobs: {result.computed} computed, {result.cached} from the cache. Figure: {result.folder / 'figure.png'}")


def _print_pushes(cells: list[dict[str, Any]]) -> None:
    """What adding the direction of right answers gains on test questions."""
    rows = [
        (
            cell["function"], str(push["heads"]), f"{push['alpha']:g}", _number(push["unpushed"], ".2f"),
            f"{push['gain']:+.2f} ({push['low']:+.2f} to {push['high']:+.2f})",
            f"{push['control_gain']:+.2f} (alpha {push['control_alpha']:g})",
        )
        for cell in cells if "gain" in (push := cell["steering"])
    ]  # fmt: skip
    if rows:
        print("Heads pushed toward right answers; alpha chosen on validation, gain in accuracy on test:")
        print_table(("function", "heads", "alpha", "unpushed", "gain", "random directions"), rows)


def _named(cell: dict[str, Any], many: bool) -> tuple[str, ...]:
    return (cell["task"], cell["model"]) if many else (cell["task"],)


def _number(value: float | None, form: str) -> str:
    return "nan" if value is None else format(value, form)


def print_comparison(found: "Comparison") -> None:
    """A row a pair of scores, and the agreement between seeds where there are seeds."""
    header = ("first", "second", "Spearman", *(f"Jaccard of the top {k}" for k in found.jaccard))
    numbers = [tuple(row.values()) for row in found.rows()]
    print_table(header, [(str(first), str(second), *(f"{v:.2f}" for v in rest)) for first, second, *rest in numbers])
    seeds = [
        (name, f"{rank:.2f}", f"{overlap:.2f}")
        for name, rank, overlap in zip(found.names, found.seed_spearman, found.seed_jaccard, strict=True)
        if rank is not None and overlap is not None
    ]
    if seeds:
        print("Between the seeds of one method, on average:")
        print_table(("method", "Spearman", f"Jaccard of the top {next(iter(found.jaccard))}"), seeds)


PRINTERS: dict[str, Callable[["StudyResult"], None]] = {
    "kept": print_kept, "roles": print_roles, "masked": print_masked,
}  # fmt: skip
"""How each kind of study is told."""


def print_evaluation(found: "Evaluation", folder: "Path") -> None:
    """What a sparse model is worth on held-out text."""
    print(f"\nOn {found.in_words}, of {found.length} tokens:")
    print_table(("", ""), found.rows())
    print_table(
        ("source", "dense loss", "loss", "sequences"),
        [
            (name, f"{source['dense_loss']:.4f}", f"{source['loss']:.4f}", f"{source['sequences']:.0f}")
            for name, source in found.by_source.items()
        ],
    )
    print(f"Model, card, log and plot: {folder}")
