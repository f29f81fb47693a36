"""A ladder of twins of `tiny`, with what each of them needs: loss, accuracy and attention edges against density.

    python recipes/ladder.py --out ladder                           about half an hour on one core
    python recipes/ladder.py --out ladder --steps 400 --sinks       shorter, with an explicit sink in every head

Trains it (an interrupted run resumes), measures how many attention edges each twin needs under zero fill, and writes
`ladder-needed.png` and `ladder-needed.csv` into the folder; with `--docs` the figure also into docs/figures.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from tiny import LENGTH, SPARSE, TASKS, write_text

import headcount as hc
from headcount.core.saving import csv_text
from headcount.models.gated_folder import is_unfinished
from headcount.sparse.ladder import draw_ladder, evaluation_of, rungs

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "tiny-ladder.png"
SHARES = (0.05, 0.02, 0.01, 0.005)


def train(out: Path, recipe: hc.Recipe, text: Path) -> None:
    if (out / "ladder.csv").exists() and not is_unfinished(out):
        return
    if not text.exists():
        write_text(text, seed=500_000 + recipe.seed, count=100_000)
    hc.sparsify("tiny", [str(text)], out, recipe, tasks=TASKS, device="cpu")


def summary(models: list[str], n: int) -> Any:
    """Of attention-edges-kept on the four tasks: what is needed for nine tenths of the effect, zero fill."""
    with tempfile.TemporaryDirectory() as scratch:
        settings = {"n": n, "orders": ["absolute"], "fill": "zero"}
        return hc.run("attention-edges-kept", models=models, tasks=TASKS, out=scratch, overrides=settings).summary


def needed(models: list[str], n: int) -> dict[str, list[float]]:
    """Attention edges that each task needs in each model; all edges where none suffice."""
    found: dict[str, list[float]] = {task: [] for task in TASKS}
    for entry in summary(models, n)["curves"]:
        found[entry["task"]].append(entry["needed"] or entry["total"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--sinks", action="store_true")
    parser.add_argument("--row-cost", type=float, default=0.0)
    parser.add_argument("-n", type=int, default=24, help="prompts of a task, half of them measured")
    parser.add_argument("--docs", action="store_true", help="put the figure into the docs")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    asked = {"steps": given.steps, "batch": 16, "length": LENGTH, "evaluate_sequences": 400, "target_open": SHARES}
    recipe = hc.Recipe(**{**SPARSE, **asked, "sinks": given.sinks, "row_cost": given.row_cost})
    train(given.out, recipe, given.out.parent / "mixture.jsonl")
    places = rungs(given.out, recipe)
    evaluated = [evaluation_of(place) for place in places.values()]
    counts = needed(["tiny", *map(str, places.values())], given.n)
    draw_ladder(evaluated, counts, "attention edges").savefig(given.out / "ladder-needed.png", dpi=150)
    if given.docs:
        shutil.copyfile(given.out / "ladder-needed.png", FIGURE)
    rows = [
        {"model": name, **{task: each[at] for task, each in counts.items()}}
        for at, name in enumerate(["tiny", *map(str, SHARES)])
    ]
    (given.out / "ladder-needed.csv").write_text(csv_text(rows), encoding="utf-8")
    print(csv_text(rows))


if __name__ == "__main__":
    main()
