"""Weights as they lie in memory: plain numbers, or quantised, or elsewhere until a module runs (accelerate's offload).

Heads are read and changed where their values enter the output projection, which a module that runs shows whatever its
weights are. What reads weights itself (edges, `direct`, the hash) has to know.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..core.errors import HeadcountError


def is_plain(module: nn.Module) -> bool:
    """Whether a module's weight is an ordinary matrix of floating-point numbers in memory."""
    weight: object = getattr(module, "weight", None)
    return (
        isinstance(weight, Tensor)
        and weight.is_floating_point()
        and weight.device.type != "meta"
        and not is_traceable_wrapper_subclass(weight)
    )


def require_plain(module: nn.Module) -> None:
    if hasattr(module, "base_layer"):
        raise HeadcountError(
            "This reads weights, and an adapter is live on those of this model. Merge it: headcount.load(model,"
            " merge=True)."
        )
    if not is_plain(module):
        raise HeadcountError(
            f"This reads weights, and those of {type(module).__name__} are quantised or not in memory. Methods that"
            " only run the model work: patching, attribution, gating, retrieval."
        )


def eager(module: nn.Module) -> nn.Module:
    """The module that `torch.compile` wraps. A compiled graph does not see hooks that come later, so that a cut would
    silently do nothing; what is compiled inside of a module is therefore refused."""
    while _is_compiled(module) and hasattr(module, "_orig_mod"):
        module = cast(nn.Module, module._orig_mod)
    for name, inner in module.named_modules():
        if _is_compiled(inner) or getattr(inner, "_compiled_call_impl", None) is not None:
            raise HeadcountError(
                f"{name or type(module).__name__} is compiled in place, and compiled code does not see hooks. Load the"
                " model before it is compiled, or give torch.compile(model), whose own module is then used."
            )
    return module


def _is_compiled(module: nn.Module) -> bool:
    return type(module).__name__ == "OptimizedModule"


def device_of(module: nn.Module) -> torch.device:
    """Where a module takes its input: of one whose weights are elsewhere, where accelerate brings them."""
    weight = cast(Tensor, module.weight)
    hook: Any = getattr(module, "_hf_hook", None)
    if weight.device.type != "meta" or hook is None:
        return weight.device
    place = getattr(hook, "execution_device", None)
    return torch.device("cpu" if place is None else place)


def weights_in_memory(hf: nn.Module) -> Mapping[str, Tensor]:
    """All weights as plain tensors: those that are elsewhere are fetched, those in a class of their own (torchao) are
    taken apart."""
    found: Mapping[str, Tensor] = hf.state_dict()
    if any(isinstance(weight, Tensor) and weight.device.type == "meta" for weight in found.values()):
        from accelerate.utils.modeling import get_state_dict_offloaded_model

        found = get_state_dict_offloaded_model(hf)
    parts = (part for name, weight in found.items() for part in _parts(name, weight))
    return dict(parts)


def _parts(name: str, weight: object) -> Iterator[tuple[str, Tensor]]:
    if not isinstance(weight, Tensor):
        return  # of bitsandbytes, which notes its settings among the weights
    if not is_traceable_wrapper_subclass(weight):
        yield name, weight
        return
    inner, _ = weight.__tensor_flatten__()
    for part in inner:
        yield from _parts(f"{name}.{part}", getattr(weight, part))
