"""Twins of one run at several densities: what sparse attention costs, and what it buys, against how sparse it is.

twin/                 the sparsest, as any other result
twin/open-0.05/ …     those before it, each a result of its own
twin/ladder.csv       open edges, keys per query, empty rows, loss and accuracies of each
twin/ladder.png       the same, drawn
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.files import write_file
from ..core.saving import csv_text
from ..models.gated_folder import SparseFacts
from .evaluation import Evaluation
from .outputs import png
from .recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE, PICTURE = "ladder.csv", "ladder.png"
LEAST_KEYS = 1e-3  # where a twin that attends to nothing is drawn


def rung_name(recipe: Recipe, rung: int) -> str:
    """The folder of a twin, inside that of the last one."""
    return f"open-{recipe.target_open[rung]:g}"


def rungs(folder: Path, recipe: Recipe) -> dict[float, Path]:
    """The folders of all twins by the share of open edges that each was to have, the densest first."""
    inside = [folder / rung_name(recipe, rung) for rung in range(len(recipe.target_open) - 1)]
    return dict(zip(recipe.target_open, [*inside, folder], strict=True))


def write_ladder(folder: Path, recipe: Recipe) -> None:
    found = {target: evaluation_of(place) for target, place in rungs(folder, recipe).items()}
    rows = [
        {
            "target": target,
            "open_share": each.open_share,
            "keys_a_query": each.keys_a_query,
            "empty_rows": each.empty_rows,
            "loss": each.loss,
            "dense_loss": each.dense_loss,
            **{f"accuracy {task}": of["accuracy"] for task, of in each.by_task.items()},
        }
        for target, each in found.items()
    ]
    write_file(folder / TABLE, csv_text(rows))
    write_file(folder / PICTURE, png(draw_ladder(list(found.values()), {})))


def evaluation_of(folder: Path) -> Evaluation:
    return Evaluation.from_dict(SparseFacts.load(folder).made["evaluation"])


def draw_ladder(found: Sequence[Evaluation], needed: Mapping[str, Sequence[float]], unit: str = "edges") -> "Figure":
    """Loss, accuracy and, where it is given, how many units each task needs, against open keys per query.

    `needed`: of every task, for the dense model and then for each twin."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    keys = [max(each.keys_a_query or 0, LEAST_KEYS) for each in found]
    tasks = list(found[0].by_task)
    panels = 1 + bool(tasks) + bool(needed)
    figure = Figure(figsize=(3.6 * panels, 3.2), layout="constrained")
    loss, *others = figure.subplots(1, panels, squeeze=False)[0]
    loss.plot(keys, [100 * each.relative_loss for each in found], "ko-")
    loss.axhline(0, color="black", ls="--", lw=0.8)
    loss.set(title="Loss on held-out text", ylabel="above the dense model's, %")
    looks = {
        name: {"color": f"C{at}", "marker": "os^Dv<>P"[at % 8]}
        for at, name in enumerate(dict.fromkeys([*tasks, *needed]))
    }
    for task in tasks:
        others[0].plot(keys, [100 * each.by_task[task]["accuracy"] for each in found], label=task, **looks[task])
        others[0].axhline(100 * found[0].by_task[task]["dense_accuracy"], color=looks[task]["color"], ls="--", lw=0.8)
        others[0].set(title="Accuracy", ylabel="%")
    for task, (dense, *twins) in needed.items():
        others[-1].plot(keys, twins, label=task, **looks[task])
        others[-1].axhline(dense, color=looks[task]["color"], ls="--", lw=0.8)
        others[-1].set(title=f"Needed {unit}", ylabel=unit, yscale="log")
    for axes in (loss, *others):
        axes.set(xscale="log", xlabel="open keys per query")
        axes.invert_xaxis()
        axes.set_xticks(keys, [f"{each:.2g}" for each in keys])
        axes.set_xticks([], minor=True)
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    lines, names = others[-1].get_legend_handles_labels() if others else ([], [])
    dashed = Line2D([], [], color="black", ls="--", lw=0.8)
    figure.legend([*lines, dashed], [*names, "the dense model"], loc="outside lower center", ncols=5, frameon=False)
    return figure
