"""The tools of others that install from PyPI today, doing what they have in common with us, on our model and prompts.

Those that are not installed are left out of the table, which says so; `make bench` installs them.
"""

import copy
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

import headcount as hc

NAMES = ("transformer-lens", "nnsight", "pyvene")
Entry = tuple[str, str, str, float, Callable[[], object]]
"""Name, what it does, goal, share, run: the fields of a job."""


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def versions() -> str:
    return ", ".join(f"{name} {installed(name) or '(not installed)'}" for name in NAMES)


def jobs_of(model: hc.Model, pairs: list[hc.Pair]) -> Iterator[Entry]:
    """A copy of the model for each: some of them change the module that they wrap."""
    ids = torch.tensor([pair.clean for pair in pairs])
    heads = "save every head's value"
    gpt2 = model.hf.config.model_type == "gpt2"
    if installed("nnsight"):
        yield "nnsight", f"nnsight: {heads}", "–", 1, _lazily(lambda: _nnsight(model, ids))
    if installed("pyvene") and gpt2:
        yield "pyvene", f"pyvene: {heads}", "–", 1, _lazily(lambda: _pyvene(model, ids))
    if installed("transformer-lens") and gpt2:  # refuses grouped-query attention for edges
        run = _lazily(lambda: _transformer_lens(model, pairs[:1]))
        yield "transformer-lens", "TransformerLens: edge attribution (EAP)", "–", 1 / len(pairs), run


def _lazily(make: Callable[[], Callable[[], object]]) -> Callable[[], object]:
    """Set up on the first call, which is not measured."""
    made: list[Callable[[], object]] = []

    def run() -> object:
        if not made:
            made.append(make())
        return made[0]()

    return run


def _layers(hf: Any) -> Any:
    return hf.transformer.h if hf.config.model_type == "gpt2" else hf.model.layers


def _nnsight(model: hc.Model, ids: torch.Tensor) -> Callable[[], object]:
    import nnsight

    wrapped = nnsight.NNsight(copy.deepcopy(model.hf))
    layers = _layers(wrapped)
    projections = [layer.attn.c_proj if hasattr(layer, "attn") else layer.self_attn.o_proj for layer in layers]

    @torch.no_grad()
    def run() -> object:
        with wrapped.trace(input_ids=ids, logits_to_keep=1, use_cache=False):
            values = nnsight.save([projection.input for projection in projections])
        return values

    return run


def _pyvene(model: hc.Model, ids: torch.Tensor) -> Callable[[], object]:
    import pyvene

    config = pyvene.IntervenableConfig(
        [
            {
                "layer": layer, "component": "attention_value_output", "low_rank_dimension": 1,
                "intervention_type": pyvene.CollectIntervention,
            }
            for layer in range(model.n_layers)
        ]
    )  # fmt: skip
    wrapped = pyvene.IntervenableModel(config, copy.deepcopy(model.hf))
    wrapped.model.eval()
    positions = [[list(range(ids.shape[1]))] * len(ids)] * model.n_layers

    @torch.no_grad()
    def run() -> object:
        base = {"input_ids": ids, "logits_to_keep": 1, "use_cache": False}
        return wrapped(base, unit_locations={"base": positions}, output_original_output=False)

    return run


def _transformer_lens(model: hc.Model, pairs: list[hc.Pair]) -> Callable[[], object]:
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.tools.analysis.attribution_patching import EdgeAttributionConfig, attribution_patch

    wrapped = copy.deepcopy(model.hf)
    bridge = TransformerBridge.boot_transformers("gpt2", hf_model=wrapped, tokenizer=_any_tokenizer())
    bridge.eval()
    clean, corrupt = (torch.tensor([side]) for side in (pairs[0].clean, pairs[0].corrupt))
    right, wrong = pairs[0].answers[0], pairs[0].wrongs[0]

    def difference(logits: torch.Tensor) -> torch.Tensor:
        return logits[0, -1, right] - logits[0, -1, wrong]

    return lambda: attribution_patch(bridge, clean, corrupt, difference, EdgeAttributionConfig(granularity="edge"))


def _any_tokenizer() -> Any:
    """It asks for one, and is given token ids."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<s>": 0, "word": 1}, unk_token="<s>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="<s>", pad_token="<s>")
    tokenizer.init_kwargs |= {"name_or_path": "words", "add_bos_token": True}
    return tokenizer
