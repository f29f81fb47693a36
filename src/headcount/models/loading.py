"""`headcount.load`: from what the user has to a `Model`."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from ..core.errors import HeadcountError, in_short
from ..core.plain import plain, quoted
from ..core.provenance import Facts
from ..core.reading import local_path
from . import bundled, smollm2
from .adapters import base_of, fit_vocabulary, has_adapter, is_adapted, is_adapter, is_peft, merge_adapter, unwrapped
from .anatomy import find_anatomy
from .gated_folder import SparseFacts, is_sparse, make_sparse
from .gguf_files import GGUF, parsed_once
from .hub_adapters import fetched_adapter
from .missing import not_delivered, require_hub_id
from .model import Model
from .plain_weights import eager
from .pretrained import load_pretrained, load_tokenizer

NAMED: dict[str, Callable[[], Path]] = {"smollm2": smollm2.folder, **bundled.FOLDERS}
"""Models known by a short name; the function returns their folder and fetches it first where need be."""
CHECKPOINT = re.compile(r"checkpoint-\d+")


def load(
    source: str | Path | nn.Module,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    name: str | None = None,
    base: str | Path | None = None,
    device: str | None = None,
    dtype: str | torch.dtype | None = None,
    bos: bool = False,
    merge: bool = True,
    **from_pretrained: object,
) -> Model:
    """Load a model for analysis.

    **Arguments:**

    - `source`: a named model (`"smollm2"`), a local folder (of `save_pretrained`, a trainer's checkpoint, or an adapter
      of peft), a GGUF file, a hub id (of a model or of an adapter), or a module that is already in memory, also a
      `PeftModel`.
    - `tokenizer`: for a module in memory; otherwise the one that lies with the model.
    - `name`: what tables and figures call it.
    - `base`: for an adapter: the model it goes on, where that is not where it was in training.
    - `device`: `"cpu"`, `"cuda"`, `"mps"` …; the best one there is by default. Left alone with `device_map`.
    - `dtype`: float32 on the CPU by default, the checkpoint's own elsewhere.
    - `bos`: put the beginning-of-text token in front of every prompt, where the tokenizer does not and the model was
      trained with it.
    - `merge`: of a `PeftModel`, whether to take a copy with the adapter in its weights, or (False) the model itself
      with its adapter live: the very same logits, but what reads weights (edges, `direct`) refuses it.
    - anything else (`device_map`, `revision`, `attn_implementation` …) goes to HF's `from_pretrained`.

    A local source never needs the network. The module is put into evaluation mode. Weights that the files lack, that
    nothing takes, of another shape than the config wants, or that are not finite, are refused by name.
    """
    if not isinstance(source, str | Path | nn.Module):
        raise HeadcountError(f"A model is a name, a folder or a module; got a {type(source).__name__}.")
    if isinstance(source, nn.Module):
        options = {**from_pretrained, "device": device, "dtype": dtype, "base": base}
        if given := sorted(option for option, value in options.items() if value is not None):
            raise HeadcountError(f"A module in memory takes no {', '.join(given)}: move or cast it before loading.")
        module = eager(source)
        hf: Any = unwrapped(module, merge) if is_peft(module) else module
        sparse, no_tokenizer = None, ""
        name = name or Path(getattr(hf, "name_or_path", "") or type(hf).__name__).name
    else:
        place, from_pretrained = _found(str(source), from_pretrained)
        if place is not None and from_pretrained.get("revision"):
            raise HeadcountError(f"A revision belongs to a model on the hub, and {source} is on this machine.")
        name = name or Path(str(source)).name or (place or Path()).resolve().name
        sparse = place if place is not None and is_sparse(place) else None
        facts = sparse and SparseFacts.load(sparse)
        adapter = place if place is not None and sparse is None and is_adapter(place) else None
        if (sparse and facts and has_adapter(sparse)) or adapter:
            adapted, source = source, str(base or (facts.base if facts else base_of(cast(Path, adapter))))
            if facts and facts.base_revision and base is None:
                from_pretrained["revision"] = facts.base_revision
            place = _base_place(source, str(adapted))
            if place is not None and (is_sparse(place) or is_adapter(place)):
                raise HeadcountError(f"The adapter in {adapted} has {source} as its base, which is no dense model.")
        elif base is not None:
            raise HeadcountError(f"A base belongs to an adapter; {source} is a model of its own.")
        hf, found, no_tokenizer = _from_pretrained(str(source), place, device, {"dtype": dtype, **from_pretrained})
        if adapter is not None:
            own, _ = load_tokenizer(adapter, {"local_files_only": True})
            found, no_tokenizer = (own, "") if own is not None else (found, no_tokenizer)
            fit_vocabulary(hf, own)
            hf = merge_adapter(hf, adapter)
        tokenizer = tokenizer or found
    hf.eval()
    model = Model(plain(name), hf, tokenizer, find_anatomy(hf), no_tokenizer, bos)
    if is_adapted(model.unembedding):  # or it is no language model
        raise HeadcountError("The adapter is live on the unembedding: headcount.load(model, merge=True) merges it.")
    return model if sparse is None else make_sparse(model, sparse)


def takes_base(source: str, **from_pretrained: object) -> bool:
    """Whether a source is an adapter, whose base can be named; those that came with the package know theirs."""
    place, _ = (None, {}) if source in NAMED else _found(source, from_pretrained)
    return place is not None and (is_adapter(place) or (is_sparse(place) and has_adapter(place)))


def is_local(source: str) -> bool:
    """Whether a source is on this machine, or came with the package, and has no revisions."""
    return source in NAMED or _place(source) is not None


def _found(source: str, options: dict[str, Any]) -> tuple[Path | None, dict[str, Any]]:
    """The local folder of a source, or None for a model on the hub; and the options that are left for
    `from_pretrained`: the revision of an adapter is not that of its base."""
    place = _place(source)
    if place is not None or (adapter := fetched_adapter(source, options)) is None:
        return place, options
    return adapter, {key: value for key, value in options.items() if key != "revision"}


def _base_place(base: str, adapter: str) -> Path | None:
    try:
        return _place(base)
    except HeadcountError as error:
        cure = "Or name it: --base-model, or base= in Python."
        raise HeadcountError(f"The adapter in {adapter} goes on {base}: {error} {cure}") from error


def _from_pretrained(
    source: str, place: Path | None, device: str | None, options: dict[str, Any]
) -> tuple[Any, Any, str]:
    """Module and tokenizer of a folder or hub id, and why there is no tokenizer where there is none."""
    local: Facts = {} if place is None else {"local_files_only": True}
    options = {**options, **local}
    placed_by_map = "device_map" in options
    device = _usable(device or _best_device())
    if options["dtype"] is None:
        options["dtype"] = torch.float32 if device == "cpu" else "auto"
        if placed_by_map:
            del options["dtype"]
    where = f"The model {quoted(source) if place is None else f'in {place}'}"
    refusal = partial(not_delivered, source, NAMED) if place is None else None
    if place is not None and place.suffix == GGUF:
        options["gguf_file"], place = place.name, place.parent
    shared: dict[str, Any] = {key: options[key] for key in ("revision", "token", "gguf_file") if key in options}
    with parsed_once():
        hf: Any = load_pretrained(place or source, options, where, refusal)
        found, why = load_tokenizer(place or source, {**local, **shared})
    if found is None and place is not None and CHECKPOINT.fullmatch(place.resolve().name):
        # A trainer that was not told of the tokenizer leaves it to its user, who mostly saves it one level up.
        found, why = load_tokenizer(place.resolve().parent, local)
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
        if not (folder / "config.json").is_file() and not is_sparse(folder) and not is_adapter(folder):
            raise HeadcountError(
                f"The folder {source} holds no config.json, so it is not a Hugging Face model. {_nearby(folder)}"
            )
        return folder
    if folder.is_file():
        if folder.suffix == GGUF:
            return folder
        raise HeadcountError(
            f"{source} is a file. A model is a folder that save_pretrained wrote, a GGUF file, a hub id, or a name."
        )
    require_hub_id(source, NAMED)
    return None


def _nearby(folder: Path) -> str:
    """What the user may have meant by a folder that is no model."""
    checkpoints = [path for path in folder.iterdir() if CHECKPOINT.fullmatch(path.name) and path.is_dir()]
    if checkpoints:
        latest = max(checkpoints, key=lambda path: int(path.name.rpartition("-")[2]))
        return f"It holds {len(checkpoints)} checkpoints of a trainer; give one of them, such as {latest}."
    if files := sorted(folder.glob(f"*{GGUF}")):
        return f"Give the file itself: {files[0]}."
    return "Point to the folder that save_pretrained wrote."


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
