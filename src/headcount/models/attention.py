"""The one way to swap a model's attention function: transformers' `AttentionInterface`, while a block lasts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from .model import Model

AttentionFunction = Callable[..., tuple[Tensor, Tensor | None]]
"""(module, query, key, value, attention_mask, **options) -> what heads carry [row, position, head, size], weights."""


def register_attention(name: str, function: AttentionFunction) -> None:
    """Make a function known to transformers, with masks as sdpa has them."""
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


@contextmanager
def attending_by(model: Model, name: str, function: AttentionFunction | None = None) -> Iterator[None]:
    """Let the model attend by a function of ours, or by one that transformers knows, while the block lasts."""
    before = model.hf.config._attn_implementation
    if function is not None:
        register_attention(name, function)
    try:
        model.hf.set_attn_implementation(name)
        yield
    finally:
        model.hf.set_attn_implementation(before)
