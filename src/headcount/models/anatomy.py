"""Where the heads live in a Hugging Face decoder.

All that head analysis needs is the output projection of every attention layer: its input is the concatenation of the
heads' values z, [batch, position, heads * head size]. Families differ only in what their modules are called
(`families.py`); one that is not listed is tried against the shapes that are.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, nn

from ..core.errors import HeadcountError
from .families import FAMILIES, Family
from .plain_weights import require_plain


@dataclass(frozen=True)
class Anatomy:
    """The modules that head analysis touches, one entry a layer, and the shape of what flows through them."""

    model_type: str
    n_heads: int
    head_size: int
    layers: tuple[nn.Module, ...]
    attentions: tuple[nn.Module, ...]
    out_projections: tuple[nn.Module, ...]
    attention_norms: tuple[nn.Module, ...] | None
    """Norms that the heads' sum passes on its way into the residual stream; None in ordinary pre-norm blocks."""
    final_norm: nn.Module | None
    """None where the family is not registered: heads can be cut, direct logit attribution cannot be computed."""

    @property
    def n_layers(self) -> int:
        return len(self.out_projections)

    def out_weight(self, layer: int) -> Tensor:
        """What each head of a layer writes: [head, head size, d_model], so that head h writes z_h @ weight[h]."""
        return out_first(self.out_projections[layer]).T.reshape(self.n_heads, self.head_size, -1)


def out_first(module: nn.Module) -> Tensor:
    """A weight as nn.Linear stores it, [out, in]; GPT-2's Conv1D stores [in, out]."""
    require_plain(module)
    weight = cast(Tensor, module.weight)
    return weight if isinstance(module, nn.Linear) else weight.T


def find_anatomy(hf: nn.Module) -> Anatomy:
    """The anatomy of a model by its registered family, or by the first registered shape that fits it."""
    config: Any = getattr(hf, "config", None)
    if not hasattr(config, "model_type"):
        raise HeadcountError(f"{type(hf).__name__} is not a Hugging Face model: it has no config with a model_type.")
    model_type = config.model_type
    registered = FAMILIES.get(model_type)
    for family in dict.fromkeys(FAMILIES.sound().values()) if registered is None else [registered]:
        found = _described(hf, family, known=registered is not None)
        if found is not None:
            return found
    wanted = f"The attention output projections of {type(hf).__name__} (model type {model_type!r}) were not found."
    if registered is not None:
        wanted = (
            f"The family {model_type!r} is registered with layers at {registered.layers!r} and an output projection"
            f" {registered.attention}.{registered.out_projection}, but the model has no such modules."
        )
    modules = [(name, module) for name, module in hf.named_modules() if isinstance(module, nn.ModuleList) and module]
    lists = ", ".join(f"{name} ({len(module)} x {type(module[0]).__name__})" for name, module in modules)
    seen = f"Its lists of modules: {lists}." if lists else "It has no list of layers."
    raise HeadcountError(
        f"{wanted} Register where they are before loading: headcount.register_family({model_type!r}, headcount.Family("
        "layers='model.layers', attention='self_attn', out_projection='o_proj', final_norm='model.norm'))"
        f" with the names that this model uses. {seen}"
    )


def _described(hf: nn.Module, family: Family, known: bool) -> Anatomy | None:
    """None where not every decoder layer has the family's attention with its output projection."""
    layers, path = _module(hf, family.layers), f"{family.attention}.{family.out_projection}"
    if not isinstance(layers, nn.ModuleList) or not layers or any(_module(layer, path) is None for layer in layers):
        return None
    config: Any = hf.config
    n_heads = int(config.get_text_config().num_attention_heads)
    projections = tuple(layer.get_submodule(path) for layer in layers)
    widths = {_width(projection) for projection in projections}
    if len(widths) != 1 or min(widths) % n_heads:
        raise HeadcountError(
            f"Every layer of {type(hf).__name__} must have the same {n_heads} heads (config.num_attention_heads),"
            f" but its output projections take {', '.join(map(str, sorted(widths)))} inputs."
            " Models whose layers differ in their heads are not supported."
        )
    norm = family.attention_norm
    return Anatomy(
        model_type=config.model_type,
        n_heads=n_heads,
        # Never hidden/heads: Qwen3 and Gemma choose the head size freely.
        head_size=min(widths) // n_heads,
        layers=tuple(layers),
        attentions=tuple(layer.get_submodule(family.attention) for layer in layers),
        out_projections=projections,
        # What a norm of that name means is known for registered families only.
        attention_norms=tuple(layer.get_submodule(norm) for layer in layers) if known and norm else None,
        final_norm=_module(hf, family.final_norm) if known else None,
    )


def _width(projection: nn.Module) -> int:
    """How many features a projection takes."""
    known: int | None = getattr(projection, "in_features", None)
    return int(cast(Tensor, projection.weight).shape[0]) if known is None else known  # GPT-2's Conv1D: [in, out]


def _module(root: nn.Module, path: str) -> nn.Module | None:
    with suppress(AttributeError):
        return root.get_submodule(path)
    return None
