"""Grouped-query attention of one token without copying keys and values.

While a model writes, each step attends with one query a head. Hugging Face first repeats keys and values for every
query head of a group, which then takes longer than the whole rest of the step. But the queries of a group look at the
same keys under the same mask, so they can stand as rows of one query: the same kernel, the same sums, no copies.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .attention import attending_by
from .model import Model

NAME = "headcount_grouped"


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    rows, heads, length, size = query.shape
    if length > 1 or heads == key.shape[1]:
        found: tuple[Tensor, None] = ALL_ATTENTION_FUNCTIONS["sdpa"](
            module, query, key, value, attention_mask, **options
        )
        return found
    mixed = nn.functional.scaled_dot_product_attention(
        query.reshape(rows, key.shape[1], -1, size), key, value, attn_mask=attention_mask, scale=options.get("scaling")
    )
    return mixed.reshape(rows, 1, heads, value.shape[-1]), None


def grouped_attention(model: Model) -> AbstractContextManager[None]:
    """Use it while the block lasts, where the model attends by `sdpa`; others are left alone."""
    return attending_by(model, NAME, _attention) if model.hf.config._attn_implementation == "sdpa" else nullcontext()
