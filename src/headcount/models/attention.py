"""The one way to swap a model's attention function: transformers' `AttentionInterface`, while a block lasts.

`grouped_attention` is grouped-query attention of one token without copying keys and values. While a model writes, each
step attends with one query per head. Hugging Face first repeats keys and values for every query head of a group, which
then takes longer than the whole rest of the step. But the queries of a group look at the same keys under the same mask,
so they can stand as rows of one query: the same kernel, the same sums, no copies.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .changes import changing
from .model import Model

NAME = "headcount_grouped"
Mask = Tensor | None
Mixed = tuple[Tensor, Tensor | None]  # what heads carry, [row, position, head, size], and their weights
AttentionFunction = Callable[..., Mixed]  # of (module, query, key, value, attention_mask, **more)


def register_attention(name: str, function: AttentionFunction) -> None:
    """Make a function known to transformers, with masks as sdpa has them."""
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


@contextmanager
def attending_by(model: Model, name: str, function: AttentionFunction | None = None) -> Iterator[None]:
    """Let the model attend by a function of ours, or by one that transformers knows, while the block lasts."""
    if function is not None:
        register_attention(name, function)
    with changing() as changes:
        changes.note(partial(model.hf.set_attn_implementation, model.hf.config._attn_implementation))
        model.hf.set_attn_implementation(name)
        yield


def _grouped(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Mask, **more: Any) -> Mixed:
    rows, heads, length, size = query.shape
    if length > 1 or heads == key.shape[1]:
        own: AttentionFunction = ALL_ATTENTION_FUNCTIONS["sdpa"]
        return own(module, query, key, value, attention_mask, **more)
    stacked, scale = query.reshape(rows, key.shape[1], -1, size), more.get("scaling")
    mixed = nn.functional.scaled_dot_product_attention(stacked, key, value, attn_mask=attention_mask, scale=scale)
    return mixed.reshape(rows, 1, heads, value.shape[-1]), None


def grouped_attention(model: Model) -> AbstractContextManager[None]:
    """Use it while the block lasts, where the model attends by `sdpa`; others are left alone."""
    return attending_by(model, NAME, _grouped) if model.hf.config._attn_implementation == "sdpa" else nullcontext()
