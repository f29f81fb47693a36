"""What the edges of a model need, from its config alone: no weights are read."""

import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from ..core.errors import HeadcountError, in_short
from ..core.words import Readers
from ..models.gated_folder import SparseFacts, has_adapter, is_sparse
from ..models.loading import LOAD_ERRORS, NAMED
from ..tasks.examples import Pair
from .memory import MAX_TOKENS_A_BATCH, Sizes, plan_circuits, plan_scores, show_bytes

SHAPES = tomllib.loads((Path(__file__).parent / "shapes.toml").read_text("utf-8"))
"""The configs of well-known models, for forecasts without the hub."""


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
        scores = self.sizes.score_bytes(self.length, 1, 1, 5)
        circuit = self.sizes.circuit_bytes(self.length, 1, 1) + self.sizes.base_bytes(self.length)
        found = []
        for job, needed, plan in (
            ("EAP-IG, 5 steps", scores, partial(plan_scores, self.sizes, many, 5)),
            ("a circuit", circuit, partial(plan_circuits, self.sizes, many)),
        ):
            try:
                chosen = plan(self.memory, torch.device("meta"))
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
    weights = itemsize * sum(parameter.numel() for parameter in empty.parameters())
    return Forecast(source, Sizes.of_config(config, readers, itemsize), weights, length, memory)


def _config(source: str) -> PretrainedConfig:
    if source.lower() in SHAPES:
        return AutoConfig.for_model(**SHAPES[source.lower()])
    path = NAMED[source]() if source in NAMED else Path(source).expanduser()
    place = path.parent if path.is_file() else path
    if is_sparse(place) and has_adapter(place):
        return _config(SparseFacts.load(place).base)  # an adapter has its base's shape
    local = (place / "config.json").is_file()
    try:
        where = str(place) if local else source
        found: PretrainedConfig = AutoConfig.from_pretrained(where, trust_remote_code=False, local_files_only=local)
        return found
    except LOAD_ERRORS as error:
        if local:
            raise HeadcountError(f"The config in {place} cannot be used: {in_short(error)}") from error
        raise HeadcountError(
            f"There is no config at {source!r}, neither a folder nor a hub id. Known without the hub:"
            f" {', '.join((*NAMED, *SHAPES))}. ({in_short(error)} …)"
        ) from error
