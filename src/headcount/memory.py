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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .errors import HeadcountError
from .graph import Graph, Readers
from .models.wiring import WIRES, graph_of_config
from .tasks.examples import Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .models import Model

DEFAULT_MEMORY = 2**29
"""Bytes beyond the model, unless the user says otherwise. Fixed, not read off the machine, so that runs can be repeated
bit for bit; more would not be faster on a CPU."""
MARGIN = 1.2
MAX_TOKENS_A_BATCH = 1024
CIRCUIT_TOKENS = 512
"""Circuits share a forward pass up to this many tokens. More would not be faster."""
SEEN_BYTES = 2**24
"""What the readers of a layer see is held for as many tokens at a time as fit into this: small enough for a CPU's
cache, and for the allocator to use the same memory again and again."""


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
    def of_config(cls, config: Any, readers: Readers, itemsize: int) -> "Sizes":
        text = config.get_text_config()
        layers, heads, width = (int(v) for v in (text.num_hidden_layers, text.num_attention_heads, text.hidden_size))
        graph = graph_of_config(config, config.model_type, layers, heads, readers)
        head_size = int(getattr(text, "head_dim", None) or width // heads)
        mlp = next(
            (
                int(getattr(text, name))
                for name in ("intermediate_size", "ffn_dim", "n_inner")
                if getattr(text, name, 0)
            ),
            4 * width,
        )
        return cls(
            graph, width, query_features=heads * head_size, kv_features=graph.n_kv_heads * head_size, mlp_features=mlp,
            gated=WIRES[config.model_type].gated, vocabulary=int(text.vocab_size), itemsize=itemsize,
        )  # fmt: skip

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
class Plan:
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


def plan_scores(sizes: Sizes, pairs: "Sequence[Pair]", points: int, memory: int | None, device: torch.device) -> Plan:
    """The largest batch that fits, then as many gradient points together as still fit."""
    longest, total = _lengths(pairs)

    def needed(tokens: int, at_once: int) -> int:
        return sizes.score_bytes(tokens, -(-tokens // longest), at_once, points)

    tokens, budget = _batch(lambda tokens: needed(tokens, 1), longest, min(total, MAX_TOKENS_A_BATCH), memory, device)
    at_once = sizes.points_at_once(tokens, -(-tokens // longest), points, budget)
    return Plan(tokens, at_once, needed(tokens, at_once), budget)


def plan_circuits(sizes: Sizes, pairs: "Sequence[Pair]", memory: int | None, device: torch.device) -> Plan:
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
    return Plan(tokens, at_once, needed(tokens, at_once), budget, keeps)


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
    if device.type == "cpu" and Path("/proc/meminfo").is_file():
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        return int(found[1]) * 1024 if found else None
    return None


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


# ---------------------------------------------------------------------------------------------------------------------
# From a config alone


def _shape(
    model_type: str, layers: int, heads: int, kv_heads: int, width: int, mlp: int, vocabulary: int, tied: bool
) -> Any:
    from transformers import AutoConfig

    return AutoConfig.for_model(
        model_type, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
        hidden_size=width, intermediate_size=mlp, vocab_size=vocabulary, tie_word_embeddings=tied,
    )  # fmt: skip


SHAPES: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: _gpt2(12, 12, 768),
    "gpt2-xl": lambda: _gpt2(48, 25, 1600),
    "llama-3.2-1b": lambda: _shape("llama", 16, 32, 8, 2048, 8192, 128_256, True),
    "llama-3.1-8b": lambda: _shape("llama", 32, 32, 8, 4096, 14_336, 128_256, False),
    "olmo-7b": lambda: _shape("olmo", 32, 32, 32, 4096, 11_008, 50_304, False),
}
"""Shapes of well-known models, for forecasts without the hub."""


def _gpt2(layers: int, heads: int, width: int) -> Any:
    from transformers import GPT2Config

    return GPT2Config(n_layer=layers, n_head=heads, n_embd=width)


@dataclass(frozen=True)
class Forecast:
    """What edges of a model need, in bytes."""

    model: str
    sizes: Sizes
    weights: int
    length: int
    memory: int | None

    def rows(self) -> list[tuple[str, str, str]]:
        """(job, one prompt, the batch that fits into the memory)."""
        one = [Pair((0,) * self.length, (0,) * self.length, (0,), (1,))]
        many = one * max(MAX_TOKENS_A_BATCH // self.length, 1)
        nowhere = torch.device("meta")
        jobs: list[tuple[str, int, Callable[[], Plan]]] = [
            (
                "EAP-IG, 5 steps", self.sizes.score_bytes(self.length, 1, 1, 5),
                lambda: plan_scores(self.sizes, many, 5, self.memory, nowhere),
            ),
            (
                "a circuit", self.sizes.circuit_bytes(self.length, 1, 1) + self.sizes.base_bytes(self.length),
                lambda: plan_circuits(self.sizes, many, self.memory, nowhere),
            ),
        ]  # fmt: skip
        found = []
        for job, needed, plan in jobs:
            try:
                chosen = plan()
                prompts = chosen.tokens // self.length
                batch = f"{prompts} prompt{'s' * (prompts > 1)}, {show_bytes(chosen.bytes)}"
            except HeadcountError:
                batch = "not one prompt"
            found.append((job, show_bytes(needed), batch))
        return found


def forecast(
    source: str, *, length: int = 20, memory: int | None = None, readers: Readers = "kv-heads", dtype: str = "float32"
) -> Forecast:
    """From a config alone: a folder or file with config.json, a hub id, or one of `SHAPES`. No weights are read."""
    if dtype not in ("float32", "float16", "bfloat16", "float64"):
        raise HeadcountError(f"There is no type {dtype!r}. Use float32, float16 or bfloat16.")
    if length < 1:
        raise HeadcountError(f"A prompt has at least one token; length is {length}.")
    from transformers import AutoModelForCausalLM

    config = _config(source)
    itemsize = getattr(torch, dtype).itemsize
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config)
    weights = itemsize * sum(parameter.numel() for parameter in {id(p): p for p in empty.parameters()}.values())
    return Forecast(source, Sizes.of_config(config, readers, itemsize), weights, length, memory)


def _config(source: str) -> Any:
    from transformers import AutoConfig

    if source.lower() in SHAPES:
        return SHAPES[source.lower()]()
    from .models.loading import LOAD_ERRORS, NAMED
    from .models.sparse_folder import SparseFacts, has_adapter, is_sparse

    path = NAMED[source]() if source in NAMED else Path(source).expanduser()
    place = path.parent if path.is_file() else path
    if is_sparse(place) and has_adapter(place):
        return _config(SparseFacts.load(place).base)  # an adapter has its base's shape
    local = (place / "config.json").is_file()
    try:
        return AutoConfig.from_pretrained(
            str(place) if local else source, trust_remote_code=False, local_files_only=local
        )
    except LOAD_ERRORS as error:
        reason = " ".join(str(error).split())[:160]
        if local:
            raise HeadcountError(f"The config in {place} cannot be used: {reason}") from error
        known = ", ".join((*NAMED, *SHAPES))
        raise HeadcountError(
            f"There is no config at {source!r}, neither a folder nor a hub id. Known without the hub: {known}."
            f" ({reason} …)"
        ) from error
