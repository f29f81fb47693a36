"""`headcount.load`: from what the user has to a `Model`."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from ..core.errors import HeadcountError, did_you_mean, in_short
from ..core.plain import plain, quoted
from ..core.reading import local_path
from . import bundled, smollm2
from .adapters import has_adapter
from .anatomy import find_anatomy
from .gated_folder import SparseFacts, is_sparse, make_sparse
from .model import Model
from .pretrained import load_pretrained, load_tokenizer

NAMED: dict[str, Callable[[], Path]] = {"smollm2": smollm2.folder, **bundled.FOLDERS}
"""Models known by a short name; the function returns their folder and fetches it first where need be."""


def load(
    source: str | Path | nn.Module,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    name: str | None = None,
    base: str | Path | None = None,
    device: str | None = None,
    dtype: str | torch.dtype | None = None,
    **from_pretrained: object,
) -> Model:
    """Load a model for analysis.

    **Arguments:**

    - `source`: a named model (`"smollm2"`), a local folder, a hub id, or a HF module that is already in memory.
    - `tokenizer`: for a module in memory; otherwise the one that lies with the model.
    - `name`: what tables and figures call it.
    - `base`: for a folder with the adapter of a sparse model: the dense model it goes on, where that is not where it
      was in training.
    - `device`: `"cpu"`, `"cuda"`, `"mps"` …; the best one there is by default. Left alone with `device_map`.
    - `dtype`: float32 on the CPU by default, the checkpoint's own elsewhere.
    - anything else (`device_map`, `revision`, `attn_implementation` …) goes to HF's `from_pretrained`.

    A local source never needs the network. The module is put into evaluation mode. Weights that the files lack, that
    nothing takes, of another shape than the config wants, or that are not finite, are refused by name.
    """
    if not isinstance(source, str | Path | nn.Module):
        raise HeadcountError(f"A model is a name, a folder or a module; this is a {type(source).__name__}.")
    if isinstance(source, nn.Module):
        options = {**from_pretrained, "device": device, "dtype": dtype, "base": base}
        if given := sorted(option for option, value in options.items() if value is not None):
            raise HeadcountError(f"A module in memory takes no {', '.join(given)}: move or cast it before loading.")
        hf: Any = source
        sparse, no_tokenizer = None, ""
        name = name or Path(getattr(hf, "name_or_path", "") or type(hf).__name__).name
    else:
        place = _place(str(source))
        name = name or Path(str(source)).name or (place or Path()).resolve().name
        sparse = place if place is not None and is_sparse(place) else None
        facts = sparse and SparseFacts.load(sparse)
        if sparse and facts and has_adapter(sparse):
            adapted, source = source, str(base or facts.base)
            place = _place(source)
            if place is not None and is_sparse(place):
                raise HeadcountError(f"The adapter in {adapted} has {source} as its base, which is no dense model.")
        elif base is not None:
            raise HeadcountError(f"A base belongs to the adapter of a sparse model; {source} is a model of its own.")
        hf, found, no_tokenizer = _from_pretrained(str(source), place, device, {"dtype": dtype, **from_pretrained})
        tokenizer = tokenizer or found
    hf.eval()
    model = Model(plain(name), hf, tokenizer, find_anatomy(hf), no_tokenizer)
    _ = model.unembedding  # or it is no language model
    return model if sparse is None else make_sparse(model, sparse)


def _from_pretrained(
    source: str, place: Path | None, device: str | None, options: dict[str, Any]
) -> tuple[Any, Any, str]:
    """Module and tokenizer of a folder or hub id, and why there is no tokenizer where there is none."""
    local = {} if place is None else {"local_files_only": True}
    options = {**options, **local}
    placed_by_map = "device_map" in options
    device = _usable(device or _best_device())
    if options["dtype"] is None:
        options["dtype"] = torch.float32 if device == "cpu" else "auto"
        if placed_by_map:
            del options["dtype"]
    where = f"The model {quoted(source) if place is None else f'in {place}'}"
    neither = f"is neither a named model ({', '.join(NAMED)}) nor a local folder, and the hub did not deliver it"
    refusal = "" if place is not None else f"{where} {neither}. Check the spelling, the connection, or give a folder"
    hf: Any = load_pretrained(place or source, options, where, refusal)
    found, why = load_tokenizer(
        place or source, {**local, **{key: options[key] for key in ("revision", "token") if key in options}}
    )
    return (hf if placed_by_map else hf.to(torch.device(device))), found, why


def _usable(device: str) -> str:
    try:
        torch.empty(0, device=device)
        if torch.device(device).type == "meta":
            raise RuntimeError("it has no memory")
        return device
    except (RuntimeError, AssertionError) as error:
        raise HeadcountError(f"The device {quoted(device)} cannot be used here: {in_short(error, 120)}") from error


def _place(source: str) -> Path | None:
    """The local folder that a source stands for, or None for a hub id."""
    if source in NAMED:
        return NAMED[source]()
    if not source:
        raise HeadcountError("The name of the model is empty.")
    folder = local_path(source)
    if folder.is_dir():
        if not (folder / "config.json").is_file() and not is_sparse(folder):
            raise HeadcountError(
                f"The folder {source} holds no config.json, so it is not a Hugging Face model."
                " Point to the folder that save_pretrained wrote."
            )
        return folder
    if folder.is_file():
        raise HeadcountError(
            f"{source} is a file. A model is a folder that save_pretrained wrote, a hub id, or a name."
        )
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise HeadcountError(f"There is no model folder at {source}.{did_you_mean(source, NAMED)}")
    # A slip in a name is told at once, before the hub is asked.
    if get_close_matches(source, NAMED, n=1, cutoff=0.75):
        raise HeadcountError(f"There is no model {quoted(source)}.{did_you_mean(source, NAMED)}")
    return None


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
