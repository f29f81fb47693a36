"""Many tasks at once: which heads serve many of them, and which tasks share their heads.

A head serves a task where it is among those that the task needs (`Curve.first_k`) in the first order by scores.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from typing_extensions import TypedDict

from ...core.saving import Row
from ...core.words import SCORE_ORDERS
from ...sweeps.overlap import Overlap
from ...view.style import styled
from .steps import KeptCell

SEVERAL = 3
"""Tasks from which on they are shown together."""
SHOWN = 60
"""Heads that the figure has room for, those of most tasks first."""
NAMED = 10


class TasksEntry(TypedDict):
    """The tasks of one model, and the heads that they need."""

    model: str
    total: int  # heads of the model
    tasks: list[str]  # that need some heads and not all, as the figure has them
    left_out: list[str]  # tasks whose threshold is never reached
    heads: dict[str, int]  # head -> tasks that need it, those of most tasks first
    clusters: list[list[str]]  # tasks that share their heads


def served(cells: Sequence[KeptCell]) -> dict[str, tuple[Overlap, list[str]]]:
    """Model -> the heads that its tasks need, and the tasks that never have enough; only of models with several tasks
    of one method and fill."""
    asked: dict[tuple[str, str, str], dict[str, tuple[str, ...] | None]] = {}
    sizes = dict[str, int]()
    for cell in cells:
        curve = next((curve for curve in cell.curves if curve.order in SCORE_ORDERS and curve.ranking), None)
        if curve is None or curve.units != "heads" or curve.mode != "keep":
            continue
        repeats = cell.repeats(curve)
        needed = repeats.units_needed(cell.panel.threshold).value
        heads = None if needed is None else repeats.ranking[:needed]
        group = asked.setdefault((curve.model, curve.method, curve.fill), {})
        group[cell.panel.title or curve.title] = heads
        sizes[curve.model] = curve.total
    found = dict[str, tuple[Overlap, list[str]]]()
    for (model, *_), tasks in asked.items():
        sets = {task: heads for task, heads in tasks.items() if heads is not None}
        if len(tasks) >= SEVERAL and len(sets) >= 2 and model not in found:
            found[model] = Overlap(sets, sizes[model]), [task for task in tasks if task not in sets]
    return found


def entries(found: dict[str, tuple[Overlap, list[str]]]) -> list[TasksEntry]:
    return [
        {
            "model": model,
            "total": sets.total,
            "tasks": [task for cluster in sets.clusters() for task in cluster],
            "left_out": left_out,
            "heads": sets.counts,
            "clusters": sets.clusters(),
        }
        for model, (sets, left_out) in found.items()
    ]


def rows(found: dict[str, tuple[Overlap, list[str]]]) -> list[Row]:
    """One row per task and head that it needs."""
    made = list[Row]()
    for model, (sets, _) in found.items():
        counts = sets.counts
        for number, cluster in enumerate(sets.clusters(), 1):
            for task in cluster:
                about: Row = {"model": model, "task": task, "cluster": number}
                ranked = enumerate(sets.sets[task], 1)
                made += [{**about, "rank": rank, "head": head, "tasks": counts[head]} for rank, head in ranked]
    return made


@styled
def draw_tasks(found: dict[str, tuple[Overlap, list[str]]]) -> Figure:
    """Tasks x heads, a panel a model: dark where the task needs the head; tasks by cluster, heads by how many tasks
    they serve."""
    shown = {model: list(sets.counts)[:SHOWN] for model, (sets, _) in found.items()}
    tall = [0.17 * len(sets.sets) + 0.9 for sets, _ in found.values()]
    longest = max(len(task) for sets, _ in found.values() for task in sets.sets)
    width = 0.145 * max(map(len, shown.values())) + 0.075 * longest + 0.8
    figure = Figure(figsize=(max(width, 4.0), sum(tall)), layout="constrained")
    axes = figure.subplots(len(found), 1, squeeze=False, height_ratios=tall)[:, 0]
    for ax, (model, (sets, _)) in zip(axes, found.items(), strict=True):
        clusters, heads = sets.clusters(), shown[model]
        tasks = [task for cluster in clusters for task in cluster]
        needs = np.array([[head in sets.sets[task] for head in heads] for task in tasks])
        ax.imshow(needs, cmap="Blues", vmin=0, vmax=1.4, aspect="auto", interpolation="nearest")
        for end in np.cumsum([len(cluster) for cluster in clusters])[:-1]:
            ax.axhline(end - 0.5, color="0.6", linewidth=0.6)
        ax.set_xticks(range(len(heads)), heads, rotation=90, fontsize=6)
        ax.set_yticks(range(len(tasks)), [f"{task} ({len(sets.sets[task])})" for task in tasks], fontsize=6.5)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        more = len(sets.counts) - len(heads)
        rest = f", and {more} of fewer tasks" if more else ""
        ax.set_title(f"{model}: heads that tasks need; those of most tasks first{rest}", loc="left", fontsize=8)
    return figure


def words(entry: TasksEntry) -> list[str]:
    """What is found, in sentences."""
    count = len(entry["tasks"])
    many = [f"{head} ({tasks})" for head, tasks in entry["heads"].items() if tasks > 1][:NAMED]
    told = [f"{entry['model']}: {len(entry['heads'])} of {entry['total']} heads serve one of {count} tasks or more"]
    told[0] += f"; those of most tasks: {', '.join(many)}." if many else "; none serves two."
    for cluster in (cluster for cluster in entry["clusters"] if len(cluster) > 1):
        told.append(f"Tasks that share their heads: {', '.join(cluster)}.")
    if entry["left_out"]:
        told.append(f"Left out, as their threshold is never reached: {', '.join(entry['left_out'])}.")
    return told
