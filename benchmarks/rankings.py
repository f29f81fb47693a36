"""How good every ranking is: every scoring method, on models with known circuits and on trained ones.

    python benchmarks/rankings.py                                      the small models, all methods
    python benchmarks/rankings.py --models smollm2 smollm2-sparse      others; what is known of the first ones stays
    python benchmarks/rankings.py --models tiny --tasks ioi --methods eap eap-ig --pairs 100

Each method scores the train pairs, and its orders are measured on the test pairs. A method that is done is a line of
rankings.jsonl, so that a run that was broken off goes on. A line is used again for as long as the model, the prompts,
the settings and the code are those that it was made with. RANKINGS.md is made of all lines.
"""

import argparse
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
import transformers
from cases import CASES, SMALL, Case
from ranking_lines import Line, Row, read_lines, write_lines
from rankings_report import report
from truth import Known, Truth

import headcount as hc
from headcount.core.keys import digest, package_source
from headcount.core.words import SCORE_ORDERS
from headcount.edit import Filler
from headcount.meters import HeadMeter
from headcount.models.wiring import find_graph
from headcount.rank.comparison import auroc
from headcount.rank.method import METHODS, Method
from headcount.sweeps.curve import MIB_SHARES
from headcount.sweeps.sweep import unit_grid

HERE = Path(__file__).parent
LINES, REPORT = HERE / "rankings.jsonl", HERE / "RANKINGS.md"
OWN_CODE = [(HERE / name).read_text() for name in ("rankings.py", "cases.py", "compiled.py", "truth.py")]
THRESHOLD = 0.9
STEPS = 5
SETTINGS: dict[str, dict[str, object]] = {"gating": {"fit": hc.QUICK}}
"""Of methods that would take too long as they run by default."""
SEARCHED = 64  # heads up to which all pairs of them are tried out


class Bench:
    """One model and task, on which methods are tried."""

    def __init__(self, case: Case, pairs: int, most_forwards: int) -> None:
        self.case, self.most_forwards = case, most_forwards
        self.model, self.task = case.model(), case.task(pairs)
        self.graph = find_graph(self.model)

    def state(self, method: Method) -> str:
        return digest([package_source(), method.source, OWN_CODE, self.model.facts(), self.task.fingerprint])

    def takes_too_long(self, method: Method) -> bool:
        return "E" in method.cost and self.graph.n_edges > self.most_forwards

    def still_holds(self, line: Line | None, method: Method) -> bool:
        """Whether a line need not be made again; one without numbers is, as soon as there is time for it."""
        done = line is not None and (bool(line.rows) or self.takes_too_long(method))
        return done and line.state == self.state(method)

    def line(self, method: Method) -> Line:
        true = self._true(method)
        facts = {"date": date.today().isoformat(), "headcount": hc.__version__, "torch": torch.__version__}
        facts |= {"transformers": transformers.__version__, "Python": platform.python_version()}
        line = Line(
            *(self.case.model_name, self.case.task_name, method.name, method.units, self.state(method), facts),
            pairs=len(self.task.train),
            total=self._total(method),
            true=None if true is None else int(true.sum()),
            best_two=self.best_two if method.units == "heads" else None,
        )
        if self.takes_too_long(method):
            return replace(line, reason=f"would take {self.graph.n_edges:,} forwards")
        told: list[int] = []
        given = {"steps": STEPS, "advance": told.append, **SETTINGS.get(method.name, {})}
        try:
            scores = hc.score(self.model, self.task, method.name, **given)
        except hc.HeadcountError as error:
            return replace(line, reason=str(error))
        except IndexError:
            return replace(line, reason="its prompts are longer than the model's context")
        return replace(line, rows=list(self._rows(method, scores, true)), forwards=sum(told) / line.pairs)

    def _rows(self, method: Method, scores: hc.HeadScores | hc.EdgeScores, true: Truth | None) -> Iterator[Row]:
        for order in SCORE_ORDERS if scores.signed else ("absolute",):
            curve = hc.sweep(self.model, self.task, scores, keep=order, ks=self._grid(method), threshold=THRESHOLD)
            values = scores.values[self.graph.real] if method.units == "edges" else scores.values
            # From units that are not true; a mix of two orders has no scores of its own.
            told = order != "best" and true is not None and not true.all()
            found = auroc(values if order == "signed" else np.abs(values), true) if told else None
            needed, two = curve.units_needed(THRESHOLD), curve.band().value[curve.ks.index(2)]
            areas = [tuple(curve.area(kind)) for kind in ("CPR", "CMD")]
            yield Row(order, found, (needed.value, needed.low, needed.high), *areas, float(two))

    def _total(self, method: Method) -> int:
        return self.graph.n_edges if method.units == "edges" else self.model.head_count

    def _grid(self, method: Method) -> list[int]:
        """As a sweep has it, with MIB's shares for heads too."""
        total = self._total(method)
        return sorted({1, 2, *unit_grid(method.units, total, None, 24), *(int(share * total) for share in MIB_SHARES)})

    @cached_property
    def known(self) -> Known | None:
        return None if self.case.known is None else self.case.known(self.task)

    def _true(self, method: Method) -> Truth | None:
        if self.known is None:
            return None
        return self.known.edges[self.graph.real] if method.units == "edges" else self.known.heads

    @cached_property
    def best_two(self) -> tuple[float, float] | None:
        """What is explained on the test pairs by the best head and by the best two: those that come nearest to 1, of
        all heads and all pairs of heads."""
        model, examples, heads = self.model, self.task.test, range(self.model.head_count)
        if len(heads) > SEARCHED:
            return None
        sets = [(), *combinations(heads, 1), *combinations(heads, 2), tuple(heads)]
        keeps = torch.zeros(len(sets), len(heads), dtype=torch.bool)
        for keep, kept in zip(keeps, sets, strict=True):
            keep[list(kept)] = True
        filler = Filler.prepare(model, "counterfactual", examples=examples, reference=examples)
        meter = HeadMeter(model, examples, filler)
        none, *some, whole = meter.measure(keeps.view(-1, model.n_layers, model.n_heads))[self.task.metric].mean(1)
        explained = (np.array(some) - none) / (whole - none)
        one, two = np.split(explained, [len(heads)])
        return tuple(float(part[np.abs(1 - part).argmin()]) for part in (one, two))


def measure(cases: Sequence[Case], methods: Sequence[Method], pairs: int, most_forwards: int) -> None:
    """Write a line for every method that has none which still holds."""
    kept = read_lines(LINES)
    with LINES.open("a") as file:
        for case in cases:
            bench = Bench(case, pairs, most_forwards)
            for method in methods:
                if bench.still_holds(kept.get((case.model_name, case.task_name, method.name)), method):
                    continue
                start = time.perf_counter()
                line = bench.line(method)
                file.write(line.written())
                file.flush()
                said = ", ".join(f"{row.order} {row.needed[0]}" for row in line.rows) or line.reason
                print(f"{' · '.join(line.place)}: {said} ({time.perf_counter() - start:.1f} s)", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    known = list(METHODS.sound())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(CASES), default=list(SMALL))
    parser.add_argument("--tasks", nargs="+", help="all of a model's by default")
    parser.add_argument("--methods", nargs="+", choices=known, default=known)
    parser.add_argument("--pairs", type=int, default=60, help="half of them to score on, half to measure on")
    parser.add_argument("--most-forwards", type=int, default=1000, help="exact edge patching is left out above it")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)  # small models gain nothing from more
    cases = [case for name in asked.models for case in CASES[name]()]
    chosen = [case for case in cases if asked.tasks is None or case.task_name in asked.tasks]
    measure(chosen, [METHODS[name] for name in asked.methods], asked.pairs, asked.most_forwards)
    models = list(CASES)
    lines = [line for line in read_lines(LINES).values() if line.model in models and line.method in known]
    lines.sort(key=lambda line: (models.index(line.model), known.index(line.method)))
    write_lines(LINES, lines)
    REPORT.write_text(report(lines))
    print(f"Written to {REPORT}.")


if __name__ == "__main__":
    main()
