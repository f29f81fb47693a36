"""`headcount.load`: from what the user has to a `Model`."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedTokenizerBase

from ..core.errors import HeadcountError, did_you_mean, in_short
from . import bundled, smollm2
from .anatomy import find_anatomy
from .gated_folder import SparseFacts, has_adapter, is_sparse, make_sparse
from .model import Model

LOAD_ERRORS = (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError, StrictDataclassError)
"""What Hugging Face's libraries raise for files that are missing, broken or contradict each other."""

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

    A local source never needs the network. The module is put into evaluation mode.
    """
    if not isinstance(source, str | Path | nn.Module):
        raise HeadcountError(f"A model is a name, a folder or a module; this is a {type(source).__name__}.")
    if isinstance(source, nn.Module):
        options = {**from_pretrained, "device": device, "dtype": dtype, "base": base}
        if given := sorted(option for option, value in options.items() if value is not None):
            raise HeadcountError(f"A module in memory takes no {', '.join(given)}: move or cast it before loading.")
        hf: Any = source
        sparse = None
        name = name or Path(getattr(hf, "name_or_path", "") or type(hf).__name__).name
    else:
        name = name or Path(str(source)).name
        place = _place(str(source))
        sparse = place if place is not None and is_sparse(place) else None
        facts = sparse and SparseFacts.load(sparse)
        if sparse and facts and has_adapter(sparse):
            source = str(base or facts.base)
            place = _place(source)
        elif base is not None:
            raise HeadcountError(f"A base belongs to the adapter of a sparse model; {source} is a model of its own.")
        hf, tokenizer = _from_pretrained(str(source), place, tokenizer, device, {"dtype": dtype, **from_pretrained})
    hf.eval()
    model = Model(name=name, hf=hf, tokenizer=tokenizer, anatomy=find_anatomy(hf))
    return model if sparse is None else make_sparse(model, sparse)


def _from_pretrained(
    source: str, place: Path | None, tokenizer: Any, device: str | None, options: dict[str, Any]
) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    local = {} if place is None else {"local_files_only": True}
    options = {"trust_remote_code": False, **options, **local}
    placed_by_map = "device_map" in options
    device = device or _best_device()
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise HeadcountError(f"The device {device!r} cannot be used here: {in_short(error, 120)}") from error
    if options["dtype"] is None:
        options["dtype"] = torch.float32 if device == "cpu" else "auto"
        if placed_by_map:
            del options["dtype"]
    try:
        hf: Any = AutoModelForCausalLM.from_pretrained(place or source, **options)
    except LOAD_ERRORS as error:
        said = f"The model in {place} could not be loaded: {in_short(error)}"
        if place is None:
            said = (
                f"The model {source!r} is neither a named model ({', '.join(NAMED)}) nor a local folder, and the hub"
                " did not deliver it. Check the spelling, the connection, or give a folder."
                f" (It said: {in_short(error)} …)"
            )
        raise HeadcountError(said) from error
    if tokenizer is None:
        revision = {key: options[key] for key in ("revision", "token") if key in options}
        try:
            tokenizer = AutoTokenizer.from_pretrained(place or source, trust_remote_code=False, **local, **revision)
        except (OSError, ValueError, KeyError, ImportError, TypeError):
            tokenizer = None  # Token ids still work; Model.encode says what is missing when text comes.
    return (hf if placed_by_map else hf.to(torch.device(device))), tokenizer


def _place(source: str) -> Path | None:
    """The local folder that a source stands for, or None for a hub id."""
    if source in NAMED:
        return NAMED[source]()
    if not source:
        raise HeadcountError("The name of the model is empty.")
    folder = Path(source).expanduser()
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
        raise HeadcountError(f"There is no model {source!r}.{did_you_mean(source, NAMED)}")
    return None


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
