"""Adapters of peft: folders as it writes them, merged into their base, so that every tensor of the file has a place and
every place one; and a `PeftModel` in memory."""

import copy
import os
import re
import warnings
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.errors import HeadcountError, in_short
from ..core.reading import parse_json, read_text
from .pretrained import require_finite, require_same

WRAPPED = re.compile(r"\.(modules_to_save|original_module)\.")
"""Where embeddings have grown, peft saves whole modules under these names too, beside their own."""
ADAPTER, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def has_adapter(folder: Path) -> bool:
    return (folder / ADAPTER).is_file()


def is_adapter(folder: Path) -> bool:
    """What peft or a trainer writes for a model that it has adapted: an adapter and no model."""
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def base_of(folder: Path) -> str:
    """The name, folder or hub id of the model that an adapter goes on, as its config has it."""
    try:
        facts = parse_json(read_text(folder / CONFIG, "The adapter's config"))
    except ValueError as error:
        raise HeadcountError(f"{folder / CONFIG} is not what peft writes: {in_short(error)}") from error
    found = facts.get("base_model_name_or_path") if isinstance(facts, dict) else None
    if not isinstance(found, str) or not found:
        raise HeadcountError(f"{folder / CONFIG} names no base. Say which: --base-model, or base= in Python.")
    # Names that no file can have are none of a folder either; `Path` would raise.
    return str(folder / found) if os.path.isdir(folder / found) and not os.path.exists(found) else found


def fit_vocabulary(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> None:
    """An adapter that was trained with new tokens has a larger tokenizer than its base, which peft expects to have been
    enlarged."""
    if tokenizer is not None and len(tokenizer) > cast(torch.Tensor, hf.get_input_embeddings().weight).shape[0]:
        hf.resize_token_embeddings(len(tokenizer), mean_resizing=False)


def is_peft(module: nn.Module) -> bool:
    return hasattr(module, "peft_config") and hasattr(module, "get_base_model")


def unwrapped(module: nn.Module, merge: bool) -> PreTrainedModel:
    """The HF module of a `PeftModel`: a copy with the adapter in its weights, or itself with the adapter live."""
    peft = cast(Any, module)
    if any(getattr(config, "is_prompt_learning", False) for config in peft.peft_config.values()):
        raise HeadcountError("An adapter of prompts or prefixes leaves all heads as they were. Load its base.")
    if not merge:
        return cast(PreTrainedModel, peft.get_base_model())
    return _merged(copy.deepcopy(peft), "The adapter", "Try merge=False.")


def is_adapted(module: nn.Module) -> bool:
    """Whether an adapter is live on this very module, so that its weight is not all that it computes with."""
    return hasattr(module, "base_layer")


def live_adapters(hf: nn.Module) -> list[list[str]]:
    """What live adapters compute with beside their weights: how they are scaled, and whether they are switched on."""
    names = ("scaling", "active_adapters", "disable_adapters", "merged_adapters")
    adapted = ((name, module) for name, module in hf.named_modules() if is_adapted(module))
    return [[name, *(str(getattr(module, each, "")) for each in names)] for name, module in adapted]


def merge_adapter(hf: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """The module with the adapter of a folder in its weights. peft itself takes what it finds: of a file whose names
    are others, or of which half is gone, the rest of the adapter would silently be that of before training, nothing."""
    from peft import PeftModel, get_peft_model_state_dict

    where = f"The adapter in {folder}"
    of_base = {f"base_model.model.{name}" for name in hf.state_dict()}  # embeddings that grew are saved beside
    try:
        with safe_open(folder / ADAPTER, "pt") as file:
            there = [name for name in file.keys() if not WRAPPED.search(name)]  # noqa: SIM118, not a dictionary
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tensors that it does not find, which are told below
            wrapped = cast(Any, PeftModel.from_pretrained(hf, str(folder)))
        wanted = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    except (HeadcountError, MemoryError):
        raise
    except Exception as error:  # of peft, safetensors and torch, for files that are missing, broken or for another base
        told = Exception(str(error).partition(":\n")[2] or error)  # torch names the class first, then the tensor
        raise HeadcountError(f"{where} could not be put on its base: {in_short(told)}") from error
    require_same(list(wanted), [name for name in there if name in wanted or name not in of_base], where)
    require_finite(wrapped, where)
    return _merged(wrapped, where, "Load it with peft, and give headcount.load the model with merge=False.")


@torch.no_grad()
def _merged(peft: Any, where: str, cure: str) -> PreTrainedModel:
    try:
        return cast(PreTrainedModel, peft.merge_and_unload())
    except MemoryError:
        raise
    except Exception as error:  # of peft, where a kind of adapter cannot be merged
        raise HeadcountError(f"{where} cannot be merged: {in_short(error).rstrip('.')}. {cure}") from error
