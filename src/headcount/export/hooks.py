"""A cut as Python text, which needs nothing of headcount, for plain PyTorch, TransformerLens, nnsight and pyvene.

Heads are cut where they are values, before the output projection, never behind it, where they are summed.
"""

from collections.abc import Mapping
from textwrap import wrap

from ..core.export_options import HookOptions, Tool
from ..core.plain import plain
from .cuts import HeadCut

PYTORCH = '''
def switch_off(model):
    """Hooks on a Hugging Face model; `handle.remove()` on each of those returned undoes them."""

    def hook_of(layer):
        def hook(module, args):
            z = args[0].clone()
            for head in HEADS[layer]:
                part = slice(head * HEAD_SIZE, (head + 1) * HEAD_SIZE)
                z[..., part] = carried(z[..., part], layer, head)
            return (z, *args[1:])

        return hook

    paths = {layer: OUT_PROJECTION.format(layer) for layer in HEADS}
    return [model.get_submodule(path).register_forward_pre_hook(hook_of(layer)) for layer, path in paths.items()]
'''
TRANSFORMER_LENS = """
def hook_of(layer):
    def hook(z, hook):  # [batch, position, head, head size]; a bridge may give the heads side by side
        whole = z.clone()
        z = whole.view(*whole.shape[:2], -1, HEAD_SIZE)
        for head in HEADS[layer]:
            z[:, :, head] = carried(z[:, :, head], layer, head)
        return whole

    return hook


FWD_HOOKS = [(f"blocks.{layer}.attn.hook_z", hook_of(layer)) for layer in HEADS]
# logits = model.run_with_hooks(tokens, fwd_hooks=FWD_HOOKS)
"""
NNSIGHT = '''
def switch_off(model):
    """To be called inside `with model.trace(prompt):`, before anything is saved."""
    for layer, heads in HEADS.items():
        projection = model.get(OUT_PROJECTION.format(layer))
        z = projection.input.clone()
        for head in heads:
            part = slice(head * HEAD_SIZE, (head + 1) * HEAD_SIZE)
            z[..., part] = carried(z[..., part], layer, head)
        projection.input = z
'''
PYVENE = '''
import pyvene


def intervention_of(layer):
    def intervene(base, source=None, subspaces=None, **more):
        z = base.clone()
        for head in HEADS[layer]:
            part = slice(head * HEAD_SIZE, (head + 1) * HEAD_SIZE)
            z[..., part] = carried(z[..., part], layer, head)
        return z

    return intervene


def switched_off(model):
    """model -> a pyvene model: `_, output = switched_off(model)(base={"input_ids": ids})`"""
    components = {layer: INDEXED.format(layer) + ".input" for layer in HEADS}
    return pyvene.IntervenableModel(
        [{"component": component, "intervention": intervention_of(layer)} for layer, component in components.items()],
        model=model,
    )
'''
TEXTS: Mapping[Tool, str] = {
    "pytorch": PYTORCH, "transformer-lens": TRANSFORMER_LENS, "nnsight": NNSIGHT, "pyvene": PYVENE,
}  # fmt: skip


def hooks(cut: HeadCut, options: HookOptions) -> str:
    """The text of a module: which heads, what they carry, and the hooks of one library."""
    lines = ['"""' + "\n".join(wrap(plain(cut.words).replace('"', "'").replace("\\", "/"), 116)) + '."""', ""]
    means = cut.means is not None
    lines += ["import torch", ""] if means else []
    lines += [f"HEADS = {cut.by_layer!r}  # layer -> heads, both counted from 0"]
    lines += [f"HEAD_SIZE = {cut.model.anatomy.head_size}"]
    path = out_path(cut)
    if options.tool in ("pytorch", "nnsight"):
        lines.append(f"OUT_PROJECTION = {path!r}")
    if options.tool == "pyvene":
        lines.append(f"INDEXED = {path.replace('.{}', '[{}]')!r}")
    lines += [*_carried(cut), TEXTS[options.tool].rstrip()]
    return "\n".join([*lines, ""])


def _carried(cut: HeadCut) -> list[str]:
    """What a removed head carries, as a function."""
    start = ["", "", "def carried(z, layer, head):", '    """What a head carries in the place of its value z."""']
    if cut.means is None:
        return [*start, f"    return {cut.fill.scale!r} * z"]
    values = [(place, cut.value(*place).tolist()) for place in sorted(cut.heads)]
    rows = [f"    {place}: [{', '.join(f'{v:.9g}' for v in value)}]," for place, value in values]
    table = ["MEANS = {  # (layer, head) -> the mean of its value", *rows, "}"]
    return [*table, *start, "    return torch.tensor(MEANS[layer, head]).to(z).expand_as(z)"]


def out_path(cut: HeadCut) -> str:
    """Where the output projections are, with {} for the layer."""
    names = {module: name for name, module in cut.model.hf.named_modules()}
    parts = names[cut.model.anatomy.out_projections[0]].split(".")
    place = parts.index("0")  # of the first layer
    return ".".join([*parts[:place], "{}", *parts[place + 1 :]])
