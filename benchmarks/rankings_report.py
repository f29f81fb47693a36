"""RANKINGS.md from what `rankings.py` has measured, the best ranking for each budget included."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from ranking_lines import Line, Row

BUDGETS = (5, 20, 500, None)  # forwards of the scored prompts
ABOUT = """\
# How good the rankings are

Every scoring method, on models whose circuits are known and on trained ones. A method scores the train pairs; the order
that it gives is measured on as many test pairs, with counterfactual fill. `make rankings` writes this.
`docs/ground-truth.md` says what is known of which model, and how.

- **AUROC**: the chance that a unit of the true circuit stands before one that is not in it. 0.5 is chance; ties count
  half. Parts that work against the answer are true as well, and a signed order puts them last.
- **needed**: the fewest units with which 0.9 of the effect is there, with the 90 % interval over test prompts.
- **CPR**, **CMD**: MIB's areas, under explained effect (higher is better) and between it and 1 (lower is better).
- **two**: explained effect with the first two heads. Above each table stands that of the best two there are, found by
  trying out all on the test pairs.
- **forwards**: what scoring took, in forwards of the train prompts; a backward pass counts as one.
"""
CHOICE = """\
## Which one, for what it costs

How many times the units of the best ranking of a cell (one model and task) an order needs: the geometric mean over
cells, of orders that were measured on all of them. A threshold that is never reached counts as all units. AUROC is the
mean over cells; forwards are the most that a cell took.

| units | circuits | cells | forwards at most | the best | order | × the fewest | AUROC | forwards |
|---|---|---|---|---|---|---|---|---|"""


def report(lines: Sequence[Line]) -> str:
    kinds = product(("heads", "edges"), (True, False), BUDGETS)
    parts = [ABOUT, CHOICE, *(winner(lines, *kind) for kind in kinds)]
    for model in dict.fromkeys(line.model for line in lines):
        for units in ("heads", "edges"):
            parts += tables([line for line in lines if (line.model, line.units) == (model, units)])
    return re.sub(r"\n{3,}", "\n\n", "\n".join(filter(None, parts))).strip() + "\n"


def winner(lines: Sequence[Line], units: str, is_known: bool, budget: int | None) -> str:
    """The order that needs the fewest units among those within a budget of forwards, as a row; on models whose circuit
    is known, or on the others."""
    mine = [line for line in lines if line.units == units and line.rows and (line.true is not None) == is_known]
    cells = {line.place[:2] for line in mine}
    fewest = {
        cell: min(line.units_needed(row) for line in mine if line.place[:2] == cell for row in line.rows)
        for cell in cells
    }
    found: dict[tuple[str, str], list[tuple[Line, Row]]] = {}
    for line in mine:
        for row in line.rows:
            found.setdefault((line.method, row.order), []).append((line, row))
    rated = []
    for (method, order), measured in found.items():
        cost = max(line.forwards or 0 for line, _ in measured)
        if len(measured) < len(cells) or (budget is not None and cost > budget):
            continue
        ratios = [line.units_needed(row) / fewest[line.place[:2]] for line, row in measured]
        areas = [row.auroc for _, row in measured if row.auroc is not None and not math.isnan(row.auroc)]
        mean = float(np.exp(np.mean(np.log(ratios))))
        rated.append((mean, cost, method, order, float(np.mean(areas)) if areas else None))
    if not rated:
        return ""
    mean, cost, method, order, area = min(rated)
    limit = "any number" if budget is None else budget
    where = [units, "known" if is_known else "not known", len(cells), limit]
    what = [f"`{method}`", order, f"{mean:.2f}", number(area, 3), f"{cost:,.0f}"]
    return f"| {' | '.join(map(str, where + what))} |"


def tables(lines: Sequence[Line]) -> Iterator[str]:
    """Of one model and one kind of unit, a table a task, the best ranking first."""
    if not lines:
        return
    first = lines[0]
    yield f"\n## {first.model}, {first.total:,} {first.units}\n"
    for facts in dict.fromkeys(tuple(line.facts.items()) for line in lines):
        yield ", ".join(value if name == "date" else f"{name} {value}" for name, value in facts) + ".\n"
    for task in dict.fromkeys(line.task for line in lines):
        yield from _table([line for line in lines if line.task == task])


def _table(lines: Sequence[Line]) -> Iterator[str]:
    first = lines[0]
    is_known, of_heads = first.true is not None, first.best_two is not None
    said = [f"**{first.task}**, {first.pairs} train pairs"]
    if is_known:
        said.append(f"{first.true} {first.units} are true")
    if first.best_two is not None:
        said.append(f"explained by the best head {first.best_two[0]:.2f}, by the best two {first.best_two[1]:.2f}")
    names = ["method", "order", *["AUROC"] * is_known, "needed", "CPR", "CMD", *["two"] * of_heads, "forwards"]
    yield f"{'; '.join(said)}.\n\n| {' | '.join(names)} |\n|{'---|' * len(names)}"
    rows = [(line, row) for line in lines for row in line.rows]
    for line, row in sorted(rows, key=lambda pair: pair[0].units_needed(pair[1])):
        value, low, high = ("–" if k is None else f"{k:,}" for k in row.needed)
        cells = [line.method, row.order, *[number(row.auroc, 3)] * is_known, f"**{value}** ({low} to {high})"]
        cells += [number(row.cpr[0]), number(row.cmd[0]), *[number(row.with_two)] * of_heads, f"{line.forwards:,.0f}"]
        yield f"| {' | '.join(cells)} |"
    if left_out := [f"`{line.method}` ({line.reason})" for line in lines if line.reason]:
        yield f"\nLeft out: {', '.join(left_out)}."
    yield "\n"


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"
