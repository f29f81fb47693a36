"""How much memory the analysis of edges needs beyond the model, told before it runs, from the model's config alone.

Per token, in numbers of the model's type (L layers, stream of width d, W writers, R readers of a layer):

    scores      what all writers wrote                           W d
                gradients of one layer's readers                 R d
                what a backward pass keeps, a gradient point     L (6 d + 2 (q + 2 kv) + 3 m), 2 m if not gated
                norms' directions, a gradient point              (2 L + 1) (2 d + W)
                both ends of the path                            3 L (q + d)
    circuits    what all writers wrote, a circuit                W d
                a base run                                       8 L d

with q and kv the features of queries and of keys or values, and m those of the MLP; and a fifth more, which holds what
was measured (`benchmarks/` shows the peaks). Nothing of size tokens x W x readers is ever made, so this grows with the
number of nodes, not of edges.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import torch
from transformers import PretrainedConfig

from ..core.errors import HeadcountError
from ..core.words import Readers
from ..edit.stream import SEEN_BYTES
from ..models import FAMILIES
from ..models.graph import Graph
from ..models.wiring import graph_of_config
from ..tasks.examples import Example, Pair
from .meter import KEPT_BYTES, TOKENS_A_PASS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models import Model

DEFAULT_MEMORY = 2**29
"""Bytes beyond the model, unless the user says otherwise. Fixed, not read off the machine, so that runs can be repeated
bit for bit; more would not be faster on a CPU."""
MARGIN = 1.2
MAX_TOKENS_A_BATCH = 1024
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
    gated: bool
    """Whether the MLP multiplies two projections."""
    vocabulary: int
    itemsize: int

    @classmethod
    def of_config(cls, config: PretrainedConfig, readers: Readers, itemsize: int) -> "Sizes":
        text = config.get_text_config()
        layers, heads, width = (int(v) for v in (text.num_hidden_layers, text.num_attention_heads, text.hidden_size))
        graph = graph_of_config(config, config.model_type, layers, heads, readers)
        head_size = int(getattr(text, "head_dim", None) or width // heads)
        widths = (getattr(text, name, 0) for name in ("intermediate_size", "ffn_dim", "n_inner"))
        return cls(
            graph=graph,
            width=width,
            query_features=heads * head_size,
            kv_features=graph.n_kv_heads * head_size,
            mlp_features=int(next(filter(None, widths), 4 * width)),
            gated=bool((wires := FAMILIES[config.model_type].edges) and wires.gated),
            vocabulary=int(text.vocab_size),
            itemsize=itemsize,
        )

    @classmethod
    def of_model(cls, model: "Model", readers: Readers) -> "Sizes":
        return cls.of_config(model.hf.config, readers, model.hf.dtype.itemsize)

    def score_bytes(self, tokens: int, prompts: int, at_once: int, points: int) -> int:
        """Peak of EAP with so many gradient points, some of them in one pass."""
        layers, writers, width = self.graph.n_layers, len(self.graph.writers), self.width
        projected = self.query_features + 2 * self.kv_features
        written = (writers + self.graph.readers_a_layer) * width
        kept = at_once * layers * (6 * width + 2 * projected + (3 if self.gated else 2) * self.mlp_features)
        directions = points * (2 * layers + 1) * (2 * width + writers)
        ends = 3 * layers * (self.query_features + width)
        fixed = 3 * at_once * prompts * self.vocabulary + width * projected
        return int(MARGIN * self.itemsize * (tokens * (written + kept + directions + ends) + fixed))

    def points_at_once(self, tokens: int, prompts: int, points: int, budget: int) -> int:
        """How many gradient points of a batch share a pass: as many as fit."""
        one, two = (self.score_bytes(tokens, prompts, at_once, points) for at_once in (1, 2))
        return min(1 + max(budget - one, 0) // (two - one), points)

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
        one, two = (self.circuit_bytes(tokens, prompts, circuits) for circuits in (1, 2))
        return min(1 + max(budget - one, 0) // (two - one), max(CIRCUIT_TOKENS // tokens, 1))


@dataclass(frozen=True)
class Batching:
    """How much runs at once, and what that takes."""

    tokens: int
    """In a batch of prompts."""
    at_once: int
    """Gradient points, or circuits of a whole batch, in one pass."""
    bytes: int
    """Forecast."""
    budget: int
    """Bytes that one pass may use."""
    keeps_bases: bool = False
    """Whether the base runs of all batches are kept, for circuits."""


def plan_scores(
    sizes: Sizes, pairs: "Sequence[Pair]", points: int, memory: int | None, device: torch.device
) -> Batching:
    """The largest batch that fits, then as many gradient points together as still fit."""
    longest, total = _lengths(pairs)

    def needed(tokens: int, at_once: int) -> int:
        return sizes.score_bytes(tokens, -(-tokens // longest), at_once, points)

    tokens, budget = _batch(lambda tokens: needed(tokens, 1), longest, min(total, MAX_TOKENS_A_BATCH), memory, device)
    at_once = sizes.points_at_once(tokens, -(-tokens // longest), points, budget)
    return Batching(tokens, at_once, needed(tokens, at_once), budget)


def plan_circuits(sizes: Sizes, pairs: "Sequence[Pair]", memory: int | None, device: torch.device) -> Batching:
    """The largest batch that fits; base runs are kept between calls where all of them take a third of the memory."""
    longest, total = _lengths(pairs)
    allowed, one = memory or DEFAULT_MEMORY, sizes.circuit_bytes(longest, 1, 1)
    keeps = sizes.base_bytes(total) <= min(allowed // 3, allowed - one)

    def bases(tokens: int) -> int:
        return sizes.base_bytes(total if keeps else tokens)

    def needed(tokens: int, at_once: int) -> int:
        return sizes.circuit_bytes(tokens, -(-tokens // longest), at_once) + bases(tokens)

    tokens, budget = _batch(lambda tokens: needed(tokens, 1), longest, min(total, CIRCUIT_TOKENS), memory, device)
    budget -= bases(tokens)
    at_once = sizes.circuits_at_once(tokens, -(-tokens // longest), budget)
    return Batching(tokens, at_once, needed(tokens, at_once), budget, keeps)


def _lengths(pairs: "Sequence[Pair]") -> tuple[int, int]:
    return max(len(pair.clean) for pair in pairs), sum(len(pair.clean) for pair in pairs)


def _batch(
    needed: Callable[[int], int], longest: int, most: int, memory: int | None, device: torch.device
) -> tuple[int, int]:
    """Tokens of the largest batch that fits, at least one prompt's, and the bytes that may be used."""
    one = needed(longest)
    if memory is not None and one > memory:
        raise HeadcountError(
            f"One prompt of {longest} tokens needs {show_bytes(one)} beyond the model, and {show_bytes(memory)} are"
            " allowed. Allow more memory, or use shorter prompts."
        )
    free = _free_memory(device)
    if free is not None and one > free:
        raise HeadcountError(
            f"One prompt of {longest} tokens needs {show_bytes(one)} beyond the model, and {show_bytes(free)} are free"
            f" on {device}. Use shorter prompts, a smaller model, or a machine with more memory."
        )
    budget = memory or max(DEFAULT_MEMORY, one)
    prompts = 1 + (budget - one) // (needed(2 * longest) - one)
    return max(min(prompts * longest, most), longest), budget


def _free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on a device; None where that cannot be told."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available) if device.type == "cpu" else None


def head_bytes(model: "Model", examples: "Sequence[Example]") -> int:
    """About what a pass of heads takes beyond the model: its activations, logits, and the values of the fill, which are
    kept up to a limit."""
    text, itemsize = model.hf.config.get_text_config(), model.hf.dtype.itemsize
    longest = max(len(example.ids) for example in examples)
    rows = max(TOKENS_A_PASS // longest, 1)
    activations = rows * longest * 12 * int(text.hidden_size)
    values = sum(len(example.ids) for example in examples) * model.head_count * model.anatomy.head_size
    return itemsize * (activations + 4 * rows * int(text.vocab_size)) + min(itemsize * values, KEPT_BYTES)


def show_bytes(count: int) -> str:
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def parse_bytes(text: str) -> int:
    """8GB, 500 MB, 1.5g."""
    found = re.fullmatch(r"\s*([\d.]+)\s*([kmgt])i?b?\s*", text.lower())
    try:
        number = float(found[1]) if found else 0.0
    except ValueError:
        number = 0.0
    if found is None or number <= 0:
        raise HeadcountError(f"Memory is written as 8GB or 500MB; this is {text!r}.")
    return int(number * {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[found[2]])
