"""Where the residual stream is read and written: what edge analysis touches beside the heads themselves.

Heads need the output projection only (`anatomy.py`). Edges need every reader's projection and norm as well, so a family
has to be listed here; one that is not still works for heads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from ..errors import HeadcountError
from ..graph import ROLES, Graph, Role
from .anatomy import FAMILIES
from .model import Model
from .norms import NormParts


@dataclass(frozen=True)
class Wires:
    """Module names inside a layer. The defaults are Llama's."""

    attention_norm: str | None = "input_layernorm"
    queries: str = "self_attn.q_proj"
    keys: str = "self_attn.k_proj"
    values: str = "self_attn.v_proj"
    layout: Literal["separate", "blocks", "by head"] = "separate"
    """How the projections' outputs lie: three modules; one module with all q, all k, all v; or q, k, v head by head."""
    mlp_norm: str | None = "post_attention_layernorm"
    mlp_in: str = "mlp"
    """The module whose input the MLP reads."""
    mlp_out: str = "mlp"
    """The module whose output is added to the stream."""
    parallel: Callable[[Any], bool] = lambda config: False


def _fused(module: str, layout: Literal["blocks", "by head"], **names: Any) -> Wires:
    return Wires(queries=module, keys=module, values=module, layout=layout, **names)


LLAMA = Wires()
GEMMA = Wires(mlp_norm="pre_feedforward_layernorm", mlp_out="post_feedforward_layernorm")

WIRES: dict[str, Wires] = {
    "gpt2": _fused("attn.c_attn", "blocks", attention_norm="ln_1", mlp_norm="ln_2"),
    "gpt_neox": _fused("attention.query_key_value", "by head", parallel=lambda config: config.use_parallel_residual),
    "opt": Wires("self_attn_layer_norm", mlp_norm="final_layer_norm", mlp_in="fc1", mlp_out="fc2"),
    "phi3": _fused("self_attn.qkv_proj", "blocks"),
    "olmo2": Wires(attention_norm=None, mlp_norm=None, mlp_out="post_feedforward_layernorm"),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "olmo", "gemma"), LLAMA),
    **dict.fromkeys(("gemma2", "gemma3_text", "gemma3"), GEMMA),
}


@dataclass(frozen=True)
class Projection:
    """How the heads of one layer read one role: rows of a linear module."""

    module: nn.Module
    rows: Tensor
    """Output features of the module, [head, head size]."""

    def weight(self) -> Tensor:
        """[head, head size, d_model]."""
        weight = cast(Tensor, self.module.weight)
        # GPT-2's Conv1D stores [in, out]; nn.Linear stores [out, in].
        out_first = weight if isinstance(self.module, nn.Linear) else weight.T
        return out_first[self.rows]


@dataclass(frozen=True)
class LayerWiring:
    attention_norm: NormParts | None
    projections: dict[Role, Projection]
    heads_norm: NormParts | None
    """The norm between the sum of the heads and the stream, in post-norm blocks."""
    mlp_norm: NormParts | None
    mlp_in: nn.Module
    mlp_out: nn.Module


@dataclass(frozen=True)
class Wiring:
    graph: Graph
    layers: tuple[LayerWiring, ...]
    final_norm: NormParts


def find_wiring(model: Model) -> Wiring:
    """The readers and writers of a model, or an error that names the family."""
    anatomy, config = model.anatomy, model.hf.config
    text = config.get_text_config()
    wires, family = WIRES.get(anatomy.model_type), FAMILIES.get(anatomy.model_type)
    pre_norm = getattr(text, "do_layer_norm_before", True)  # OPT-350m norms the whole stream after each block
    if wires is None or family is None or anatomy.final_norm is None or not pre_norm:
        raise HeadcountError(
            f"Edges are not supported for the family {anatomy.model_type!r}; its heads are: use heads, or a model of"
            f" {', '.join(sorted(WIRES))}."
        )
    like = cast(Tensor, model.unembedding.weight)
    n_kv = int(getattr(text, "num_key_value_heads", None) or anatomy.n_heads)
    graph = Graph(anatomy.n_layers, anatomy.n_heads, n_kv, bool(wires.parallel(text)))
    blocks = model.hf.get_submodule(family.layers)

    def norm(layer: nn.Module, name: str | None) -> NormParts | None:
        return None if name is None else NormParts.probe(layer.get_submodule(name), like)

    layers = []
    for index, block in enumerate(blocks):
        names = zip(ROLES, (wires.queries, wires.keys, wires.values), strict=True)
        layers.append(
            LayerWiring(
                attention_norm=norm(block, wires.attention_norm),
                projections={
                    role: Projection(block.get_submodule(name), _rows(graph, anatomy.head_size, wires.layout, role))
                    for role, name in names
                },
                heads_norm=NormParts.probe(anatomy.attention_norms[index], like) if anatomy.attention_norms else None,
                mlp_norm=norm(block, wires.mlp_norm),
                mlp_in=block.get_submodule(wires.mlp_in),
                mlp_out=block.get_submodule(wires.mlp_out),
            )
        )
    return Wiring(graph, tuple(layers), NormParts.probe(anatomy.final_norm, like))


def _rows(graph: Graph, size: int, layout: str, role: Role) -> Tensor:
    """Which output features of a projection belong to which head of a role, [head, head size]."""
    heads = torch.arange(graph.heads_of(role))[:, None]
    within = torch.arange(size)
    if layout == "by head":
        return (3 * heads + ROLES.index(role)) * size + within
    before = 0
    if layout == "blocks":
        before = sum(graph.heads_of(other) for other in ROLES[: ROLES.index(role)]) * size
    return before + heads * size + within
