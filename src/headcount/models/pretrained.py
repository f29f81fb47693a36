"""`from_pretrained` with nothing left to chance. transformers fills weights that a file lacks with random numbers and
leaves out those that it does not know; here both are refused by name, and what was loaded is run once."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from ..core.errors import HeadcountError, in_short
from ..core.plain import shortened
from ..core.provenance import Facts
from .written_config import check_config

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model", "spiece.model")
TRIED = "One word, and two."
TRIED_TOKENS = 8  # from the whole vocabulary, two at a time
SHOWN = 2  # names of weights in a message
HALVES = (torch.float16, torch.bfloat16)
WHOLE = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"}
"""Kinds of numbers in a safetensors file that no plain weight has."""
CONFIG_OPTIONS = ("revision", "token", "cache_dir", "local_files_only", "subfolder")


def load_pretrained(
    source: str | Path, options: Facts, where: str, refusal: Callable[[Exception], str] | None = None
) -> PreTrainedModel:
    """The HF module of a folder or hub id, whole and tried out; `where` names it in messages, and `refusal` says of an
    error why it could not be loaded."""
    options = {"trust_remote_code": False, **options}
    try:
        if "gguf_file" not in options:  # which has its config inside
            check_config(source, {key: options[key] for key in CONFIG_OPTIONS if key in options})
        # Shapes that do not fit are told below, by name; transformers would only say that there are some.
        told = {"output_loading_info": True, "ignore_mismatched_sizes": True}
        loaded: Any = AutoModelForCausalLM.from_pretrained(source, **{**options, **told})
        hf: PreTrainedModel = loaded[0]
    except (HeadcountError, MemoryError):
        raise
    except Exception as error:  # of transformers and all that it calls, for files that are missing, broken or hostile
        words = refusal(error) if refusal else f"{where} could not be loaded: {in_short(error)}"
        raise HeadcountError(words) from error
    _require_all(loaded[1], where, hf)
    _require_floats(Path(source), where, hf)
    require_finite(hf, where)
    _try_out(hf, where)
    return hf


def load_tokenizer(source: str | Path, options: Facts) -> tuple[PreTrainedTokenizerBase | None, str]:
    """The tokenizer that lies with a model, or None and why there is none: token ids work without."""
    try:
        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options)
        found.decode(found(TRIED)["input_ids"])  # much is read, and stumbled over only when it is used
        return found, ""
    except MemoryError:
        raise
    except Exception as error:  # as above, and of the tokenizers' own readers
        folder = Path(source)
        if folder.is_dir() and not any((folder / name).is_file() for name in TOKENIZER_FILES):
            return None, f"its folder has none of {', '.join(TOKENIZER_FILES[:3])}"
        return None, f"its tokenizer cannot be read: {in_short(error)}"


def require_finite(module: nn.Module, where: str) -> None:
    """Refuse weights that are not finite, by name."""
    for name, weight in module.named_parameters():
        if weight.is_floating_point() and weight.numel() and not weight.is_meta:
            low, high = weight.detach().aminmax()
            if not bool(low.isfinite() and high.isfinite()):
                what = f"its weight {_short(name)} holds numbers that are not finite"
                if weight.dtype in HALVES:
                    told = f"{what} in {str(weight.dtype).removeprefix('torch.')}. If they are in float32, load it so"
                    raise HeadcountError(f"{where} cannot be used: {told} (--dtype float32); else it is damaged.")
                raise HeadcountError(f"{where} is damaged: {what}.")


def require_same(wanted: Collection[str], there: Collection[str], where: str) -> None:
    """Refuse weights that a file lacks, and those that nothing takes, by name."""
    if missing := sorted(set(wanted) - set(there)):
        raise HeadcountError(f"{where} is not whole: {_named(missing)} in the model and not in its files.")
    if unknown := sorted(set(there) - set(wanted)):
        raise HeadcountError(f"{where} belongs to another model: {_named(unknown)} in its files and not in the model.")


def _require_floats(folder: Path, where: str, hf: Any) -> None:
    """Whole numbers in a file are weights of a quantised model, whose config says how to read them; transformers would
    take them as they are."""
    if not folder.is_dir() or getattr(hf, "is_quantized", False):
        return
    weights = {name for name, weight in hf.named_parameters() if weight.is_floating_point()}
    for path in sorted(folder.glob("*.safetensors")):
        # One that cannot be read is none of those that were loaded.
        with suppress(SafetensorError, OSError), safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118, which is no dict
                kind = file.get_slice(name).get_dtype()
                if kind in WHOLE and not weights.isdisjoint({name, f"{hf.base_model_prefix}.{name}"}):
                    raise HeadcountError(
                        f"{where} is not as its config says: its file has {_short(name)} in whole numbers ({kind}), and"
                        " no quantization_config says what they mean. Fetch it again."
                    )


class _Report(TypedDict):
    """What transformers says of the weights that it found."""

    mismatched_keys: list[tuple[str, Sequence[int], Sequence[int]]]
    missing_keys: Collection[str]
    unexpected_keys: Collection[str]


def _require_all(report: _Report, where: str, hf: Any) -> None:
    if wrong := sorted(report["mismatched_keys"], key=str):
        name, there, wanted = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if wrong[1:] else ""
        raise HeadcountError(
            f"{where} contradicts its config: {_short(name)}{more} has the shape {list(there)} in the file, and the"
            f" config wants {list(wanted)}."
        )
    named = getattr(hf.config, "architectures", None) or []
    other = next((name for name in named if name.endswith("Classification") or "QuestionAnswering" in name), None)
    if (report["missing_keys"] or report["unexpected_keys"]) and other:
        where = f"{where}, a {shortened(other, 60)} and no language model,"
    missing, unknown = map(list, (report["missing_keys"], report["unexpected_keys"]))
    require_same([*missing, "both"], ["both", *unknown], where)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(map(_short, names[:SHOWN]))}{more} {'are' if names[1:] else 'is'}"


def _short(name: str) -> str:
    return shortened(name, 60)


@torch.no_grad()
def _try_out(hf: Any, where: str) -> None:
    """A config that contradicts itself in what has no weights is found when it runs."""
    try:
        known = hf.get_input_embeddings().weight
        spread = torch.linspace(0, len(known) - 1, TRIED_TOKENS, device=known.device).long().view(-1, 2)
        logits = hf(input_ids=spread, use_cache=False).logits
    except MemoryError:
        raise
    except Exception as error:  # whatever its layers stumble over
        raise HeadcountError(f"{where} was loaded, but it does not run: {in_short(error)}") from error
    if bool(logits.isnan().any()):
        raise HeadcountError(f"{where} was loaded, but its logits are not numbers. Is its config that of the weights?")
