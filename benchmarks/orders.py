"""How many heads each order needs, and what the order `best` pays for its choice.

    python benchmarks/orders.py                                           tiny, four tasks, three seeds
    python benchmarks/orders.py --models smollm2 --tasks ioi --seeds 0 1

Heads are ranked on the train prompts in one pass and measured on the test prompts: in the plain orders, in every mix of
them, and in `best`. The fewest over all mixes, picked with the test prompts in sight, is what no choice can beat.
Prints one row of a Markdown table per model, task and seed; ORDERS.md has what was printed.
"""

import argparse

import headcount as hc
from headcount.sweeps.mix import MIXES

TASKS = ("greater-than", "ioi", "docstring", "ioi-long")
COLUMNS = ("model", "task", "seed", "absolute", "signed", "best", "mix", "fewest", "forwards for the choice", "ratio")


def counts(curve: hc.Curve) -> str:
    """Heads needed, and in brackets those with which the threshold is reached, where these are fewer."""
    needed, reached = (curve.first_k(0.9, aim) for aim in ("faithful", "reached"))
    return f"{needed}" if needed == reached else f"{needed} ({reached})"


def row(model: hc.Model, name: str, seed: int, n: int) -> tuple[object, ...]:
    task = hc.task(name, model, n=n, seed=seed)
    scores = hc.score(model, task, "attribution-ig")
    found, runs = dict[str, hc.Curve](), dict[str, int]()
    for order in ("absolute", "signed", "best"):
        paid = list[int]()
        found[order] = hc.sweep(model, task, scores, keep=order, points=12, precision=0.05, advance=paid.append)
        runs[order] = sum(paid)
    sets = {mix: scores.order("best", mix) for mix in MIXES if mix not in (0.0, 1.0)}
    between = [hc.sweep(model, task, placed(scores, order), points=12, precision=0.05) for order in sets.values()]
    fewest = min(curve.first_k(0.9) or model.head_count for curve in (*found.values(), *between))
    best = found["best"]
    own = len(best.ks) * best.pairs  # of the sweep itself
    choice = runs["best"] - own
    told = [counts(found[order]) for order in ("absolute", "signed", "best")]
    return model.name, name, seed, *told, best.mix, fewest, choice, f"{choice / own:.2f}"


def placed(scores: hc.HeadScores, order: list[tuple[int, int]]) -> hc.HeadScores:
    """Scores whose absolute order is a given one."""
    by_pair = scores.by_pair[:1].copy()
    for place, head in enumerate(order):
        by_pair[0][head] = len(order) - place
    return hc.HeadScores(scores.model, scores.task, scores.method, scores.metric, by_pair, signed=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["tiny"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("-n", type=int, default=40, help="prompts, half of them for each split")
    asked = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for named in asked.models:
        loaded = hc.load(named)
        for task_name in asked.tasks:
            for number in asked.seeds:
                print(f"| {' | '.join(map(str, row(loaded, task_name, number, asked.n)))} |", flush=True)
