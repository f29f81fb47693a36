"""Which objective empties rows: a ladder of twins of `tiny` for each, with the same steps, text, seed and shares.

    python recipes/objectives.py --out objectives                   about half an hour on one core
    python recipes/objectives.py --out objectives --only sinks      one of them; without --only all are compared

An interrupted run resumes. The comparison is objectives.csv (every twin), objectives.md (the sparsest ones, and
`tiny-sparse`) and objectives.png; `--docs` also puts figure and CSV into docs/figures, and the table into
docs/studies/sparsify.md, between `<!-- objectives -->` and `<!-- end -->`.
"""

import argparse
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from ladder import mixture, summary, train
from tiny import LENGTH, SPARSE, TASKS

import headcount as hc
from headcount.core.progress import say
from headcount.core.saving import Row, csv_text
from headcount.sparse.abilities import abilities
from headcount.sparse.evaluation import Evaluation
from headcount.sparse.ladder import evaluation_of, rungs
from headcount.tasks.batches import batches

SHARES = (0.01, 0.0035)
OBJECTIVES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sinks": {"sinks": True},
    "row cost": {"row_cost": 8.0},
    "log-heads": {"regulariser": "log-heads"},
    "near costs more": {"distance_power": -0.5},
    "sinks, row cost": {"sinks": True, "row_cost": 1.0},
}
RATIO = ("ratio", "ratio_low", "ratio_high")
KEYS = (1.0, 0.7, 0.5, 0.35, 0.25)  # where the axis of open keys has its ticks
DOCS = Path(__file__).parent.parent / "docs"
PAGE = re.compile(r"(<!-- objectives -->\n).*?(<!-- end -->)", re.DOTALL)


def recipe_of(name: str, steps: int) -> hc.Recipe:
    same = {"steps": steps, "batch": 8, "length": LENGTH, "evaluate_sequences": 400, "target_open": SHARES}
    return hc.Recipe(**{**SPARSE, **same, **OBJECTIVES[name]})


@dataclass(frozen=True)
class Twin:
    objective: str
    target: float | None  # None for the bundled twin, which was trained for a loss and not for a share
    place: str
    found: Evaluation

    def mean_of_tasks(self, fact: str) -> float:
        return sum(self.found.by_task[task][fact] for task in TASKS) / len(TASKS)

    def row(self) -> Row:
        return {
            "objective": self.objective,
            "target": self.target,
            "loss_above_dense": self.found.relative_loss,
            "open_share": self.found.open_share,
            "keys_a_query": self.found.keys_a_query,
            "empty_rows": self.found.empty_rows,
            "dead_heads": self.found.dead_heads,
            "prompts_keys_a_query": self.mean_of_tasks("keys_a_query"),
            "prompts_empty_rows": self.mean_of_tasks("empty_rows"),
            **{f"accuracy {task}": self.found.by_task[task]["accuracy"] for task in TASKS},
        }


def twins(out: Path, steps: int) -> list[Twin]:
    found = [
        Twin(name, target, str(place), evaluation_of(place))
        for name in OBJECTIVES
        for target, place in rungs(folder_of(out, name), recipe_of(name, steps)).items()
    ]
    return [*found, bundled()]


def bundled() -> Twin:
    """`tiny-sparse`, on text as its card says, and tried on the tasks."""
    dense, twin = hc.load("tiny"), hc.load("tiny-sparse")
    tasks = [hc.task(name, dense) for name in TASKS]
    card = evaluation_of(hc.models.NAMED["tiny-sparse"]())
    return Twin("tiny-sparse", None, "tiny-sparse", card.with_tasks(abilities(dense, tasks), abilities(twin, tasks)))


def folder_of(out: Path, name: str) -> Path:
    return out / re.sub(r"\W+", "-", name)


@torch.no_grad()
def where_edges_lead(place: str) -> dict[str, float]:
    """Of the open edges on the test prompts of the four tasks: the share from a token to itself, and to the first."""
    model = hc.load(place)
    total = itself = first = 0
    for name in TASKS:
        for _, batch in batches(hc.task(name, model, n=80).test, model.device, 2048):
            attended = model.hf(input_ids=batch.clean, output_attentions=True, use_cache=False).attentions
            opened = (torch.stack(attended) > 0) & batch.real()[None, :, None, :, None]
            total += int(opened.sum())
            itself += int(opened.diagonal(dim1=-2, dim2=-1).sum())
            first += int(opened[..., 1:, 0].sum())
    return {"edges_to_itself": itself / max(total, 1), "edges_to_first": first / max(total, 1)}


def edges_against_dense(place: str, n: int) -> dict[str, Row]:
    """By task: attention edges that the twin needs, and how many times that the dense model does, with intervals."""
    found = summary(["tiny", place], n)
    by_task: dict[str, Row] = {}
    for dense, twin in zip(found["curves"][::2], found["curves"][1::2], strict=True):
        ratio = next((one for one in found["ratios"] if one["task"] == twin["task"]), None)
        ends = [math.nan] * 3
        if ratio is not None:
            ends = [ratio["ratio"], ratio["ratio_low"], ratio["ratio_high"]]
            if ratio["more"] != "tiny":
                ends = [1 / ends[0], 1 / ends[2], 1 / ends[1]]
        by_task[twin["task"]] = {
            "dense": dense["needed"], "needed": twin["needed"], "low": twin["needed_low"], "high": twin["needed_high"],
            "ratio": ends[0], "ratio_low": ends[1], "ratio_high": ends[2],
        }  # fmt: skip
    return by_task


def table(rows: list[Row]) -> str:
    """Of the sparsest twins, in Markdown."""
    head = ["objective", "loss", "keys per query", "empty rows", "on the prompts", "empty rows there"]
    head += ["open edges to the token itself, to the first", "accuracy on `docstring`; lowest of the others"]
    head += [f"edges on `{task}`, dense / twin" for task in TASKS]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        others = min(float(row[f"accuracy {task}"] or 0) for task in TASKS if task != "docstring")
        lines.append([
            str(row["objective"]), f"{row['loss_above_dense']:+.2%}", f"{row['keys_a_query']:.2f}",
            f"{row['empty_rows']:.0%}", f"{row['prompts_keys_a_query']:.2f}", f"{row['prompts_empty_rows']:.0%}",
            f"{row['edges_to_itself']:.0%}, {row['edges_to_first']:.0%}",
            f"{row['accuracy docstring']:.0%}; {others:.0%}", *(ratio_in_words(row, task) for task in TASKS),
        ])  # fmt: skip
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def ratio_in_words(row: Mapping[str, Any], task: str) -> str:
    dense, needed, ratio, low, high = (row[f"{fact} {task}"] for fact in ("dense", "needed", *RATIO))
    counts = " / ".join("not reached" if count is None else f"{count:,}" for count in (dense, needed))
    return counts if math.isnan(ratio) else f"{counts}: {ratio:.1f}x ({low:.1f} to {high:.1f})"


def draw(found: list[Twin], last: list[Row]) -> Any:
    """Loss and empty rows against open keys on the prompts, and how many times the twin's edges the dense model
    needs."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(12.6, 4.2), layout="constrained")
    loss, empty, ratios = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
    names = list(dict.fromkeys(twin.objective for twin in found))
    looks = {name: {"color": f"C{at}", "marker": "os^Dv<>P*X"[at]} for at, name in enumerate(names)}
    for name in names:
        own = [twin for twin in found if twin.objective == name]
        keys = [twin.mean_of_tasks("keys_a_query") for twin in own]
        loss.plot(keys, [100 * twin.found.relative_loss for twin in own], label=name, **looks[name])
        empty.plot(keys, [100 * twin.mean_of_tasks("empty_rows") for twin in own], **looks[name])
    loss.axhline(1, color="black", ls="--", lw=0.8)
    empty.axhline(60, color="black", ls="--", lw=0.8)
    loss.set(title="Loss on held-out text", ylabel="above the dense model's, %", yscale="log")
    empty.set(title="Rows that attend to nothing, on the tasks' prompts", ylabel="%")
    for axes in (loss, empty):
        axes.axvline(0.25, color="black", ls="--", lw=0.8)
        axes.set(xscale="log", xlabel="open keys per query, on the tasks' prompts", xlim=(1.0, 0.2))
        axes.set_xticks(KEYS, [f"{keys:g}" for keys in KEYS])
        axes.set_xticks([], minor=True)
    for at, row in enumerate(last):
        name = str(row["objective"])
        for place, task in enumerate(TASKS):
            value, low, high = (float(row[f"{fact} {task}"] or math.nan) for fact in RATIO)
            x = place + 0.8 * (at + 0.5) / len(last) - 0.4
            ratios.errorbar([x], [value], [[value - low], [high - value]], ls="", ms=5, lw=1, **looks[name])
    for goal in (1, 4, 10):
        ratios.axhline(goal, color="black", ls="-" if goal == 1 else "--", lw=0.8)
    ratios.set(title="Attention edges of dense / of the sparsest twin", yscale="log", xticks=range(len(TASKS)))
    ratios.set_xticklabels(TASKS)
    for axes in (loss, empty, ratios):
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in (loss, ratios):
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))
    lines, labels = loss.get_legend_handles_labels()
    goals = Line2D([], [], color="black", ls="--", lw=0.8)
    below = {"loc": "outside lower center", "ncols": len(names) + 1, "frameon": False}
    figure.legend([*lines, goals], [*labels, "goal"], **below)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=240, help="of every ladder, half of them for each share")
    parser.add_argument("--only", choices=OBJECTIVES, help="train this ladder and compare nothing")
    parser.add_argument("-n", type=int, default=40, help="prompts of a task, half of them measured")
    parser.add_argument("--docs", action="store_true", help="put figure and table into the docs")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    wanted = [given.only] if given.only else list(OBJECTIVES)
    for number, name in enumerate(wanted, 1):
        say(f"ladder {number} of {len(wanted)}: {name}")
        recipe = recipe_of(name, given.steps)
        train("tiny", folder_of(given.out, name), recipe, mixture(given.out / "mixture.jsonl", recipe))
    if given.only:
        return
    found = twins(given.out, given.steps)
    last = list[Row]()
    for twin in found:
        if twin.target in (None, SHARES[-1]):
            say(f"attention edges {len(last) + 1} of {len(OBJECTIVES) + 1}: {twin.objective}")
            by_task = edges_against_dense(twin.place, given.n)
            edges = {f"{fact} {task}": value for task, row in by_task.items() for fact, value in row.items()}
            last.append({**twin.row(), **where_edges_lead(twin.place), **edges})
    text, picture = table(last), given.out / "objectives.png"
    by_place = {(row["objective"], row["target"]): row for row in last}
    rows = [{**twin.row(), **by_place.get((twin.objective, twin.target), {})} for twin in found]
    given.out.joinpath("objectives.csv").write_text(csv_text(rows, list(last[0])), encoding="utf-8")
    given.out.joinpath("objectives.md").write_text(text, encoding="utf-8")
    draw(found, last).savefig(picture, dpi=150, metadata={"Software": None})
    if given.docs:
        for file in (picture, given.out / "objectives.csv"):
            shutil.copyfile(file, DOCS / "figures" / file.name)
        page = DOCS / "studies" / "sparsify.md"
        page.write_text(PAGE.sub(lambda match: match[1] + text + match[2], page.read_text()))
    print(text)


if __name__ == "__main__":
    main()
