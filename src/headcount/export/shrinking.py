"""Really smaller weights: empty KV groups leave queries, keys, values and the output projection.

Hugging Face counts the heads of all layers by one number, so that as many groups leave every layer as the one with the
fewest empty ones has. The head size must be a setting of its own (Llama, Mistral, Qwen, Gemma), and no norm may run
over all heads together (OLMo-2).
"""

import copy
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from ..core.errors import HeadcountError
from ..models.anatomy import find_anatomy
from ..models.families import FAMILIES
from ..models.wiring import kv_heads
from .biases import as_smollm3
from .cuts import HeadCut

SIZED = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "smollm3")
"""Families whose config has the head size, and whose queries and keys are normed head by head or not at all."""
ROUNDS, TOKENS = 7, 128


@torch.no_grad()
def shrunk(hf: PreTrainedModel, cut: HeadCut) -> PreTrainedModel:
    """The model with fewer KV heads; its removed heads already write nothing but what a bias holds."""
    model_type = hf.config.model_type
    if model_type not in SIZED:
        raise HeadcountError(
            f"Weights of {model_type} cannot shrink: its head size follows from the number of heads, or a norm runs"
            f" over all heads. Families that can: {', '.join(SIZED)}. Without --shrink the heads are silenced."
        )
    dropped = _empty_groups(hf, cut)
    groups = kv_heads(hf.config)
    per_group, left = hf.config.num_attention_heads // groups, groups - len(dropped[0])
    if model_type in ("llama", "phi3") and (model_type == "phi3" or hf.config.hidden_size % (left * per_group)):
        # Phi-3 has its projections in one, and Llama's config wants a width that the number of heads divides.
        hf = as_smollm3(hf)
    config, size = copy.deepcopy(hf.config), find_anatomy(hf).head_size
    config.num_key_value_heads, config.num_attention_heads, config.head_dim = left, left * per_group, size
    weights: dict[str, Tensor] = dict(hf.state_dict())
    names = {id(module): name for name, module in hf.named_modules()}
    wires = FAMILIES["llama"].edges
    assert wires is not None
    for layer, module in enumerate(find_anatomy(hf).layers):
        kept = torch.tensor([group for group in range(groups) if group not in dropped[layer]])
        parts = ((wires.queries, per_group, 0), (wires.keys, 1, 0), (wires.values, 1, 0))
        for path, each, axis in (*parts, (_out_path(module, hf, layer), per_group, 1)):
            place = names[id(module.get_submodule(path))]
            rows = (kept[:, None] * each * size + torch.arange(each * size)).flatten()
            weights[f"{place}.weight"] = weights[f"{place}.weight"].index_select(axis, rows).contiguous()
            if axis == 0 and f"{place}.bias" in weights:
                weights[f"{place}.bias"] = weights[f"{place}.bias"][rows]
    return _built(config, weights, hf)


def _out_path(layer: nn.Module, hf: PreTrainedModel, number: int) -> str:
    wanted = find_anatomy(hf).out_projections[number]
    names: list[str] = [name for name, module in layer.named_modules() if module is wanted]
    return names[0]


def _built(config: Any, weights: Mapping[str, Tensor], like: PreTrainedModel) -> PreTrainedModel:
    made: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, dtype=like.dtype, attn_implementation=like.config._attn_implementation
    )
    made.load_state_dict(dict(weights))
    made.eval()
    return made


def _empty_groups(hf: PreTrainedModel, cut: HeadCut) -> list[set[int]]:
    """Of each layer, the groups that leave: as many everywhere. More that are empty stay, silent."""
    if cut.fill.kind == "scale" and cut.fill.scale:
        raise HeadcountError("Heads that are scaled are not empty, so nothing can shrink. Use --fill zero.")
    groups, by_layer = kv_heads(hf.config), cut.by_layer
    size = hf.config.num_attention_heads // groups
    empty = [
        [g for g in range(groups) if {*range(g * size, (g + 1) * size)} <= {*by_layer.get(layer, ())}]
        for layer in range(cut.model.n_layers)
    ]
    least = min(range(len(empty)), key=lambda layer: len(empty[layer]))
    count = min(len(empty[least]), groups - 1)
    if not count:
        raise HeadcountError(
            f"Nothing can shrink: layer {least} keeps a head of each of its {groups} KV groups, and all layers must"
            " lose as many. --groups 1 removes the weakest group of every layer."
        )
    return [set(own[:count]) for own in empty]


def measured(before: PreTrainedModel, after: PreTrainedModel) -> list[dict[str, str]]:
    """Parameters, bytes and seconds of both, the runs in turn."""
    models = before, after
    counts = [sum(p.numel() for p in hf.parameters()) for hf in models]
    bytes_ = [sum(p.numel() * p.element_size() for p in hf.parameters()) for hf in models]
    caches = [_cache_bytes(hf) for hf in models]
    seconds = _seconds(models)
    return [
        _row("parameters", *(f"{count:,}" for count in counts)),
        _row("weights, MB", *(f"{size / 1e6:,.2f}" for size in bytes_)),
        _row("KV cache of a token, kB", *(f"{size / 1e3:,.2f}" for size in caches)),
        _row(f"a forward of {TOKENS} tokens, ms", *(f"{1e3 * each:,.1f}" for each in seconds)),
    ]


def _row(what: str, before: str, after: str) -> dict[str, str]:
    return {"what": what, "before": before, "after": after}


def _cache_bytes(hf: PreTrainedModel) -> int:
    layers = find_anatomy(hf)
    return int(2 * layers.n_layers * kv_heads(hf.config) * layers.head_size * hf.dtype.itemsize)


@torch.no_grad()
def _seconds(models: tuple[PreTrainedModel, ...]) -> list[float]:
    """The median of some runs, the models in turn, so that what else the machine does falls on both."""
    context = min(getattr(hf.config, "max_position_embeddings", TOKENS) for hf in models)
    ids, taken = torch.ones(1, min(TOKENS, context), dtype=torch.long), [list[float]() for _ in models]
    for _ in range(ROUNDS):
        for hf, times in zip(models, taken, strict=True):
            start = time.perf_counter()
            hf(input_ids=ids.to(hf.device), use_cache=False)
            times.append(time.perf_counter() - start)
    return [median(times[1:]) for times in taken]
