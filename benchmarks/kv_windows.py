"""A full KV cache for the KV heads that retrieve, and a window for the others: is the needle still found?

    python benchmarks/kv_windows.py [smollm2]

Heads are scored by `retrieval` on train prompts of the task `needle`. On test prompts every KV head but the named ones
sees only the first tokens and the last ones, as with a streaming cache; the same with as many KV heads at random, many
times. What is measured is the log-probability of the code and whether all its tokens are the most probable ones. The
needle lies outside the windows, so that a head without a full cache cannot see it.
"""

import argparse
import json
from collections.abc import Sequence
from datetime import date

import numpy as np
import torch
from torch import Tensor

import headcount as hc
from headcount.edit.attention import visit_attention
from headcount.export.kv_cache import kv_needs
from headcount.models.gates import mixed
from headcount.models.wiring import kv_heads
from headcount.tasks.examples import Completion

SINK, RECENT = 4, 64


@torch.no_grad()
def found(model: hc.Model, examples: Sequence[Completion], full: Tensor) -> tuple[float, float]:
    """Mean log-probability of an answer's token, and the share of answers whose every token is the most probable;
    `full` is [layer, KV head], True for those that keep the full cache."""
    group = model.n_heads // full.shape[1]

    def visit(layer: int, weights: Tensor, value: Tensor) -> Tensor:
        queries, keys = (torch.arange(size) for size in weights.shape[-2:])
        near = (keys < SINK) | (keys > queries[:, None] - RECENT)
        seen = near | full[layer].repeat_interleave(group)[:, None, None]
        kept = weights * seen
        return mixed(kept / kept.sum(-1, keepdim=True), value)

    log_probs, right = [], []
    for example in examples:
        ids = torch.tensor([[*example.prompt, *example.target]])
        with visit_attention(model, visit):
            logits = model.logits(ids[:, :-1])[0, len(example.prompt) - 1 :]
        wanted = torch.tensor(example.target)
        log_probs.append(float(logits.log_softmax(-1).gather(-1, wanted[:, None]).mean()))
        right.append(bool((logits.argmax(-1) == wanted).all()))
    return float(np.mean(log_probs)), float(np.mean(right))


def compare(model: hc.Model, n: int, keep: int, draws: int) -> dict[str, object]:
    """Everything that the table has."""
    task = hc.task("needle", model, n=2 * n, seed=0)
    scores = hc.score(model, task, "retrieval")
    needs = kv_needs(scores.values, kv_heads(model.hf.config))
    order = np.argsort(-needs.ravel(), kind="stable")
    every, rng = np.arange(needs.size), np.random.default_rng(0)

    def measured(chosen: Sequence[int] | np.ndarray) -> tuple[float, float]:
        full = torch.zeros(needs.size, dtype=torch.bool)
        full[torch.as_tensor(np.asarray(chosen), dtype=torch.long)] = True
        return found(model, task.test, full.view(needs.shape))

    drawn = [measured(rng.choice(order[keep:], keep, replace=False)) for _ in range(draws)]
    return {
        "date": date.today().isoformat(), "model": model.name, "kv_heads": int(needs.size), "kept": keep, "prompts": n,
        "tokens": round(float(np.mean([len(example.prompt) for example in task.test]))), "sink": SINK, "recent": RECENT,
        "whole": measured(every), "named": measured(order[:keep]), "none": measured([]), "random": drawn,
        "first": [f"a{index // needs.shape[1]}.kv{index % needs.shape[1]}" for index in order[:keep].tolist()],
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("-n", type=int, default=12, help="prompts to score on, and as many to test on")
    parser.add_argument("--keep", type=int, default=18, help="KV heads with a full cache")
    parser.add_argument("--draws", type=int, default=5, help="random sets of as many others")
    asked = parser.parse_args()
    print(json.dumps(compare(hc.load(asked.model), asked.n, asked.keep, asked.draws), indent=1))
