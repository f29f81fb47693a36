"""The model while it is trained: its weights or adapters, its gates, and the dense model beside it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..core.errors import HeadcountError
from ..core.words import GateForm
from ..models import Model
from ..models.gates import Gates, add_gates, counted, drawn
from .recipe import Recipe

FAR_BELOW = 9.0  # of a head's attention a sink that lies so far below takes a ten-thousandth


@dataclass(frozen=True)
class Trainee:
    model: Model
    gates: tuple[Gates, ...]  # none in a dense control
    peft: Any  # the peft model around `model.hf`, or None where every weight is trained
    dense_logits: Callable[[Tensor], Tensor]
    parameters: dict[str, nn.Parameter] = field(repr=False)


def make_trainee(model: Model, recipe: Recipe) -> Trainee:
    """Add what is trained to a dense model. With adapters the dense model is the same module with adapters off and
    gates open; otherwise it is a copy."""
    model.hf.eval()  # No dropout: the gates' noise is the only one.
    dense = copy.deepcopy(model.hf) if recipe.lora is None else None
    gates = () if recipe.control else add_gates(model, *gates_asked(recipe))
    peft: Any = None if recipe.lora is None else _with_adapters(model, recipe.lora, recipe.seed)
    for layer in gates:
        layer.gradient = recipe.gradient
        layer.requires_grad_(True)  # which adapters took away
    if dense is not None:
        dense.requires_grad_(False)

    @torch.no_grad()
    def dense_logits(ids: Tensor) -> Tensor:
        if dense is not None:
            return cast(Tensor, dense(input_ids=ids, use_cache=False).logits)
        with peft.disable_adapter(), drawn(gates, "open"):
            return model.logits(ids)

    parameters = {name: p for name, p in model.hf.named_parameters() if p.requires_grad}
    return Trainee(model, gates, peft, dense_logits, parameters)


def gates_asked(recipe: Recipe) -> tuple[GateForm, float, float, bool]:
    """Form, first offset, sharpness, and whether there are sinks."""
    return recipe.form, recipe.first_offset, recipe.sharpness, recipe.sinks


@torch.no_grad()
def start_sinks(trainee: Trainee, ids: Tensor) -> None:
    """Let every sink begin where it takes so little of its head's attention, on average over some text, that the model
    is as before; Adam moves it all the same, as it looks at the direction of a gradient and not at its size."""
    with counted(trainee.gates) as ledger, drawn(trainee.gates, "hard"):
        trainee.model.run(ids)
    for layer, logits in zip(trainee.gates, ledger.logits, strict=True):
        cast(nn.Parameter, layer.sink).copy_(logits - FAR_BELOW)


def _with_adapters(model: Model, rank: int, seed: int) -> Any:
    """LoRA on every linear map inside the attention layers."""
    width = model.hf.config.hidden_size
    if rank > width:
        raise HeadcountError(f"--lora {rank} is above the model's width of {width}. A rank from 4 to 64 is usual.")
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    names = {module: name for name, module in model.hf.named_modules()}
    parts = [part for attention in model.anatomy.attentions for part in attention.modules()]
    linear = [part for part in parts if isinstance(part, nn.Linear | Conv1D)]
    torch.manual_seed(seed)
    targets, in_first = [names[part] for part in linear], isinstance(linear[0], Conv1D)
    settings = LoraConfig("CAUSAL_LM", r=rank, lora_alpha=2 * rank, target_modules=targets, fan_in_fan_out=in_first)
    return get_peft_model(model.hf, settings)
