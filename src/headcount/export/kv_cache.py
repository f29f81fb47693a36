"""Which KV heads need a full cache, for those who keep a short one for the others.

    full_attention_heads.tsv, config.json   DuoAttention (Xiao et al. 2024, arXiv 2410.10819) and kvpress: a row a
                                            layer, a column a KV head, from 0 (a short cache will do) to 1
    head_score.json                         Retrieval_Head (Wu et al. 2024) and HeadKV (Fu et al. 2024): on one line,
                                            "layer-head" -> scores of a query head
    vllm_hook.json                          vLLM-Hook: the query heads that matter most

Query heads that share a KV head need what the neediest of them does. Only positive scores ask for a cache. Any score of
heads can be written; `retrieval` is made for it.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import HeadcountError
from ..core.export_options import CacheOptions
from ..core.files import write_file
from ..core.plain import quoted
from ..core.progress import warn
from ..core.saving import Floats
from ..meters.forecast import read_config
from ..models.wiring import kv_heads
from ..rank.scores import HeadScores

HEADS, CONFIG, RETRIEVAL, HOOK = "full_attention_heads.tsv", "config.json", "head_score.json", "vllm_hook.json"


def kv_cache(scores: HeadScores, options: CacheOptions, folder: Path) -> None:
    """Fill a folder with one file for each reader."""
    n_layers, n_heads = scores.values.shape
    n_kv = options.kv_heads or _kv_heads(scores, options.model)
    if n_heads % n_kv:
        raise HeadcountError(f"{n_heads} heads cannot share {n_kv} KV heads evenly. Check --kv-heads or --model.")
    needs = kv_needs(scores.values, n_kv)
    if not needs.any():
        raise HeadcountError(f"No head has a positive score by {scores.method}, so none asks for a full cache.")
    lines = ["\t".join(f"{value:.18e}" for value in row) for row in needs]
    write_file(folder / HEADS, "\n".join(lines) + "\n")
    origin = {"model": scores.model, "task": scores.task, "method": scores.method}
    sizes = {"sink_size": options.sink, "recent_size": options.recent}
    write_file(folder / CONFIG, json.dumps({**sizes, "num_kv_heads": n_kv, **origin}, indent=1) + "\n")
    by_head = {
        f"{layer}-{head}": scores.by_pair[:, layer, head].tolist() for layer, head in np.ndindex(n_layers, n_heads)
    }
    write_file(folder / RETRIEVAL, json.dumps(by_head) + "\n")
    order = [head for head in scores.order("signed") if scores.values[head] > 0]
    note = f"by {scores.method} on {scores.task}, headcount"
    hook = {
        "model_info": {
            "provider": "attn-hf",
            "name": scores.model,
            "model_id": options.model or scores.model,
            "note": note,
        },
        "params": {"important_heads": [list(head) for head in order[: options.important]]},
        "hookq": {"hookq_mode": "last_token"},
    }
    write_file(folder / HOOK, json.dumps(hook, indent=1) + "\n")


def kv_needs(values: Floats, n_kv: int) -> Floats:
    """[layer, KV head] from 0 to 1: the largest positive score of the group, against the largest of all."""
    positive = np.maximum(values, 0.0).reshape(len(values), n_kv, -1).max(-1)
    largest = positive.max()
    return np.asarray(positive / largest if largest > 0 else positive)


def _kv_heads(scores: HeadScores, model: str | None) -> int:
    """As the config says of the model that was scored, or of the one that is named, which must have the same heads."""
    name = model or scores.model
    try:
        config = read_config(name)
    except HeadcountError as error:
        raise HeadcountError(f"How many KV heads has the model? Give --kv-heads, or --model: {error}") from error
    text: Any = config.get_text_config()
    scores.require_shape(name, int(text.num_hidden_layers), int(text.num_attention_heads))
    if Path(name).name != scores.model:
        warn(f"the scores are of {quoted(scores.model)}; only the config of {quoted(name)} is read, not its weights.")
    return kv_heads(config)
