"""What the edges of a model need, from its config alone: no weights are read."""

import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from transformers import AutoConfig, PretrainedConfig

from ..core.errors import HeadcountError, in_short
from ..core.plain import quoted
from ..core.reading import local_path
from ..core.words import Readers
from ..models.adapters import has_adapter
from ..models.gated_folder import SparseFacts, is_sparse
from ..models.loading import NAMED
from ..models.missing import not_delivered, require_hub_id
from ..models.written_config import count_weights, written_config
from ..tasks.examples import Pair
from .memory import MAX_TOKENS_A_BATCH, Sizes, plan_circuits, plan_scores, show_bytes

MOST_LENGTH = 1_000_000
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
    if not 1 <= length <= MOST_LENGTH:
        raise HeadcountError(
            f"A prompt has at least one token, and {MOST_LENGTH:,} at most; length is {quoted(length)}."
        )
    config = read_config(source)
    weights, itemsize = count_weights(config), getattr(torch, dtype).itemsize
    return Forecast(source, Sizes.of_config(config, readers, itemsize), itemsize * weights, length, memory)


def read_config(source: str) -> PretrainedConfig:
    """The config of a folder, a hub id or a known shape, one that a model can be made of."""
    if source.lower() in SHAPES:
        return AutoConfig.for_model(**SHAPES[source.lower()])
    path = NAMED[source]() if source in NAMED else local_path(source)
    place = path.parent if path.is_file() else path
    if is_sparse(place) and has_adapter(place):
        source = SparseFacts.load(place).base  # an adapter has its base's shape
        place = NAMED[source]() if source in NAMED else local_path(source)
    local = (place / "config.json").is_file()
    known = (*NAMED, *SHAPES)
    if not local and place.exists():
        raise HeadcountError(f"There is no config.json in {place}. Point to the folder that save_pretrained wrote.")
    if not local:
        require_hub_id(source, known)
    try:
        where = str(place) if local else source
        written_config(where, {"local_files_only": local})
        found: PretrainedConfig = AutoConfig.from_pretrained(where, trust_remote_code=False, local_files_only=local)
        count_weights(found)
        return found
    except (HeadcountError, MemoryError):
        raise
    except Exception as error:  # of transformers and the hub: no common class
        if local:
            raise HeadcountError(f"The config in {place} cannot be used: {in_short(error)}") from error
        raise HeadcountError(not_delivered(source, known, error)) from error
