"""The same question, the same answer? heads-kept with other seeds: other prompts, other rankings, other draws.

    python benchmarks/seeds.py                                         tiny, four tasks, eight seeds, whole and quick
    python benchmarks/seeds.py --models smollm2 --quick --seeds 0 1    more; what is in seeds.jsonl is not run again

Each run gives a number of heads and a 90 % interval. Of all runs of one model, task and setting, SEEDS.md tells the
spread (standard deviation / mean), and how often an interval holds the median of the other runs.
"""

import argparse
import itertools
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from growing import Row, grow

import headcount as hc

PAGE = Path(__file__).parent / "SEEDS.md"
TASKS = ("greater-than", "ioi", "docstring", "ioi-long")
APART = 100
"""Between the seeds of two runs: the repeats of one have the seeds that follow its own."""
ASKED = ("model", "task", "quick", "seed", "version")
HEAD = """# The same question, the same answer?

`headcount run heads-kept` with other seeds: other prompts, other rankings, other draws. A run states how many heads are
needed for nine tenths of the effect, with a 90 % interval. *Spread* is the standard deviation over runs, divided by
their mean; *held*, how many intervals hold the median of the other runs. Whole runs have 5 repeats of 50 train and
50 test prompts, quick ones 4 of 8 and 8. `python benchmarks/seeds.py` writes this from `seeds.jsonl`.

| model | task | setting | heads needed, run by run | spread | held | version, dates |
|---|---|---|---|---|---|---|
"""


def measure(model: str, task: str, quick: bool, seed: int, version: str) -> Row:
    with tempfile.TemporaryDirectory() as out:
        settings = {"orders": ["best"], "seed": APART * seed}
        result = hc.run(
            "heads-kept", models=[model], tasks=[task], quick=quick, out=out, overrides=settings, quiet=True
        )
        (entry,) = result.summary["curves"]
    total = entry["total"]
    ends = {name: entry[name] or total for name in ("needed", "needed_low", "needed_high")}
    return {**ends, "total": total, "date": date.today().isoformat()}


def report(rows: Iterable[dict[str, Any]]) -> str:
    cells = defaultdict(list)
    for row in rows:
        cells[row["model"], row["task"], row["quick"], row["version"]].append(row)
    return HEAD + "".join(_line(*cell, sorted(own, key=lambda row: row["seed"])) for cell, own in sorted(cells.items()))


def _line(model: str, task: str, quick: bool, version: str, rows: Sequence[dict[str, Any]]) -> str:
    needed = [row["needed"] for row in rows]
    told = ", ".join(f"{row['needed']} ({row['needed_low']} to {row['needed_high']})" for row in rows)
    spread = held = "–"
    if len(rows) > 2:
        spread = f"{statistics.stdev(needed) / statistics.mean(needed):.2f}"
        others = [statistics.median(needed[:at] + needed[at + 1 :]) for at in range(len(rows))]
        inside = [row["needed_low"] <= other <= row["needed_high"] for row, other in zip(rows, others, strict=True)]
        held = f"{sum(inside)} of {len(rows)}"
    days = " to ".join(sorted({min(row["date"] for row in rows), max(row["date"] for row in rows)}))
    of = f"{told}; of {rows[0]['total']}"
    return f"| {model} | {task} | {'quick' if quick else 'whole'} | {of} | {spread} | {held} | {version}, {days} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["tiny"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(8)))
    parser.add_argument("--quick", action=argparse.BooleanOptionalAction, help="one setting; both by default")
    given = parser.parse_args()
    settings = (True, False) if given.quick is None else (given.quick,)
    wanted = itertools.product(settings, given.seeds, given.models, given.tasks)
    asked = ((model, task, quick, seed, hc.__version__) for quick, seed, model, task in wanted)
    grow(PAGE, asked, ASKED, measure, report)


if __name__ == "__main__":
    main()
