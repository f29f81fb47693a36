"""The cut as text does in other libraries what it does here; those that are not installed are left out, and said."""

import copy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from families import FAMILIES, prompts, tiny
from headcount.core.export_options import HookOptions
from headcount.export.hooks import hooks

FILLS = ("zero", "mean-global", "scale(0.3)")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


def run(cut, tool):
    """What the text defines."""
    found = {}
    exec(compile(hooks(cut, HookOptions(tool=tool)), "hooks", "exec"), found)
    return found


def compared(cut, logits):
    with cut.applied():
        wanted = cut.model.logits(prompts())
    assert (logits - wanted).abs().max() < 1e-5
    assert (wanted - cut.model.logits(prompts())).abs().max() > 0.1


@torch.no_grad()
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("family", FAMILIES)
def test_plain_pytorch(family, fill, cut_of):
    cut = cut_of(tiny(family), fill)
    hf = copy.deepcopy(cut.model.hf)
    handles = run(cut, "pytorch")["switch_off"](hf)
    compared(cut, hf(input_ids=prompts(), use_cache=False).logits)
    for handle in handles:
        handle.remove()
    assert torch.equal(hf(input_ids=prompts(), use_cache=False).logits, cut.model.logits(prompts()))


def needs(package):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed (the extra peers)")


both = pytest.mark.parametrize("family", ["gpt2", "llama-gqa"])


@torch.no_grad()
@needs("nnsight")
@pytest.mark.filterwarnings("ignore")
@both
@pytest.mark.parametrize("fill", FILLS)
def test_nnsight(family, fill, cut_of):
    import nnsight

    cut = cut_of(tiny(family), fill)
    switch_off, model = run(cut, "nnsight")["switch_off"], nnsight.NNsight(copy.deepcopy(cut.model.hf))
    with model.trace(input_ids=prompts(), use_cache=False):
        switch_off(model)
        output = model.output.save()
    compared(cut, output.logits)


@torch.no_grad()
@needs("pyvene")
@pytest.mark.filterwarnings("ignore")
@both
@pytest.mark.parametrize("fill", FILLS)
def test_pyvene(family, fill, cut_of):
    cut = cut_of(tiny(family), fill)
    model = run(cut, "pyvene")["switched_off"](copy.deepcopy(cut.model.hf))
    _, output = model(base={"input_ids": prompts()})
    compared(cut, output.logits)


@torch.no_grad()
@needs("transformer_lens")
@pytest.mark.filterwarnings("ignore")
@both
@pytest.mark.parametrize("fill", FILLS)
def test_transformer_lens(family, fill, cut_of):
    from peers import _any_tokenizer
    from transformer_lens.model_bridge import TransformerBridge

    cut = cut_of(tiny(family), fill)
    name = "gpt2" if family == "gpt2" else "meta-llama/Llama-3.2-1B"
    hf = copy.deepcopy(cut.model.hf)
    bridge = TransformerBridge.boot_transformers(name, hf_model=hf, tokenizer=_any_tokenizer())
    bridge.eval()
    compared(cut, bridge.run_with_hooks(prompts(), fwd_hooks=run(cut, "transformer-lens")["FWD_HOOKS"]))


@pytest.mark.parametrize("tool", ["pytorch", "transformer-lens", "nnsight", "pyvene"])
def test_every_text_is_python_and_says_what_it_is(tool, cut_of):
    text = hooks(cut_of(tiny("gpt2"), "mean-global"), HookOptions(tool=tool))
    compile(text, "hooks", "exec")
    assert "4 of 12 heads of gpt2 removed (named by hand), fill mean-global" in " ".join(text.split())
