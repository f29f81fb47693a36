"""The model while it is trained: its weights or adapters, its gates, and the dense model beside it."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..core.errors import HeadcountError
from ..core.words import GateForm
from ..models import Model
from ..models.attention import attending_by
from ..models.changes import changing
from ..models.gates import Gates, add_gates, counted, drawn
from .recipe import Recipe

FAR_BELOW = 9.0  # of a head's attention a sink that lies so far below takes a ten-thousandth


@dataclass(frozen=True)
class Trainee:
    model: Model
    gates: tuple[Gates, ...]  # none in a dense control
    peft: Any  # the peft model around `model.hf`, or None where every weight is trained
    dense_logits: Callable[[Tensor], Tensor]
    products: Callable[[], AbstractContextManager[None]]  # in which matrix products have the recipe's precision
    parameters: dict[str, nn.Parameter] = field(repr=False)


def make_trainee(model: Model, recipe: Recipe) -> Trainee:
    """Add what is trained to a dense model. With adapters the dense model is the same module with adapters off and
    gates open; otherwise it is a copy."""
    model.hf.eval()  # No dropout: the gates' noise is the only one.
    dense = copy.deepcopy(model.hf) if recipe.lora is None else None
    own_attention = model.hf.config._attn_implementation
    gates = () if recipe.control else add_gates(model, *gates_asked(recipe))
    peft: Any = None if recipe.lora is None else _with_adapters(model, recipe.lora, recipe)
    adapters = [] if peft is None else _adapters_of(peft)
    for layer in gates:
        layer.gradient = recipe.gradient
        layer.requires_grad_(True)  # which adapters took away
    if dense is not None:
        dense.requires_grad_(False)

    @torch.no_grad()
    def dense_logits(ids: Tensor) -> Tensor:
        if dense is not None:
            return cast(Tensor, dense(input_ids=ids, use_cache=False).logits)
        with changing() as changes, attending_by(model, own_attention):
            for part in adapters:  # peft's own `disable_adapter` takes a tenth of a second to find them
                changes.note(partial(part.enable_adapters, True))
                part.enable_adapters(False)
            return model.logits(ids)

    parameters = {name: p for name, p in model.hf.named_parameters() if p.requires_grad}
    products = partial(_in_halves, model, frozen(model)) if in_bfloat16(recipe, model.device) else nullcontext
    return Trainee(model, gates, peft, dense_logits, products, parameters)


def in_bfloat16(recipe: Recipe, device: torch.device) -> bool:
    """Whether products are taken in bfloat16: where that is wanted, or where a GPU computes in it."""
    on_gpu = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return recipe.products == "bfloat16" or (recipe.products == "auto" and on_gpu)


def frozen(model: Model) -> dict[nn.Module, nn.Parameter]:
    """Weights of products that are not trained, in bfloat16, by their modules: rounded once, where autocast would round
    them in every pass."""
    from transformers.pytorch_utils import Conv1D

    found: dict[nn.Module, nn.Parameter] = {}
    for module in model.hf.modules():
        if isinstance(module, nn.Linear | Conv1D) and not module.weight.requires_grad:
            found[module] = nn.Parameter(module.weight.to(torch.bfloat16), requires_grad=False)
    return found


@contextmanager
def _in_halves(model: Model, halves: dict[nn.Module, nn.Parameter]) -> Iterator[None]:
    with changing() as changes, torch.autocast(model.device.type, torch.bfloat16):
        for module, weight in halves.items():
            changes.set(module, "weight", weight)
        yield


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


def _adapters_of(peft: Any) -> list[Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [part for part in peft.modules() if isinstance(part, BaseTunerLayer)]


def _with_adapters(model: Model, rank: int, recipe: Recipe) -> Any:
    """LoRA on every linear map inside the attention layers, or inside whole layers."""
    width = model.hf.config.hidden_size
    if rank > width:
        raise HeadcountError(f"--lora {rank} is above the model's width of {width}. A rank from 4 to 64 is usual.")
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    names = {module: name for name, module in model.hf.named_modules()}
    places = model.anatomy.attentions if recipe.lora_on == "attention" else model.anatomy.layers
    parts = [part for place in places for part in place.modules()]
    linear = [part for part in parts if isinstance(part, nn.Linear | Conv1D)]
    torch.manual_seed(recipe.seed)
    targets, in_first = [names[part] for part in linear], isinstance(linear[0], Conv1D)
    settings = LoraConfig("CAUSAL_LM", r=rank, lora_alpha=2 * rank, target_modules=targets, fan_in_fan_out=in_first)
    return get_peft_model(model.hf, settings)
