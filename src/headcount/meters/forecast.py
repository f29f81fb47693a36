"""What the edges of a model need, from its config alone: no weights are read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from ..core.errors import HeadcountError, in_short
from ..core.words import Readers
from ..models.gated_folder import SparseFacts, has_adapter, is_sparse
from ..models.loading import LOAD_ERRORS, NAMED
from ..tasks.examples import Pair
from .memory import MAX_TOKENS_A_BATCH, Batching, Sizes, plan_circuits, plan_scores, show_bytes

LAYERS, HEADS, KV_HEADS = "num_hidden_layers", "num_attention_heads", "num_key_value_heads"
LLAMA: dict[str, object] = {"vocab_size": 128_256, HEADS: 32, KV_HEADS: 8}
SHAPES: dict[str, tuple[str, dict[str, object]]] = {
    "gpt2": ("gpt2", {}),
    "gpt2-xl": ("gpt2", {"n_layer": 48, "n_head": 25, "n_embd": 1600}),
    "llama-3.2-1b": (
        "llama",
        {**LLAMA, LAYERS: 16, "hidden_size": 2048, "intermediate_size": 8192, "tie_word_embeddings": True},
    ),
    "llama-3.1-8b": ("llama", {**LLAMA, LAYERS: 32, "hidden_size": 4096, "intermediate_size": 14_336}),
    "olmo-7b": ("olmo", {LAYERS: 32, HEADS: 32, "hidden_size": 4096, "intermediate_size": 11_008}),
}
"""Model type and settings of well-known models, for forecasts without the hub."""


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
        scores = self.sizes.score_bytes(self.length, 1, 1, 5)
        circuit = self.sizes.circuit_bytes(self.length, 1, 1) + self.sizes.base_bytes(self.length)
        jobs: list[tuple[str, int, Callable[[], Batching]]] = [
            ("EAP-IG, 5 steps", scores, lambda: plan_scores(self.sizes, many, 5, self.memory, nowhere)),
            ("a circuit", circuit, lambda: plan_circuits(self.sizes, many, self.memory, nowhere)),
        ]
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
    config = _config(source)
    itemsize = getattr(torch, dtype).itemsize
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config)
    weights = itemsize * sum(parameter.numel() for parameter in {id(p): p for p in empty.parameters()}.values())
    return Forecast(source, Sizes.of_config(config, readers, itemsize), weights, length, memory)


def _config(source: str) -> PretrainedConfig:
    if source.lower() in SHAPES:
        model_type, settings = SHAPES[source.lower()]
        return AutoConfig.for_model(model_type, **settings)
    path = NAMED[source]() if source in NAMED else Path(source).expanduser()
    place = path.parent if path.is_file() else path
    if is_sparse(place) and has_adapter(place):
        return _config(SparseFacts.load(place).base)  # an adapter has its base's shape
    local = (place / "config.json").is_file()
    try:
        found = AutoConfig.from_pretrained(
            str(place) if local else source, trust_remote_code=False, local_files_only=local
        )
        return cast(PretrainedConfig, found)
    except LOAD_ERRORS as error:
        reason = in_short(error)
        if local:
            raise HeadcountError(f"The config in {place} cannot be used: {reason}") from error
        known = ", ".join((*NAMED, *SHAPES))
        raise HeadcountError(
            f"There is no config at {source!r}, neither a folder nor a hub id. Known without the hub: {known}."
            f" ({reason} …)"
        ) from error
