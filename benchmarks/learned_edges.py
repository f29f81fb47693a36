"""How many fewer edges does a learned ranking need than the integrated gradient, seed by seed?

    python benchmarks/learned_edges.py                                      tiny, four tasks, five seeds
    python benchmarks/learned_edges.py --models smollm2 --tasks ioi -n 60   more; what is measured is not run again

Each run draws its prompts anew, ranks on one half of them, and counts on the other half: `edge-learned`, and `eap-ig`
in both of its orders. Needed are the edges from which the effect is within 0.1 of the whole model's (faithful), or at
least 0.9 of it (reached).
"""

import argparse
import itertools
import statistics
import tempfile
from collections import defaultdict
from datetime import date
from pathlib import Path

from growing import Row, grow

import headcount as hc

PAGE = Path(__file__).parent / "LEARNED_EDGES.md"
TASKS = ("greater-than", "ioi", "docstring", "ioi-long")
ASKED = ("model", "task", "n", "share", "seed", "version")
RUNS = {"learned": ("edge-learned", "absolute"), "absolute": ("eap-ig", "absolute"), "signed": ("eap-ig", "signed")}
"""Columns, and the method and order of each."""
KINDS = ("needed", "needed_low", "needed_high", "reached")
HALF, MOST = 0.5, 0.8
HEAD = f"""# Learned rankings of edges, seed by seed

Edges needed for nine tenths of the effect, counterfactual fill, on as many test prompts as train prompts, run by run.
They are the faithful numbers: within 0.1 of the whole model's effect; ratios are of medians over runs, and those of
the edges at which 0.9 is first reached stand behind the semicolon. A cell is won where learned needs at most {HALF} of
the absolute order of `eap-ig` and at most {MOST} of the better of its two orders, faithful and reached.
`python benchmarks/learned_edges.py` writes this from `learned_edges.jsonl`.

| model | task | prompts | `edge-learned` | `eap-ig`, absolute | signed | of absolute | of the better | won | versions |
|---|---|---|---|---|---|---|---|---|---|
"""


def measure(model: str, task: str, n: int, share: float, seed: int, version: str) -> Row:
    """Edges needed by each of the runs; all edges where none suffice."""
    found: Row = {"date": date.today().isoformat()}
    for method in dict.fromkeys(method for method, _ in RUNS.values()):
        orders = {order: column for column, (by, order) in RUNS.items() if by == method}
        settings = {"method": method, "orders": list(orders), "n": n, "seed": seed, "precision": 0.02, "points": 16}
        if method == "edge-learned":
            settings["share"] = share
        with tempfile.TemporaryDirectory() as out:
            result = hc.run("edges-kept", models=[model], tasks=[task], out=out, overrides=settings, quiet=True)
        for entry in result.summary["curves"]:
            total = found["total"] = entry["total"]
            ends = (entry[kind] for kind in KINDS)
            found[orders[entry["order"]]] = [total if end is None else end for end in ends]
    return found


def report(rows: list[Row]) -> str:
    cells = defaultdict(list)
    for row in rows:
        cells[tuple(row[name] for name in ASKED if name != "seed")].append(row)
    return HEAD + "".join(_line(sorted(own, key=lambda row: row["seed"])) for _, own in sorted(cells.items()))


def _line(rows: list[Row]) -> str:
    told = [", ".join(f"{row[name][0]:,} ({row[name][1]:,} to {row[name][2]:,})" for row in rows) for name in RUNS]
    shares = []
    for kind in ("needed", "reached"):
        at = KINDS.index(kind)
        learned, *others = (statistics.median(row[name][at] for row in rows) for name in RUNS)
        shares.append((learned / others[0], learned / min(others)))
    won = "yes" if all(absolute <= HALF and better <= MOST for absolute, better in shares) else "no"
    ratios = ["; ".join(f"{share:.2f}" for share in each) for each in zip(*shares, strict=True)]
    of = rows[0]
    days = " to ".join(sorted({min(row["date"] for row in rows), max(row["date"] for row in rows)}))
    trained = "" if of["share"] == 1 else f", {of['share']:.0%} of the edges trained"
    cells = [of["model"], of["task"], f"{of['n']}{trained}", *told, *ratios, won]
    return f"| {' | '.join(cells)} | {of['version']}, {days} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["tiny"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("-n", type=int, default=200, help="prompts, half of them measured")
    parser.add_argument("--share", type=float, default=1.0, help="of the edges that are trained")
    given = parser.parse_args()
    wanted = itertools.product(given.seeds, given.models, given.tasks)
    asked = ((model, task, given.n, given.share, seed, hc.__version__) for seed, model, task in wanted)
    grow(PAGE, asked, ASKED, measure, report)


if __name__ == "__main__":
    main()
