"""A Hugging Face folder without the heads: it loads in plain transformers and gives the logits of the cut model.

The columns of the output projection that read a removed head are zero (or scaled). With the fill mean-global the head
writes the same at every position, a constant that becomes a bias; `biases.py` finds a place for it, and where there is
none the folder is wrapped: `constants.safetensors` beside the weights, and a few lines that put them back.

What is written is loaded again as a stranger would, and compared with the cut model, before the folder gets its name.
"""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from ..core.errors import HeadcountError, in_short
from ..core.export_options import CheckpointOptions
from ..core.files import write_file
from ..core.plain import quoted
from ..core.provenance import Facts, versions
from ..edit import head_name
from ..models import Model
from ..models.anatomy import find_anatomy, out_first
from ..models.gates import gates_of
from ..models.plain_weights import require_plain
from .biases import with_constants
from .cuts import HeadCut
from .shrinking import measured, shrunk

CLOSE = 1e-5  # of a logit, or of the largest one where that is more than 1
PROMPT = 24
FACTS, CONSTANTS, WRAPPER = "headcount.json", "constants.safetensors", "load_cut.py"
WRAPPED = '''"""Load this folder with what its removed heads wrote in the mean, for which this architecture has no bias.

    from load_cut import load
    model = load()
"""

from pathlib import Path

from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent


def load(**options):
    model = AutoModelForCausalLM.from_pretrained(HERE, **options).eval()
    for name, constant in load_file(HERE / "constants.safetensors").items():

        def add(module, args, output, constant=constant):
            return output + constant.to(output)

        model.get_submodule(name).register_forward_hook(add)
    return model
'''


def checkpoint(cut: HeadCut, options: CheckpointOptions, folder: Path) -> None:
    """Fill a folder with the model, its tokenizer, and a card that says what was done."""
    model = cut.model
    _require_plain(model)
    hf = _silenced(cut)
    constants = {} if cut.means is None else {layer: cut.constant(layer) for layer in cut.by_layer}
    held = with_constants(hf, constants, model.anatomy.model_type) if constants else hf
    facts: Facts = {"heads": [head_name(head) for head in cut.heads], "fill": str(cut.fill), "from": cut.origin}
    if held is None and options.shrink:
        raise HeadcountError(
            f"{type(hf).__name__} has no bias for what removed heads write in the mean, so it cannot shrink with this"
            " fill. Use --fill zero."
        )
    whole, hf, smaller = held or hf, held or hf, list[dict[str, str]]()
    if options.shrink:
        hf = shrunk(whole, cut)
        facts["shrunk"] = smaller = measured(model.hf, hf)
    hf.save_pretrained(folder)
    if held is None:
        names = {id(module): name for name, module in hf.named_modules()}
        places = {layer: names[id(find_anatomy(hf).out_projections[layer])] for layer in constants}
        save_file({places[layer]: constant.float() for layer, constant in constants.items()}, folder / CONSTANTS)
        write_file(folder / WRAPPER, WRAPPED)
    if model.tokenizer is not None:
        model.tokenizer.save_pretrained(folder)
    apart = _checked(cut, folder, held is None)
    facts |= {"largest_difference": apart, "model": model.facts(), "versions": versions()}
    write_file(folder / FACTS, json.dumps(facts, indent=1) + "\n")
    write_file(folder / "README.md", _card(cut, type(hf).__name__, apart, smaller, held is None))


def _require_plain(model: Model) -> None:
    """Weights that can be read and written, and all that the model computes with."""
    if gates_of(model):
        raise HeadcountError(
            f"{quoted(model.name)} has gates on its attention edges, which a plain checkpoint cannot hold. Export its"
            " dense model, or cut heads with headcount.cut."
        )
    for projection in model.anatomy.out_projections:
        require_plain(projection)
    if not all(
        parameter.is_floating_point() and parameter.device.type != "meta" for parameter in model.hf.parameters()
    ):
        raise HeadcountError(f"Weights of {model.name} are quantised or not in memory. Load it whole to write it.")


@torch.no_grad()
def _silenced(cut: HeadCut) -> PreTrainedModel:
    """A copy whose output projections read nothing of the removed heads, or a share of them."""
    hf: PreTrainedModel = copy.deepcopy(cut.model.hf).cpu()
    anatomy, size = find_anatomy(hf), cut.model.anatomy.head_size
    for layer, head in cut.heads:
        out_first(anatomy.out_projections[layer])[:, head * size : (head + 1) * size] *= cut.fill.scale
    return hf


@torch.no_grad()
def _checked(cut: HeadCut, folder: Path, wrapped: bool) -> float:
    """The largest difference between logits of the folder and of the cut model, on random tokens."""
    model = cut.model
    length = min(PROMPT, model.context or PROMPT)
    ids = torch.randint(model.vocabulary, (2, length), generator=torch.Generator().manual_seed(0))
    with cut.applied():
        wanted = model.logits(ids.to(model.device)).cpu().float()
    found = _logits(folder, ids, model, wrapped)
    apart, largest = float((found - wanted).abs().max()), max(float(wanted.abs().max()), 1.0)
    close = CLOSE * largest if model.hf.dtype in (torch.float32, torch.float64) else 0.05 * largest
    if not apart <= close:
        raise HeadcountError(
            f"The folder does not give the logits of the cut model: they differ by up to {apart:.2g}. Nothing was"
            " written. Please report this with the name of the model."
        )
    return apart


def _logits(folder: Path, ids: Tensor, model: Model, wrapped: bool) -> Tensor:
    attention, dtype = model.hf.config._attn_implementation, model.hf.dtype
    try:
        hf: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation=attention, local_files_only=True
        ).eval()
    except (ValueError, OSError, RuntimeError) as error:
        raise HeadcountError(f"What was written does not load in transformers: {in_short(error)}") from error
    if wrapped:
        from safetensors.torch import load_file

        for name, constant in load_file(folder / CONSTANTS).items():
            hf.get_submodule(name).register_forward_hook(lambda _, __, out, constant=constant: out + constant.to(out))
    return cast(Tensor, hf(input_ids=ids, use_cache=False).logits).float()


def _card(cut: HeadCut, architecture: str, apart: float, smaller: Sequence[dict[str, str]], wrapped: bool) -> str:
    model = cut.model
    head = ["library_name: transformers", "pipeline_tag: text-generation", "tags: [headcount, pruned]"]
    lines = [
        "---",
        *head,
        "---",
        "",
        f"# {model.name} without {len(cut.heads)} attention heads",
        "",
        f"{cut.words}.",
        "",
    ]
    how = "zero" if cut.fill.kind != "scale" else f"multiplied by {cut.fill.scale:g}"
    lines.append(f"The columns of the attention output projection that read these heads are {how}.")
    lines.append(f"Written by headcount as {architecture}.")
    if cut.means is not None:
        where = "`constants.safetensors`: load with `load_cut.py`" if wrapped else "a bias of the checkpoint"
        lines.append(f"What the heads write in the mean over prompts of the task is in {where}.")
    lines += ["", f"Logits equal those of the cut model to {apart:.1g} on random tokens."]
    if smaller:
        rows = [f"| {row['what']} | {row['before']} | {row['after']} |" for row in smaller]
        lines += ["", "| | whole | this folder |", "|---|---|---|", *rows]
    return "\n".join([*lines, ""])
