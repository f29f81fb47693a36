"""A sparse model on disk: an adapter for a dense base, or whole weights, and the gates beside.

sparse.json           form of the gates, the base with its fingerprint, how the model was made and evaluated
gates.safetensors     the offset of every head, and its sink where heads have sinks, [layer, head]
adapter_model.safetensors, adapter_config.json      as peft writes them, or
model.safetensors, config.json, tokenizer files     as transformers writes them (dense, if loaded without gates)
"""

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from typing_extensions import TypedDict

from ..core.errors import HeadcountError, in_short, listed
from ..core.provenance import Facts
from ..core.reading import json_words, parse_json, read_text
from ..core.words import GateForm
from .adapters import has_adapter, merge_adapter
from .anatomy import find_anatomy
from .gates import Gates, add_gates
from .model import Model

SAME_NORM = 1e-3  # half precision moves a tensor's norm by some 1e-5, bfloat16 by 1e-4; other weights by more
FACTS, GATES = "sparse.json", "gates.safetensors"
CHECKPOINT = "checkpoint.safetensors"
"""Of a run that has not ended: while it is there, nothing beside it counts."""


@with_config(ConfigDict(extra="allow"))
class Made(TypedDict, total=False):
    """How a sparse model was made."""

    recipe: Facts
    steps: int
    """That had been taken: of a twin from inside a ladder, fewer than the recipe's."""
    text: list[str]
    versions: dict[str, str]
    earlier: list[Facts]
    """The recipes of runs that it went on from, with their texts."""
    evaluation: Facts


@dataclass(frozen=True)
class SparseFacts:
    """What stands in sparse.json."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    form: GateForm | None  # None for a dense control
    sharpness: float
    base: str  # name, folder or hub id of the dense model
    base_fingerprint: str
    base_dtype: str = "torch.float32"
    base_norms: list[float] = field(default_factory=list)
    """Of its tensors, by which it is known again in another precision."""
    made: Made = field(default_factory=Made)
    base_revision: str | None = None  # of a base on the hub

    @property
    def steps(self) -> object:
        """Of its last run."""
        return self.made.get("steps", self.made["recipe"]["steps"])

    def history(self) -> list[Facts]:
        """The recipes of the runs that a result comes from, first to last."""
        own = {**self.made["recipe"], "steps": self.steps, "text": self.made["text"]}
        return [*self.made.get("earlier", []), own]

    def save(self, folder: Path) -> None:
        (folder / FACTS).write_text(json.dumps(vars(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "SparseFacts":
        where = f"{folder / FACTS} is not what headcount sparsify writes"
        try:
            written = read_text(folder / FACTS, "The file")
            parse_json(written)
            facts = TypeAdapter(cls).validate_json(written)
        except ValidationError as error:
            wrong = error.errors()[0]
            raise HeadcountError(f"{where}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}.") from error
        except ValueError as error:
            raise HeadcountError(f"{where}: {json_words(error)}.") from error
        if not (math.isfinite(facts.sharpness) and facts.sharpness > 0):
            raise HeadcountError(f"{where}: sharpness must be a number above 0; got {facts.sharpness}.")
        return facts


def is_sparse(folder: Path) -> bool:
    """Whether a folder holds the result of a run; refused where that run has not ended."""
    if is_unfinished(folder) and (folder / FACTS).exists():
        raise HeadcountError(f"{folder} holds a run of headcount sparsify that was stopped; the same command ends it.")
    return (folder / FACTS).is_file()


def is_unfinished(folder: Path) -> bool:
    return (folder / CHECKPOINT).exists()


def save_gates(folder: Path, gates: tuple[Gates, ...]) -> None:
    kept = {name: [getattr(layer, name) for layer in gates] for name in ("offset", "sink")}
    stacked = {
        name: torch.stack([row.detach().float().cpu() for row in rows])
        for name, rows in kept.items()
        if rows[0] is not None
    }
    save_file(stacked, folder / GATES)


def has_sinks(folder: Path) -> bool:
    return "sink" in _written_gates(folder)


def read_gates(gates: tuple[Gates, ...], folder: Path, new_sinks: bool = False) -> None:
    """Give the gates of a model the offsets and sinks of a file, or offsets alone where the sinks are new."""
    written = _written_gates(folder)
    layers, heads = len(gates), gates[0].offset.numel()
    wanted = {"offset"} if gates[0].sink is None or new_sinks else {"offset", "sink"}
    if set(written) != wanted:
        raise HeadcountError(
            f"The gates in {folder / GATES} must hold {listed(sorted(wanted))}. They hold {listed(sorted(written))}."
        )
    for name, rows in written.items():
        if tuple(rows.shape) != (layers, heads):
            raise HeadcountError(
                f"The gates in {folder} have the shape {list(rows.shape)}, and the model has {layers} layers of {heads}"
                " heads. They belong to another model."
            )
        if not (rows.is_floating_point() and bool(rows.isfinite().all())):
            raise HeadcountError(f"The gates in {folder / GATES} are damaged: some are not finite numbers.")
        with torch.no_grad():
            for layer, row in zip(gates, rows, strict=True):
                getattr(layer, name).copy_(row)


def _written_gates(folder: Path) -> dict[str, Tensor]:
    try:
        found: dict[str, Tensor] = load_file(folder / GATES)
        return {"offset": found.pop("offset"), **found}
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise HeadcountError(f"The gates in {folder / GATES} cannot be read: {in_short(error)}") from error


def require_base(facts: SparseFacts, base: Model, folder: Path) -> None:
    """An adapter belongs to one base; rounded to another precision that has another hash, and nearly the same norms."""
    if base.weights_hash == facts.base_fingerprint:
        return
    if str(base.hf.dtype) != facts.base_dtype and facts.base_norms:
        found, wanted = torch.tensor(weight_norms(base)), torch.tensor(facts.base_norms)
        if found.shape == wanted.shape and torch.allclose(found, wanted, rtol=SAME_NORM, atol=1e-6):
            return
    raise HeadcountError(
        f"The adapter in {folder} was trained on {facts.base} with the weights {facts.base_fingerprint}, and the base"
        f" that was found has the weights {base.weights_hash}. Name the one it belongs to:"
        " headcount.load(folder, base=…)."
    )


def weight_norms(model: Model) -> list[float]:
    return [float(f"{float(weights.float().norm()):.6g}") for _, weights in sorted(model.hf.state_dict().items())]


def make_sparse(model: Model, folder: Path) -> Model:
    """Turn a dense model into the sparse one of a folder: adapters merged into its weights, gates put in. Merged, every
    module is what it was before, so that scores, cuts and circuits need no special case."""
    facts = SparseFacts.load(folder)
    if has_adapter(folder):
        require_base(facts, model, folder)
        hf = merge_adapter(model.hf, folder)
        # A model of its own: what the dense one knows of itself (its fingerprint) holds no longer.
        model = replace(model, hf=hf, anatomy=find_anatomy(hf))
    if facts.form is not None:
        read_gates(add_gates(model, facts.form, 0.0, facts.sharpness, has_sinks(folder)), folder)
        model.hf.requires_grad_(False)
    return model
