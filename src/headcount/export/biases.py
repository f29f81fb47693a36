"""A place for a constant that heads write: a bias of the attention output projection, wherever an architecture can
have one. In this order:

1. the bias that is there;
2. a flag of the config that gives the projection a bias (`attention_bias` of Llama, Gemma, OLMo and Qwen3, which gives
   queries, keys and values one too: those are zero);
3. in parallel blocks (GPT-J), where attention and MLP are added to the same sum, the bias of the MLP;
4. the same mathematics under another name: Mistral, Qwen2 and Phi-3 are SmolLM3 with rotary positions in every layer,
   whose attention has biases.
"""

import copy
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel, SmolLM3Config

from ..models.anatomy import find_anatomy
from ..models.families import FAMILIES

Constants = Mapping[int, Tensor]  # layer -> [width]
FLAGS = ("attention_bias", "enable_bias")
RENAMED = ("mistral", "qwen2", "phi3")
SHARED = (
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads hidden_act"
    " max_position_embeddings rms_norm_eps pad_token_id bos_token_id eos_token_id rope_parameters attention_dropout"
    " tie_word_embeddings"
).split()
"""What their configs call by the same names."""


@torch.no_grad()
def with_constants(hf: PreTrainedModel, constants: Constants, model_type: str) -> PreTrainedModel | None:
    """A model that adds a constant to what the attention of some layers writes; None where there is no place for it."""
    family = FAMILIES.get(model_type)
    for flag in FLAGS:
        if _bias(hf, 0) is None and getattr(hf.config, flag, None) is False:
            hf = _rebuilt(hf, flag)
    if _bias(hf, 0) is None and family is not None and family.edges and family.edges.parallel(hf.config):
        return _in_mlp(hf, constants, family.edges.mlp_out)
    if _bias(hf, 0) is None and model_type in RENAMED:
        hf = as_smollm3(hf)
    if _bias(hf, 0) is None:
        return None
    for layer, constant in constants.items():
        cast(Tensor, _bias(hf, layer)).add_(constant.to(hf.dtype))
    return hf


def _bias(hf: PreTrainedModel, layer: int) -> Tensor | None:
    found: Tensor | None = getattr(find_anatomy(hf).out_projections[layer], "bias", None)
    return found


def _rebuilt(hf: PreTrainedModel, flag: str) -> PreTrainedModel:
    """The same weights with the biases that a flag gives, which are zero."""
    config = copy.deepcopy(hf.config)
    setattr(config, flag, True)
    return _filled(config, hf.state_dict(), hf)


def _filled(config: Any, weights: Mapping[str, Tensor], like: PreTrainedModel) -> PreTrainedModel:
    made: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, dtype=like.dtype, attn_implementation=like.config._attn_implementation
    )
    missing, unexpected = made.load_state_dict(dict(weights), strict=False)
    assert not unexpected, unexpected
    own = dict(made.named_parameters())
    for name in missing:
        assert name.endswith(".bias"), name
        own[name].zero_()
    made.eval()
    return made


def _in_mlp(hf: PreTrainedModel, constants: Constants, mlp_out: str) -> PreTrainedModel | None:
    layers = find_anatomy(hf).layers
    for layer, constant in constants.items():
        linear = [module for module in layers[layer].get_submodule(mlp_out).modules() if isinstance(module, nn.Linear)]
        if not linear or linear[-1].bias is None:
            return None
        linear[-1].bias.add_(constant.to(hf.dtype))
    return hf


@torch.no_grad()
def as_smollm3(hf: PreTrainedModel) -> PreTrainedModel:
    """A Llama, Mistral, Qwen2 or Phi-3 as SmolLM3: every layer has rotary positions, and a window where the model has
    one."""
    config: Any = hf.config
    window = getattr(config, "sliding_window", None)
    own = getattr(config, "layer_types", None)
    types = own or ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
    made = SmolLM3Config(
        **{name: getattr(config, name) for name in SHARED},
        mlp_bias=getattr(config, "mlp_bias", False),
        attention_bias=True,
        no_rope_layers=[1] * config.num_hidden_layers,
        use_sliding_window="sliding_attention" in types,
        sliding_window=window,
        layer_types=list(types),
    )
    made.head_dim = find_anatomy(hf).head_size
    return _filled(made, _separate(hf, made), hf)


def _separate(hf: PreTrainedModel, config: Any) -> dict[str, Tensor]:
    """Weights of Llama's names; Phi-3 keeps queries, keys and values in one matrix, and gate and up in another."""
    queries, keys = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    found: dict[str, Tensor] = {}
    for name, weight in hf.state_dict().items():
        if "qkv_proj" in name:
            for part, value in zip("qkv", weight.split([queries, keys, keys]), strict=True):
                found[name.replace("qkv_proj", f"{part}_proj")] = value
        elif "gate_up_proj" in name:
            for part, value in zip(("gate", "up"), weight.chunk(2), strict=True):
                found[name.replace("gate_up_proj", f"{part}_proj")] = value
        else:
            found[name] = weight
    return found
