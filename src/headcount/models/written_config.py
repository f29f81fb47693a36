"""A config as it is written, looked at before anything is built from it: a billion layers are refused at once, and not
when the memory is full."""

import math
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from ..core.errors import HeadcountError
from ..core.plain import quoted
from ..core.provenance import Facts

MOST_LAYERS = 2_000
"""Building so many takes some seconds; the deepest models have a tenth."""
MOST = 10**9  # of any other count
COUNTS = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "key-value heads": ("num_key_value_heads", "num_kv_heads"),
    "numbers per head": ("head_dim",),
    "numbers per token": ("hidden_size", "n_embd", "d_model"),
    "tokens": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions", "n_ctx"),
    "numbers per MLP": ("intermediate_size", "n_inner", "ffn_dim"),
}
WEIGHT_FILES = (".safetensors", ".bin", ".pt")
BYTES_A_NUMBER, PACKED_BYTES_A_NUMBER = 1.0, 0.25
"""The least that a weight takes in a file, plain and quantised."""
SPARE = 2**20
"""Weights that a model may have beyond what its files could hold: those that are tied, or made from nothing."""


def written_config(source: str | Path, options: Facts) -> Facts:
    """The config of a folder or hub id as it is written; counts that no model has are refused, and names of its class
    that are none."""
    raw: Facts = PretrainedConfig.get_config_dict(source, **options)[0]
    named = raw.get("architectures")
    if named is not None and not (isinstance(named, list) and all(isinstance(name, str) for name in named)):
        raise HeadcountError(
            f"The config of {source} says architectures = {quoted(named)}, which must be a list of names. Fix it, or"
            " fetch it again."
        )
    if name := _not_a_number(raw):
        raise HeadcountError(
            f"The config of {source} says {name} = NaN, which is no number. Fix it, or fetch it again."
        )
    for part in _parts(raw):
        for name in ("dtype", "torch_dtype"):
            if not _is_dtype(part.get(name)):
                raise HeadcountError(
                    f"The config of {source} says {name} = {quoted(part[name])}, which is no type of weights. Write"
                    " one such as float32, or fetch it again."
                )
        for words, names in COUNTS.items():
            most = MOST_LAYERS if words == "layers" else MOST
            for name in names:
                if not _is_count(part.get(name), most):
                    raise HeadcountError(
                        f"The config of {source} says {name} = {quoted(part[name])}, and a model has from 1 to"
                        f" {most:,} {words}. Fix it, or fetch it again."
                    )
    return raw


def check_config(source: str | Path, options: Facts) -> None:
    """Refuse counts that no model has, and a model that its own weight files could not fill."""
    raw, folder = written_config(source, options), Path(source)
    if not folder.is_dir():
        return
    held = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in WEIGHT_FILES and path.is_file())
    room = (held + SPARE) / (PACKED_BYTES_A_NUMBER if raw.get("quantization_config") else BYTES_A_NUMBER)
    if not held or _about(raw) <= room:  # which saves building it
        return
    numbers = count_weights(AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
    if numbers > room:
        raise HeadcountError(
            f"The config of {source} describes a model of {numbers:,} weights, and its weight files have"
            f" {held:,} bytes: they belong to another config, or are cut off."
        )


def count_weights(config: PretrainedConfig) -> int:
    """How many numbers a model has, counted without memory for them."""
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return sum(parameter.numel() for parameter in empty.parameters())


def _about(raw: Facts) -> float:
    """How many weights a dense model of this config has, rather too many; infinite where it says too little."""
    found = {words: next((raw[name] for name in names if raw.get(name)), None) for words, names in COUNTS.items()}
    counts = {words: count if type(count) is int else 0 for words, count in found.items()}
    layers, width, tokens = (counts[words] for words in ("layers", "numbers per token", "tokens"))
    if not (layers and width and tokens):
        return float("inf")
    inner = max(counts["numbers per MLP"], 4 * width, counts["heads"] * counts["numbers per head"])
    return float((2 * tokens + counts["positions"]) * width + 7 * layers * width * inner)


def _parts(raw: Facts) -> Iterator[Facts]:
    """The config, and those of its parts, such as the language model of a model of images and text."""
    yield raw
    yield from (part for part in raw.values() if isinstance(part, dict))


def _not_a_number(value: object, name: str = "") -> str:
    """Where a config says NaN, which JSON cannot say and Python's reader takes; empty where nowhere."""
    if isinstance(value, dict):
        return next(filter(None, (_not_a_number(inner, str(key)) for key, inner in value.items())), "")
    if isinstance(value, list):
        return next(filter(None, (_not_a_number(inner, name) for inner in value)), "")
    return quoted(name) if isinstance(value, float) and math.isnan(value) else ""


def _is_dtype(value: object) -> bool:
    """A type of torch by its name; what is not said, or said part by part, is left to transformers."""
    if not isinstance(value, str):
        return value is None or isinstance(value, dict)
    return value == "auto" or isinstance(getattr(torch, value.removeprefix("torch."), None), torch.dtype)


def _is_count(value: object, most: int) -> bool:
    """What is not said is left to the family; what a family says layer by layer (OpenELM's heads) is a list."""
    return value is None or isinstance(value, list) or (type(value) is int and 1 <= value <= most)
