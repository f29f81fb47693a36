"""What scores, sweeps and circuits cost, in multiples of one Hugging Face forward of the same prompts.

Baseline and candidate run in turns in one process, so that whatever else the machine does hits both; the table shows
the median of the ratios. Absolute times are not shown: they are of one machine on one day.
"""

import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel

import headcount as hc
from headcount.circuits import CircuitMeter
from headcount.cuts import Filler
from headcount.measure import Meter

ROUNDS = 7
THREADS = 2
POINTS = 24
RESULTS = Path(__file__).parent / "RESULTS.md"


@dataclass
class Row:
    what: str
    prompts: str
    ratio: float
    low: float
    high: float
    goal: str


def main() -> None:
    torch.set_num_threads(THREADS)
    rows = []
    for model, pairs, prompts in (gpt2_small(), smollm2()):
        rows += bench(model, pairs, prompts)
    text = report(rows)
    RESULTS.write_text(text)
    print(text)


def gpt2_small() -> tuple[hc.Model, list[hc.Pair], str]:
    """GPT-2 small's shape with random weights, 8 x 16 tokens; the prompts of a pair differ from the first token on."""
    torch.manual_seed(0)
    model = hc.load(GPT2LMHeadModel(GPT2Config()), name="GPT-2 small size")
    clean, corrupt = torch.randint(50000, (2, 8, 16)).tolist()
    for one, other in zip(clean, corrupt, strict=True):
        other[-1] = one[-1]
    pairs = [hc.Pair(tuple(a), tuple(b), (1,), (2,)) for a, b in zip(clean, corrupt, strict=True)]
    return model, pairs, "8 x 16 tokens"


def smollm2() -> tuple[hc.Model, list[hc.Pair], str]:
    """Real prompts of one length, so that the baseline needs no padding."""
    model = hc.load("smollm2")
    pairs = hc.task("ioi", model, n=200).test
    lengths = [len(pair.clean) for pair in pairs]
    common = max(set(lengths), key=lengths.count)
    chosen = [pair for pair in pairs if len(pair.clean) == common][:8]
    return model, chosen, f"{len(chosen)} x {common} tokens of ioi"


def bench(model: hc.Model, pairs: list[hc.Pair], prompts: str) -> list[Row]:
    ids = torch.tensor([pair.clean for pair in pairs])
    task = hc.Task("bench", "Bench", "logit_diff", tuple(pairs), tuple(pairs))
    filler = Filler.prepare(model, "counterfactual", pairs=pairs, reference=pairs)
    keeps = torch.rand(POINTS, model.n_layers, model.n_heads, generator=torch.Generator().manual_seed(0)) > 0.5
    ready = Meter(model, pairs, filler)
    ready.measure(keeps[:1])

    def forward() -> None:
        """The same prompts through Hugging Face, asking for the last position's logits only."""
        with torch.no_grad():
            model.hf(input_ids=ids, logits_to_keep=1, use_cache=False)

    heads = model.head_count
    candidates: list[tuple[str, int, Callable[[], object], str]] = [
        ("one cut, alone", 1, lambda: ready.measure(keeps[:1]), "1.05"),
        (
            f"a sweep's point, {POINTS} points with their set-up",
            POINTS,
            lambda: sweep_once(model, pairs, filler, keeps),
            "1.05",
        ),
        (f"exact patching, a forward of its {heads} masks", heads, lambda: hc.score(model, task, "patching"), "1.1"),
        ("attribution, all heads", 1, lambda: hc.score(model, task, "attribution"), "–"),
        ("EAP, all edges", 1, lambda: hc.score(model, task, "eap"), "4"),
        ("EAP-IG with 5 steps, all edges", 1, lambda: hc.score(model, task, "eap-ig", steps=5), "12"),
        *circuits(model, task),
    ]
    return [
        Row(f"{model.name}: {what}", prompts, *compare(forward, run, share), goal)
        for what, share, run, goal in candidates
    ]


def circuits(model: hc.Model, task: hc.Task) -> list[tuple[str, int, Callable[[], object], str]]:
    """One circuit of the best edges; its counterfactual run is shared by four that are measured together."""
    scores = hc.score(model, task, "eap")
    meter = CircuitMeter(model, task.test)
    order, graph = scores.order(), scores.graph
    found = []
    for share, goal in ((0.001, "0.8"), (0.01, "0.8"), (0.1, "1.5"), (1, "1.5")):
        keep = torch.zeros(graph.real.shape, dtype=torch.bool)
        for writer, reader in order[: round(share * graph.n_edges)]:
            keep[writer, reader] = True
        keeps = keep.repeat(4, 1, 1)
        found.append((f"a circuit of {share:.1%} of the edges", 4, lambda keeps=keeps: meter.measure(keeps), goal))
    return found


def sweep_once(model: hc.Model, pairs: list[hc.Pair], filler: Filler, keeps: torch.Tensor) -> None:
    Meter(model, pairs, filler).measure(keeps)


def compare(baseline: Callable[[], object], candidate: Callable[[], object], share: int) -> tuple[float, float, float]:
    """Median, lowest and highest ratio of `candidate` / `share` to `baseline`, in turns."""
    ratios = []
    baseline()
    rounds = max(3, min(ROUNDS, int(20 / seconds(candidate))))  # fewer for what takes long
    for _ in range(rounds):
        before = seconds(baseline)
        taken = seconds(candidate)
        # The baseline on both sides of the candidate: a machine that slows down midway is noticed.
        ratios.append(taken / share / ((before + seconds(baseline)) / 2))
    return statistics.median(ratios), min(ratios), max(ratios)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def report(rows: list[Row]) -> str:
    lines = [
        "# What it costs",
        "",
        "In multiples of one Hugging Face forward of the same prompts (last position's logits only), measured in turns",
        f"in one process: median of 3 to {ROUNDS} rounds, lowest and highest in brackets. `make bench` writes this.",
        "",
        f"{date.today().isoformat()}, headcount {hc.__version__}, torch {torch.__version__}, transformers"
        f" {transformers.__version__}, Python {platform.python_version()}, {THREADS} CPU threads, float32.",
        "",
        "| what | prompts | × one forward | goal |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row.what} | {row.prompts} | **{row.ratio:.2f}** ({row.low:.2f} to {row.high:.2f}) | {row.goal} |"
        for row in rows
    ]
    lines += [
        "",
        "A point costs less than a forward where many cuts share one: larger batches use the CPU better, positions",
        "that no cut can reach are run once, and only the answer's row is unembedded.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
