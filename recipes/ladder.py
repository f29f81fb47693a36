"""A ladder of twins of `tiny` or smollm2, with what each of them needs: loss, accuracy and attention edges against
density.

    python recipes/ladder.py --out ladder                           tiny: about half an hour on one core
    python recipes/ladder.py --out ladder --steps 400 --sinks       shorter, with an explicit sink in every head
    python recipes/ladder.py --out ladder --model smollm2 --text text    that of smollm2-sparse: hours

Trains it (an interrupted run resumes), measures how many attention edges each twin needs under zero fill, and writes
`ladder-needed.png`, `ladder-needed.csv` and a table into the folder; with `--docs` figure and table into the docs.
smollm2's text is what recipes/smollm2_text.py wrote.
"""

import argparse
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
from tiny import LENGTH, SPARSE, TASKS, write_text

import headcount as hc
from headcount.core.saving import csv_text
from headcount.models.gated_folder import is_unfinished
from headcount.sparse.ladder import draw_ladder, evaluation_of, rungs

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PLACE = DOCS / "studies" / "sparsify.md", r"(<!-- ladder: {model} -->\n).*?(<!-- end -->)"
DISTILLED = {
    "batch": 4,
    "length": 256,
    "pieces": (64,),
    "products": "bfloat16",
    "lora": 7,
    "lora_on": "layers",
    "kl": 1.0,
    "sharpness": 3.0,
    "start": -4.0,
    "cooldown": 0.25,
    "evaluate_sequences": 240,
}
RECIPES: dict[str, list[dict[str, Any]]] = {
    "tiny": [
        {
            **SPARSE,
            "steps": 1200,
            "batch": 16,
            "length": LENGTH,
            "evaluate_sequences": 400,
            "target_open": (0.05, 0.02, 0.01, 0.005),
        }
    ],
    "smollm2": [
        {**DISTILLED, "steps": 1050, "lr": 0.002, "target_open": (0.005,)},
        {**DISTILLED, "steps": 620, "lr": 0.0015, "target_open": (0.0025,), "sinks": True, "seed": 1},
        {**DISTILLED, "steps": 1100, "lr": 0.0015, "target_open": (0.0015,), "sinks": True, "seed": 2, "cooldown": 0.4},
    ],
}
"""Runs of which each goes on from the one before, and the shares that their twins are to have."""
LAST_ALONE = ("parameters.jsonl",)
"""Text that only the last run reads, and is tried on."""


def mixture(place: Path, recipe: hc.Recipe) -> list[str]:
    """tiny's text, generated where it is not there yet."""
    return [str(place) if place.exists() else write_text(place, seed=500_000 + recipe.seed, count=100_000)]


def train(model: str, out: Path, recipe: hc.Recipe, text: list[str], start_from: Path | None = None) -> None:
    if not (out / "ladder.csv").exists() or is_unfinished(out):
        hc.sparsify(model, text, out, recipe, tasks=TASKS, start_from=start_from, device="cpu")


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


def table(dense: str, twins: Mapping[float, hc.Evaluation], counts: Mapping[str, Sequence[float]]) -> str:
    """A line a model in Markdown: what it is on held-out text, and on the prompts of every task."""
    length = next(iter(twins.values())).length
    head = [
        "open edges aimed for", "found", f"keys per query (T = {length})", "empty rows", "loss",
        *(f"`{task}`: accuracy, keys per query, empty rows, edges needed" for task in TASKS),
    ]  # fmt: skip
    first = next(iter(twins.values())).by_task
    lines = [head, ["---"] * len(head)]
    lines.append([dense, *["–"] * 4, *(f"{first[task]['dense_accuracy']:.0%}, {counts[task][0]:,}" for task in TASKS)])
    for at, (target, found) in enumerate(twins.items(), 1):
        on = [
            f"{of['accuracy']:.0%}, {of['keys_a_query']:.2f}, {of['empty_rows']:.0%}, {counts[task][at]:,}"
            for task, of in ((task, found.by_task[task]) for task in TASKS)
        ]
        said = f"{found.open_share:.2%}", f"{found.keys_a_query:.2f}", f"{found.empty_rows:.0%}"
        lines.append([f"{target:.2%}", *said, f"{found.relative_loss:+.2%}", *on])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", choices=RECIPES, default="tiny")
    parser.add_argument("--text", type=Path, help="a folder; tiny's text is generated")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--sinks", action="store_true")
    parser.add_argument("--row-cost", type=float, default=0.0)
    parser.add_argument("-n", type=int, default=24, help="prompts of a task, half of them measured")
    parser.add_argument("--docs", action="store_true", help="put figure and table into the docs")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.model != "tiny" and not given.text:
        parser.error(f"--model {given.model} needs --text")
    changes = {"sinks": True} if given.sinks else {}
    changes |= {"row_cost": given.row_cost} if given.row_cost else {}
    changes |= {"steps": given.steps} if given.steps else {}
    recipes = [hc.Recipe(**{**settings, **changes}) for settings in RECIPES[given.model]]
    text = given.out.parent / "mixture.jsonl"
    files = sorted(map(str, given.text.iterdir())) if given.text else mixture(text, recipes[0])
    places, before = dict[float, Path](), None
    for number, recipe in enumerate(recipes, 1):
        place = given.out if len(recipes) == 1 else given.out / f"run-{number}"
        read = [file for file in files if number == len(recipes) or Path(file).name not in LAST_ALONE]
        train(given.model, place, recipe, read, start_from=before)
        places, before = places | rungs(place, recipe), place
    evaluated = {share: evaluation_of(place) for share, place in places.items()}
    counts = needed([given.model, *map(str, places.values())], given.n)
    draw_ladder(list(evaluated.values()), counts, "attention edges").savefig(given.out / "ladder-needed.png", dpi=150)
    models = [given.model, *map(str, places)]
    rows = [{"model": name, **{task: each[at] for task, each in counts.items()}} for at, name in enumerate(models)]
    (given.out / "ladder-needed.csv").write_text(csv_text(rows), encoding="utf-8")
    text = table(given.model, evaluated, counts)
    print(text)
    if given.docs:
        shutil.copyfile(given.out / "ladder-needed.png", DOCS / "figures" / f"{given.model}-ladder.png")
        steps = ", ".join(str(recipe.steps) for recipe in recipes)
        run = f"{steps} steps, {given.n // 2} test prompts a task, headcount {hc.__version__}, {date.today()}"
        block = f"*`python recipes/ladder.py --model {given.model}`: {run}.*\n\n{text}"
        place = re.compile(PLACE.format(model=given.model), re.DOTALL)
        PAGE.write_text(place.sub(lambda match: match[1] + block + match[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
