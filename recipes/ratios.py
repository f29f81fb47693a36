"""How many times its twin's units a dense model needs, under every reading of "edges kept" and every fill.

    python recipes/ratios.py --out ratios                                           smollm2 and its twins: hours
    python recipes/ratios.py --out ratios --unit "attention edges" --fill zero      one reading
    python recipes/ratios.py --out ratios --models tiny tiny-sparse --docs ""       other models, docs left alone
    python recipes/ratios.py --out ratios --tabulate                                the table of what is measured

What is measured already is not measured again. `ratios.csv` has every number; the table of all that is there goes into
docs/sparse-ratios.md, between `<!-- ratios -->` and `<!-- end -->`, and the figure of attention edges under zeros
beside it.
"""

import argparse
import json
import re
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import torch
from tiny import TASKS

import headcount as hc
from headcount.core.progress import say
from headcount.core.saving import Row, csv_text

ONE_PASS = {"method": "one-pass", "orders": ["absolute"]}
UNITS: dict[str, tuple[str, dict[str, Any]]] = {
    "attention edges": ("attention-edges-kept", {"orders": ["absolute"]}),
    "edges, whole": ("edges-kept", {**ONE_PASS, "readers": "components"}),
    "edges, split": ("edges-kept", {**ONE_PASS, "readers": "kv-heads"}),
    "heads": ("heads-kept", {**ONE_PASS, "repeats": 1}),
}
FILLS = ("zero", "mean", "counterfactual")
PAGE = Path(__file__).parent.parent / "docs" / "sparse-ratios.md"
FIGURE = PAGE.parent / "figures" / "smollm2-attention-edges-zero.png"
PLACE = re.compile(r"(<!-- ratios -->\n).*?(<!-- end -->)", re.DOTALL)


def folder_of(out: Path, unit: str, fill: str) -> Path:
    return out / re.sub(r"\W+", "-", f"{unit} {fill}")


def measure(place: Path, unit: str, fill: str, models: list[str], n: int) -> None:
    study, settings = UNITS[unit]
    overrides = {**settings, "fill": fill, "n": n, "points": 12, "precision": 0.05}
    hc.run(study, models=models, tasks=TASKS, out=place, overrides=overrides)


def rows_of(place: Path, unit: str, fill: str, models: list[str]) -> Iterator[Row]:
    """One a task: what every model needs, and the dense one's ratio to every other."""
    summary = json.loads((place / "summary.json").read_text())
    for task in (one for one in TASKS if any(curve["task"] == one for curve in summary["curves"])):
        row: Row = {"unit": unit, "fill": fill, "task": task}
        for curve in (one for one in summary["curves"] if one["task"] == task):
            kinds = {"needed": "needed", "needed_low": "low", "needed_high": "high", "total": "total"}
            row |= {f"{name} {curve['model']}": curve[fact] for fact, name in kinds.items()}
        for ratio in (one for one in summary["ratios"] if one["task"] == task):
            pair, ends = (ratio["more"], ratio["fewer"]), (ratio["ratio"], ratio["ratio_low"], ratio["ratio_high"])
            if models[0] not in pair:
                continue
            if ratio["fewer"] == models[0]:
                ends = 1 / ends[0], 1 / ends[2], 1 / ends[1]
            twin = next(model for model in pair if model != models[0])
            row |= {f"{name} {twin}": end for name, end in zip(("ratio", "ratio low", "ratio high"), ends, strict=True)}
        yield row


def table(rows: list[Row], models: list[str]) -> str:
    """A row a unit, fill and task, in Markdown."""
    dense, *twins = models
    head = ["unit", "fill", "task", *models, *(f"{dense} / {twin}" for twin in twins)]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        counts = [_count(row, model) for model in models]
        ratios = [_ratio(row, twin) for twin in twins]
        lines.append([str(row["unit"]), str(row["fill"]), f"`{row['task']}`", *counts, *ratios])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _count(row: Row, model: str) -> str:
    needed, low, high = (row.get(f"{name} {model}") for name in ("needed", "low", "high"))
    return "not reached" if needed is None else f"{needed:,} ({low:,} to {high:,})"


def _ratio(row: Row, twin: str) -> str:
    ends = [row.get(f"{name} {twin}") for name in ("ratio", "ratio low", "ratio high")]
    return "–" if ends[0] is None else f"{ends[0]:.1f}x ({ends[1]:.1f} to {ends[2]:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=["smollm2", "smollm2-sparse"])
    parser.add_argument("--unit", nargs="+", choices=UNITS, default=list(UNITS))
    parser.add_argument("--fill", nargs="+", choices=FILLS, default=list(FILLS))
    parser.add_argument("-n", type=int, default=100, help="prompts of a task, half of them measured")
    parser.add_argument("--docs", default=str(PAGE), help="page with the table; empty for none")
    parser.add_argument("--tabulate", action="store_true", help="measure nothing, only make the table of what is there")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for unit in () if given.tabulate else given.unit:
        for fill in given.fill:
            say(f"{unit}, {fill} fill")
            measure(folder_of(given.out, unit, fill), unit, fill, given.models, given.n)
    rows = list[Row]()
    for unit in UNITS:
        for fill in FILLS:
            place = folder_of(given.out, unit, fill)
            if (place / "summary.json").exists():
                rows += rows_of(place, unit, fill, given.models)
    names = list(dict.fromkeys(name for row in rows for name in row))
    (given.out / "ratios.csv").write_text(csv_text(rows, names), encoding="utf-8")
    text = table(rows, given.models)
    print(text)
    if given.docs:
        shutil.copyfile(folder_of(given.out, "attention edges", "zero") / "figure.png", FIGURE)
        run = f"{given.n // 2} test prompts a task, headcount {hc.__version__}, {date.today()}"
        made = f"\n`python recipes/ratios.py`, {run}.\n\n"
        page = Path(given.docs)
        page.write_text(PLACE.sub(lambda match: match[1] + made + text + match[2], page.read_text()))


if __name__ == "__main__":
    main()
