"""What scores, sweeps and circuits cost, in multiples of one Hugging Face forward of the same prompts, and their peak
of memory beyond the model.

Baseline and candidate run in turns in one process, so that whatever else the machine does hits both; the table shows
the median of the ratios. Absolute times are not shown: they are of one machine on one day. Peaks are taken in a process
of their own each, so that no memory is used again that another job has left.

    python benchmarks/costs.py              all tables, which go to RESULTS.md
    python benchmarks/costs.py gpt2         one table, which takes its place there
    python benchmarks/costs.py gpt2 eap     one or more jobs of one table, printed only
"""

import argparse
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import answers
import clicks
import gates
import learning
import peers
import places
import psutil
import torch
import training
import transformers
from transformers import GPT2Config, GPT2LMHeadModel

import headcount as hc
from headcount.edit import Filler, head_values
from headcount.meters import CircuitMeter, HeadMeter

ROUNDS = 7
THREADS = 2
POINTS = 24
RESULTS = Path(__file__).parent / "RESULTS.md"


@dataclass(frozen=True)
class Bench:
    """A model and prompts of one length, so that the baseline needs no padding."""

    model: hc.Model
    pairs: list[hc.Pair]
    prompts: str
    baseline: str = "one forward"

    @property
    def task(self) -> hc.Task:
        return hc.Task("bench", "Bench", "logit_diff", tuple(self.pairs), tuple(self.pairs))

    @property
    def ids(self) -> torch.Tensor:
        return torch.tensor([pair.clean for pair in self.pairs])

    @torch.no_grad()
    def forward(self) -> None:
        """The same prompts through Hugging Face, asking for the last position's logits only."""
        self.model.hf(input_ids=self.ids, logits_to_keep=1, use_cache=False)


def gpt2(differ_from: int = 0) -> Bench:
    """GPT-2 small's shape with random weights, 8 x 16 tokens; the prompts of a pair differ from some token on."""
    torch.manual_seed(0)
    model = hc.load(GPT2LMHeadModel(GPT2Config()), name="GPT-2 small size")
    clean, corrupt = torch.randint(50_000, (2, 8, 16)).tolist()
    for one, other in zip(clean, corrupt, strict=True):
        other[:differ_from], other[-1] = one[:differ_from], one[-1]
    pairs = [hc.Pair(tuple(a), tuple(b), (1,), (2,)) for a, b in zip(clean, corrupt, strict=True)]
    where = "all of them differ" if not differ_from else f"the first {differ_from} alike"
    return Bench(model, pairs, f"8 x 16 tokens, {where}")


def smollm2() -> Bench:
    model = hc.load("smollm2")
    pairs = hc.task("ioi", model, n=200).test
    lengths = [len(pair.clean) for pair in pairs]
    common = max(set(lengths), key=lengths.count)
    chosen = [pair for pair in pairs if len(pair.clean) == common][:8]
    return Bench(model, chosen, f"{len(chosen)} x {common} tokens of ioi")


AnyBench = (
    Bench | gates.GateBench | answers.AnswersBench | training.TrainingBench | clicks.ClicksBench | places.PlacesBench
)
OTHERS = {
    gates.GateBench: gates.jobs_of,
    answers.AnswersBench: answers.jobs_of,
    clicks.ClicksBench: clicks.jobs_of,
    training.TrainingBench: training.jobs_of,
    places.PlacesBench: places.jobs_of,
}
BENCHES: dict[str, Callable[[], AnyBench]] = {
    "gpt2": gpt2,
    "gpt2-half": lambda: gpt2(8),
    "smollm2": smollm2,
    "gpt2-gates": gates.gpt2_gates,
    "smollm2-gates": gates.smollm2_gates,
    "gpt2-answers": answers.gpt2_answers,
    "smollm2-answers": answers.smollm2_answers,
    "gpt2-clicks": clicks.gpt2_clicks,
    "smollm2-clicks": clicks.smollm2_clicks,
    "gpt2-training": training.gpt2_training,
    "smollm2-training": training.smollm2_training,
    "tiny-places": places.tiny_places,
}


@dataclass(frozen=True)
class Job:
    name: str
    what: str
    goal: str
    share: float
    """Of the run that counts as one: a run of 24 points is 24 times one."""
    run: Callable[[], object]


def jobs_of(bench: AnyBench) -> Iterator[Job]:
    if not isinstance(bench, Bench):
        yield from (Job(*entry) for entry in OTHERS[type(bench)](bench))
        return
    model, pairs, task = bench.model, bench.pairs, bench.task
    filler = Filler.prepare(model, "counterfactual", examples=pairs, reference=pairs)
    keeps = torch.rand(POINTS, model.n_layers, model.n_heads, generator=torch.Generator().manual_seed(0)) > 0.5
    yield Job("values", "save every head's value", "–", 1, lambda: head_values(model, bench.ids))
    yield Job(
        "sweep", f"a point of a head sweep ({POINTS} with their set-up)", "1.05", POINTS,
        lambda: HeadMeter(model, pairs, filler).measure(keeps),
    )  # fmt: skip
    yield Job("attribution", "attribution, all heads", "–", 1, lambda: hc.score(model, task, "attribution"))
    yield Job("eap", "EAP, all edges", "4", 1, lambda: hc.score(model, task, "eap"))
    yield Job("eap-ig", "EAP-IG with 5 steps, all edges", "12", 1, lambda: hc.score(model, task, "eap-ig", steps=5))
    yield Job("eap-eg", "EAP with expected gradients, all edges", "4", 1, lambda: hc.score(model, task, "eap-eg"))
    yield Job("eap-gim", "EAP by backward rules (GIM), all edges", "4.4", 1, lambda: hc.score(model, task, "eap-gim"))
    for share, goal in ((0.001, "0.8"), (0.01, "0.8"), (0.1, "1.5"), (0.5, "1.5"), (1, "1.5")):
        circuit = _Circuits(bench, share)
        yield Job(f"circuit-{share:g}", f"a circuit of {share:.1%} of the edges, one of 4", goal, 4, circuit.four)
    yield Job("circuit-alone", "a circuit of 1.0% of the edges, alone", "–", 1, _Circuits(bench, 0.01).one)
    if "alike" not in bench.prompts:  # once a model
        yield from (Job(*entry) for entry in learning.jobs_of(bench.model, bench.pairs))
        yield from (Job(*entry) for entry in peers.jobs_of(bench.model, bench.pairs))


class _Circuits:
    """A circuit of the best edges by EAP; the base run is made ready once, as in a sweep."""

    def __init__(self, bench: Bench, share: float) -> None:
        self.bench, self.share = bench, share
        self.meter: CircuitMeter | None = None

    def _ready(self) -> tuple[CircuitMeter, torch.Tensor]:
        if self.meter is None:
            scores = hc.score(self.bench.model, self.bench.task, "eap")
            self.keep = torch.from_numpy(scores.circuit(round(self.share * scores.graph.n_edges)).keep)[None]
            self.meter = CircuitMeter(self.bench.model, self.bench.pairs)
        return self.meter, self.keep

    def one(self) -> None:
        meter, keep = self._ready()
        meter.measure(keep)

    def four(self) -> None:
        meter, keep = self._ready()
        meter.measure(keep.repeat(4, 1, 1))


# ---------------------------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True)
class Row:
    model: str
    baseline: str
    what: str
    prompts: str
    ratio: float
    low: float
    high: float
    goal: str
    peak: int


def compare(baseline: Callable[[], object], job: Job) -> tuple[float, float, float]:
    """Median, lowest and highest ratio of a job to the baseline, in turns."""
    ratios = []
    baseline()
    job.run()
    rounds = max(3, min(ROUNDS, int(20 / seconds(job.run))))  # fewer for what takes long
    for _ in range(rounds):
        before = seconds(baseline)
        taken = seconds(job.run)
        # The baseline on both sides of the candidate: a machine that slows down midway is noticed.
        ratios.append(taken / job.share / ((before + seconds(baseline)) / 2))
    return statistics.median(ratios), min(ratios), max(ratios)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_of(bench: AnyBench, job: Job) -> int:
    """Bytes beyond what the process holds with the model loaded and one forward done."""
    bench.forward()
    process, most, running = psutil.Process(), 0, True
    before = process.memory_info().rss

    def watch() -> None:
        nonlocal most
        while running:
            most = max(most, process.memory_info().rss)
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    job.run()
    running = False
    watcher.join()
    return max(most - before, 0)


def peak_elsewhere(bench: str, job: str) -> int:
    command = [sys.executable, __file__, bench, job, "--peak"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def measure(name: str, wanted: list[str]) -> Iterator[Row]:
    bench = BENCHES[name]()
    for job in jobs_of(bench):
        if wanted and job.name not in wanted:
            continue
        # Goals of scores and circuits are set for GPT-2 small's size, those of gates and answers for every model.
        goal = job.goal if name.startswith("gpt2") or not isinstance(bench, Bench) else "–"
        row = Row(bench.model.name, bench.baseline, job.what, bench.prompts, *compare(bench.forward, job), goal, 0)
        row = Row(**{**vars(row), "peak": peak_elsewhere(name, job.name)})
        span = f"{row.ratio:.2f} ({row.low:.2f} to {row.high:.2f})"
        print(f"{row.model}, {row.prompts}: {row.what}: {span}, {row.peak / 1e9:.2f} GB", flush=True)
        yield row


HEAD = f"""# What it costs

In multiples of one Hugging Face forward of the same prompts (last position's logits only), or of what the table says,
measured in turns in one process: median of 3 to {ROUNDS} rounds, lowest and highest in brackets. The peak of memory is
what a process of its own held beyond the loaded model. `make bench` writes this, or one table of it, each with its
date.
"""
FOOT = """## Notes

A point costs less than a forward where many cuts share one: larger batches use the CPU better, positions that no cut
can reach are run once, and only the answer's row is unembedded. Circuits are of the best edges by EAP; a model with
random weights spreads them over all of its layers. The other tools were given the same model and prompts;
TransformerLens takes one pair at a time, so its figure is that of one pair against an eighth of the forward. Their
peaks include the copy of the model that they wrap. Gates are measured against a plain forward with all logits and a
backward to the embeddings, weights frozen; they cost less because only the target's positions are unembedded. Answers
are measured against `generate` on the same batch, writing as many tokens; they cost less where many cuts share the
prompt, which is read once, and where keys and values of grouped-query attention need not be copied. A step of
post-training also runs the dense model on its batch, whose loss is the bound. A click is measured from its request to
its answer over the switchboard's own server; layers before the first cut are not run again. Studies elsewhere are
measured with workers that are there already, one thread each.
"""


def threads_in_words() -> str:
    count = torch.get_num_threads()
    return "1 CPU thread" if count == 1 else f"{count} CPU threads"


def table(rows: list[Row]) -> str:
    """One section of the report."""
    first, of_peers = rows[0], any(row.what.startswith(peers.NAMES) for row in rows)
    lines = [
        f"## {first.model}, {first.prompts}",
        "",
        f"{date.today().isoformat()}, headcount {hc.__version__}, torch {torch.__version__}, transformers"
        f" {transformers.__version__}, {f'{peers.versions()}, ' * of_peers}Python {platform.python_version()},"
        f" {threads_in_words()}, float32.",
        "",
        f"| what | × {first.baseline} | goal | peak, GB |",
        "|---|---|---|---|",
    ]
    for row in rows:
        ratio = f"**{row.ratio:.2f}** ({row.low:.2f} to {row.high:.2f})"
        lines.append(f"| {row.what} | {ratio} | {row.goal} | {row.peak / 1e9:.2f} |")
    return "\n".join([*lines, ""])


def renew(made: str) -> None:
    """Put a table in the place of the one with its heading, or behind all others."""
    written = RESULTS.read_text() if RESULTS.exists() else ""
    tables = [f"## {part}".rstrip() + "\n" for part in written.split("\n## ")[1:]]
    tables = [part for part in tables if part.partition("\n")[0] != "## Notes"]
    headings = [part.partition("\n")[0] for part in tables]
    heading = made.partition("\n")[0]
    if heading in headings:
        tables[headings.index(heading)] = made
    else:
        tables.append(made)
    RESULTS.write_text("\n".join([HEAD, *tables, FOOT]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", nargs="?", choices=list(BENCHES))
    parser.add_argument("jobs", nargs="*")
    parser.add_argument("--peak", action="store_true", help="print the peak of memory of one job, in bytes")
    asked = parser.parse_args()
    torch.set_num_threads(THREADS)
    if asked.peak:
        bench = BENCHES[asked.bench]()
        (job,) = (job for job in jobs_of(bench) if job.name == asked.jobs[0])
        print(peak_of(bench, job))
        return
    for name in [asked.bench] if asked.bench else BENCHES:
        torch.set_num_threads(THREADS)
        rows = list(measure(name, asked.jobs))
        if not asked.jobs:
            renew(table(rows))
            print(f"Written to {RESULTS}.")


if __name__ == "__main__":
    main()
