"""Where things are in a Hugging Face decoder: a family is a handful of module names.

Heads need the output projection of every attention layer alone. Edges need every reader's projection and norm as well:
a family without `edges` still works for heads.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from transformers import PretrainedConfig

from ..core.provenance import Facts
from ..core.registry import Registry


@dataclass(frozen=True)
class Wires:
    """Where the residual stream is read and written: module names inside a layer. The defaults are Llama's."""

    attention_norm: str | None = "input_layernorm"
    queries: str = "self_attn.q_proj"
    keys: str = "self_attn.k_proj"
    values: str = "self_attn.v_proj"
    layout: Literal["separate", "blocks", "by head"] = "separate"
    """How the projections' outputs lie: three modules; one module with all q, all k, all v; or q, k, v head by head."""
    mlp_norm: str | None = "post_attention_layernorm"
    mlp_in: str = "mlp"  # the module whose input the MLP reads
    mlp_out: str = "mlp"  # the module whose output is added to the stream
    gated: bool = True  # whether the MLP multiplies two projections of its input
    learned_positions: bool = False
    """Whether a position embedding is added to that of the token. It is a constant, and belongs to no writer."""
    parallel: Callable[[PretrainedConfig], bool] = lambda config: False


@dataclass(frozen=True)
class Family:
    """Module names of one architecture, seen from the causal language model. The defaults are Llama's."""

    layers: str = "model.layers"
    attention: str = "self_attn"
    out_projection: str = "o_proj"
    final_norm: str = "model.norm"
    attention_norm: str | None = None
    """A norm between the sum of the heads and the residual stream, where the family has one (OLMo-2, Gemma)."""
    edges: Wires | None = None  # None where the family's heads are known and its edges are not


def _fused(module: str, layout: Literal["blocks", "by head"], base: Wires) -> Wires:
    return replace(base, queries=module, keys=module, values=module, layout=layout)


LLAMA = Family(edges=Wires())
GEMMA = Wires(mlp_norm="pre_feedforward_layernorm", mlp_out="post_feedforward_layernorm")
LEARNED = Wires(gated=False, learned_positions=True)
GPT2 = _fused("attn.c_attn", "blocks", replace(LEARNED, attention_norm="ln_1", mlp_norm="ln_2"))
PARALLEL = Wires(gated=False, parallel=lambda config: bool(config.use_parallel_residual))
NEOX = _fused("attention.query_key_value", "by head", PARALLEL)
GPTJ = Wires("ln_1", "attn.q_proj", "attn.k_proj", "attn.v_proj", mlp_norm="ln_1", gated=False, parallel=lambda _: True)
OPT_NORMS = replace(LEARNED, attention_norm="self_attn_layer_norm", mlp_norm="final_layer_norm")
OPT = replace(OPT_NORMS, mlp_in="fc1", mlp_out="fc2")
OLMO2 = Wires(attention_norm=None, mlp_norm=None, mlp_out="post_feedforward_layernorm")
POST_NORM = Family(attention_norm="post_attention_layernorm", edges=GEMMA)
INNER = "model.language_model"  # where the language model of a model of images and text is

OWN = {
    "gpt2": Family("transformer.h", "attn", "c_proj", "transformer.ln_f", edges=GPT2),
    "gpt_neox": Family("gpt_neox.layers", "attention", "dense", "gpt_neox.final_layer_norm", edges=NEOX),
    "gptj": Family("transformer.h", "attn", "out_proj", "transformer.ln_f", edges=GPTJ),
    "opt": Family("model.decoder.layers", "self_attn", "out_proj", "model.decoder.final_layer_norm", edges=OPT),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "olmo", "gemma"), LLAMA),
    "phi3": replace(LLAMA, edges=_fused("self_attn.qkv_proj", "blocks", Wires())),
    "olmo2": replace(POST_NORM, edges=OLMO2),
    **dict.fromkeys(("gemma2", "gemma3_text"), POST_NORM),
    "gemma3": replace(POST_NORM, layers=f"{INNER}.layers", final_norm=f"{INNER}.norm"),
}
FAMILIES: Registry[Family] = Registry("family", "headcount.families", OWN, Family)  # by the config's model type


def family_facts(config: PretrainedConfig) -> Facts:
    """Where things are said to be in a model, for keys: a corrected registration is another result."""
    family = FAMILIES.get(config.model_type)
    if family is None:
        return {}
    edges = family.edges
    wires = {} if edges is None else {**vars(edges), "parallel": bool(edges.parallel(config.get_text_config()))}
    return {**vars(family), "edges": wires}


def register_family(model_type: str, family: Family) -> None:
    """Tell headcount where the heads of an architecture live, and with `Family(edges=Wires(…))` where the residual
    stream is read and written; `model_type` is the one in the model's config."""
    FAMILIES.add(model_type, family)
