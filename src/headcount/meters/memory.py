"""How much memory the analysis of edges needs beyond the model, told before it runs, from the model's config alone.

Per token, in numbers of the model's type (L layers, stream of width d, W writers, R' readers at once):

    scores      what all writers wrote                           W d
                gradients of some layers' readers                R' d
                what a backward pass keeps, a gradient point     L (6 d + 2 (q + 2 kv) + 3 m), 2 m if not gated
                norms' directions, a gradient point              (2 L + 1) 2 d
                both ends of the path                            3 L (q + d)
    circuits    what all writers wrote, a circuit                W d
                a base run                                       8 L d

with q and kv the features of queries and of keys or values, and m those of the MLP; and a fifth more, which holds what
was measured (`benchmarks/` shows the peaks). Nothing of size tokens x W x readers is ever made, so this grows with the
number of nodes, not of edges.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil
import torch
from transformers import PretrainedConfig

from ..core.errors import HeadcountError
from ..core.plain import quoted
from ..core.words import Readers
from ..edit.stream import SEEN_BYTES
from ..models import FAMILIES, Model
from ..models.graph import Graph
from ..models.wiring import graph_of_config
from ..tasks.examples import Example, Pair
from .meter import KEPT_BYTES, TOKENS_A_PASS

DEFAULT_MEMORY = 7 * 2**27
"""Bytes beyond the model, unless the user says otherwise: just below a gigabyte. Fixed, so that runs can be repeated
bit for bit; more would not be faster on a CPU."""
MARGIN = 1.2
MAX_TOKENS_A_BATCH = 1024
READERS_AT_ONCE = 48
"""Readers whose gradients are made in d_model together, about, but no fewer than a layer has."""
CIRCUIT_TOKENS = 512
"""Circuits share a forward pass up to this many tokens. More would not be faster."""


@dataclass(frozen=True)
class Sizes:
    """What memory depends on."""

    graph: Graph
    width: int
    query_features: int
    kv_features: int
    mlp_features: int
    gated: bool  # whether the MLP multiplies two projections
    vocabulary: int
    itemsize: int

    @classmethod
    def of_config(cls, config: PretrainedConfig, readers: Readers, itemsize: int) -> "Sizes":
        text = config.get_text_config()
        layers, heads, width = (int(v) for v in (text.num_hidden_layers, text.num_attention_heads, text.hidden_size))
        graph = graph_of_config(config, config.model_type, layers, heads, readers)
        head_size = int(getattr(text, "head_dim", None) or width // heads)
        widths = (getattr(text, name, 0) for name in ("intermediate_size", "ffn_dim", "n_inner"))
        mlp, wires = int(next(filter(None, widths), 4 * width)), FAMILIES[config.model_type].edges
        features = (heads * head_size, graph.n_kv_heads * head_size, mlp)
        return cls(graph, width, *features, bool(wires and wires.gated), int(text.vocab_size), itemsize)

    @classmethod
    def of_model(cls, model: Model, readers: Readers) -> "Sizes":
        return cls.of_config(model.hf.config, readers, model.hf.dtype.itemsize)

    def score_bytes(self, tokens: int, prompts: int, at_once: int, points: int) -> int:
        """Peak of EAP with so many gradient points, some of them in one pass."""
        layers, writers, width = self.graph.n_layers, len(self.graph.writers), self.width
        projected = self.query_features + 2 * self.kv_features
        written = (writers + max(READERS_AT_ONCE, self.graph.split.readers_a_layer)) * width
        kept = at_once * layers * (6 * width + 2 * projected + (3 if self.gated else 2) * self.mlp_features)
        directions = points * (2 * layers + 1) * 2 * width
        ends = 3 * layers * (self.query_features + width)
        fixed = 3 * at_once * prompts * self.vocabulary + width * projected
        return int(MARGIN * self.itemsize * (tokens * (written + kept + directions + ends) + fixed))

    def points_at_once(self, tokens: int, prompts: int, points: int, budget: int) -> int:
        """How many gradient points of a batch share a pass: as many as fit."""
        return min(_fitting(lambda count: self.score_bytes(tokens, prompts, count, points), budget), points)

    def circuit_bytes(self, tokens: int, prompts: int, circuits: int) -> int:
        """Peak of evaluating circuits, so many in one pass, beside their base runs."""
        written = circuits * (1 + len(self.graph.writers)) * self.width
        logits = 6 * circuits * prompts * self.vocabulary
        return self.itemsize * (tokens * written + logits) + 3 * SEEN_BYTES

    def base_bytes(self, tokens: int) -> int:
        """What the base run of some tokens holds."""
        return 8 * self.graph.n_layers * self.width * tokens * self.itemsize

    def circuits_at_once(self, tokens: int, prompts: int, budget: int) -> int:
        """How many circuits of a batch share a pass: as many as fit, and no more than are faster together."""
        fitting = _fitting(lambda count: self.circuit_bytes(tokens, prompts, count), budget)
        return min(fitting, max(CIRCUIT_TOKENS // tokens, 1))


def _fitting(needed: Callable[[int], int], budget: int) -> int:
    """How many fit, at least one: each takes as much more as the second does."""
    one, two = needed(1), needed(2)
    return 1 + max(budget - one, 0) // (two - one)


@dataclass(frozen=True)
class Batching:
    """How much runs at once, and what that takes."""

    tokens: int  # in a batch of prompts
    at_once: int  # gradient points, or circuits of a whole batch, in one pass
    bytes: int  # forecast
    budget: int  # bytes that one pass may use
    keeps_bases: bool = False  # whether the base runs of all batches are kept, for circuits


def plan_scores(sizes: Sizes, pairs: Sequence[Pair], points: int, memory: int | None, device: torch.device) -> Batching:
    """The largest batch that fits, then as many gradient points together as still fit."""
    lengths = [len(pair.clean) for pair in pairs]
    longest, most = max(lengths), min(sum(lengths), MAX_TOKENS_A_BATCH)
    tokens, budget = _batch(lambda n: sizes.score_bytes(n * longest, n, 1, points), longest, most, memory, device)
    prompts = -(-tokens // longest)
    at_once = sizes.points_at_once(tokens, prompts, points, budget)
    return Batching(tokens, at_once, sizes.score_bytes(tokens, prompts, at_once, points), budget)


def plan_circuits(sizes: Sizes, pairs: Sequence[Pair], memory: int | None, device: torch.device) -> Batching:
    """The largest batch that fits; base runs are kept between calls where all of them take a third of the memory."""
    lengths = [len(pair.clean) for pair in pairs]
    longest, total = max(lengths), sum(lengths)
    allowed, one = memory or DEFAULT_MEMORY, sizes.circuit_bytes(longest, 1, 1)
    keeps = sizes.base_bytes(total) <= min(allowed // 3, allowed - one)

    def needed(prompts: int) -> int:
        bases = sizes.base_bytes(total if keeps else prompts * longest)
        return sizes.circuit_bytes(prompts * longest, prompts, 1) + bases

    tokens, budget = _batch(needed, longest, min(total, CIRCUIT_TOKENS), memory, device)
    prompts, bases = -(-tokens // longest), sizes.base_bytes(total if keeps else tokens)
    at_once = sizes.circuits_at_once(tokens, prompts, budget - bases)
    taken = sizes.circuit_bytes(tokens, prompts, at_once) + bases
    return Batching(tokens, at_once, taken, budget - bases, keeps)


def _batch(
    needed: Callable[[int], int], longest: int, most: int, memory: int | None, device: torch.device
) -> tuple[int, int]:
    """Tokens of the largest batch that fits, at least one prompt's, and the bytes that may be used."""
    one, free = needed(1), free_memory(device)
    needs = f"One prompt of {longest} tokens needs {show_bytes(one)} beyond the model, and"
    if memory is not None and one > memory:
        raise HeadcountError(f"{needs} {show_bytes(memory)} are allowed. Allow more memory, or use shorter prompts.")
    if free is not None and one > free:
        raise HeadcountError(
            f"{needs} {show_bytes(free)} are free on {device}. Use shorter prompts, a smaller model, or a machine with"
            " more memory."
        )
    budget = memory or max(DEFAULT_MEMORY, one)
    return max(min(_fitting(needed, budget) * longest, most), longest), budget


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on a device; None where that cannot be told."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available) if device.type == "cpu" else None


def head_bytes(model: Model, examples: Sequence[Example]) -> int:
    """About what a pass of heads takes beyond the model: its activations, logits, and the values of the fill, which are
    kept up to a limit."""
    text, itemsize = model.hf.config.get_text_config(), model.hf.dtype.itemsize
    lengths = [len(example.ids) for example in examples]
    rows = max(TOKENS_A_PASS // max(lengths), 1)
    activations = rows * max(lengths) * 12 * int(text.hidden_size)
    values = sum(lengths) * model.head_count * model.anatomy.head_size
    return itemsize * (activations + 4 * rows * int(text.vocab_size)) + min(itemsize * values, KEPT_BYTES)


def show_bytes(count: int) -> str:
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def parse_bytes(text: str) -> int:
    """8GB, 500 MB, 1.5g."""
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt])i?b?\s*", text.lower())
    if found is None or not 0 < float(found[1]) < 1e9:
        raise HeadcountError(f"Memory is written as 8GB or 500MB; got {quoted(text)}.")
    return int(float(found[1]) * {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[found[2]])
