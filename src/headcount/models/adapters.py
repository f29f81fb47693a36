"""Adapters as peft writes them, merged into their base: every tensor of the file has a place, and every place one."""

import warnings
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from transformers import PreTrainedModel

from ..core.errors import HeadcountError, in_short
from .pretrained import require_finite, require_same

ADAPTER = "adapter_model.safetensors"


def has_adapter(folder: Path) -> bool:
    return (folder / ADAPTER).is_file()


def merge_adapter(hf: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """The module with the adapter of a folder in its weights. peft itself takes what it finds: of a file whose names
    are others, or of which half is gone, the rest of the adapter would silently be that of before training, nothing."""
    from peft import PeftModel, get_peft_model_state_dict

    where = f"The adapter in {folder}"
    of_base = {f"base_model.model.{name}" for name in hf.state_dict()}  # embeddings that grew are saved beside
    try:
        with safe_open(folder / ADAPTER, "pt") as file:
            there = [name for name in file.keys() if name not in of_base]  # noqa: SIM118, not a dictionary
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tensors that it does not find, which are told below
            wrapped = cast(Any, PeftModel.from_pretrained(hf, str(folder)))
        wanted = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    except (HeadcountError, MemoryError):
        raise
    except Exception as error:  # of peft, safetensors and torch, for files that are missing, broken or for another base
        raise HeadcountError(f"{where} could not be put on its base: {in_short(error)}") from error
    require_same(list(wanted), there, where)
    require_finite(wrapped, where)
    with torch.no_grad():
        merged: PreTrainedModel = wrapped.merge_and_unload()
    return merged
