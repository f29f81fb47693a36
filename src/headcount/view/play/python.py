"""A state as Python: the `headcount.cut` that gives the same numbers."""

from collections.abc import Sequence

import torch

from ...edit import head_name
from ...meters.generation import end_tokens
from ...models import Model
from .board import REFERENCE_N, TOP
from .state import OF_TASK, Asked, State

WIDTH = 110


def snippet(model: Model, source: str, state: State, asked: Asked) -> str:
    """Complete where the model has a source to be loaded from; else it goes on from the `model` that is there."""
    lines = ["import torch", "", "import headcount as hc", ""]
    precision = "" if model.hf.dtype == torch.float32 else f", dtype={model.hf.dtype}"
    loaded = f"model = hc.load({source!r}{precision})"
    lines.append(loaded if source else "# model: the one whose switchboard this is")
    lines.append(f"ids = torch.tensor([{_ids(state.prompt)}], device=model.device)")
    options = [repr(str(asked.fill))]
    if asked.positions != "all":
        options.append(f"positions={asked.positions!r}")
    if asked.fill.kind == "counterfactual":
        lines.append(f"other = torch.tensor([{_ids(state.other)}], device=model.device)")
        options.append("other=other")
    if asked.fill.kind in OF_TASK:
        lines.append(f"task = hc.task({asked.reference!r}, model, n={REFERENCE_N})")
        options.append("reference=task.train")
        options += [f"seed={asked.seed}"] if asked.fill.kind == "resample" and asked.seed else []
    lines += _heads([head_name(head) for head in asked.heads])
    cut = f"hc.cut(model, heads, {', '.join(options)})"
    lines += [
        "",
        f"with torch.no_grad(), {cut}:",
        "    logits = model.last_logits(ids, torch.tensor([ids.shape[1] - 1]))[0].cpu().double()",
        "probabilities = logits.softmax(-1)",
        f"for token in probabilities.topk({TOP}).indices.tolist():",
        '    print(f"{probabilities[token]:.6f}", '
        + ("token)" if model.tokenizer is None else "repr(model.decode([token])))"),
    ]
    if asked.answers:
        answers, wrongs = list(asked.answers), list(asked.wrongs)
        measured = f"logits[{answers}].max() - logits[{wrongs}].max()"
        if not wrongs:
            measured = f"logits.log_softmax(-1)[{answers}].logsumexp(-1)"
        name = "logit_difference" if wrongs else "log_probability"
        lines += [f"{name} = float({measured})", f"print({name})"]
    if asked.new_tokens:
        lines += [
            "",
            f"with torch.no_grad(), {cut}:",
            "    said = model.hf.generate(",
            "        input_ids=ids, attention_mask=torch.ones_like(ids),",
            f"        max_new_tokens={asked.new_tokens}, do_sample=False{_plainly(model)},",
            "    )[0, ids.shape[1] :].tolist()",
            "print(said)" if model.tokenizer is None else "print(model.decode(said))",
        ]
    return "\n".join(lines) + "\n"


def _plainly(model: Model) -> str:
    """What `generate` must be told to be greedy and to end as the switchboard does, whatever the model's own config."""
    own, told = model.hf.generation_config, ""
    for name, plain in (("repetition_penalty", 1.0), ("no_repeat_ngram_size", 0)):
        if getattr(own, name, None) not in (None, plain):
            told += f", {name}={plain}"
    ends = end_tokens(model)
    return told + (f", eos_token_id={ends}, pad_token_id={ends[0]}" if ends else "")


def _ids(words: str | Sequence[int]) -> str:
    return f"model.encode({words!r})" if isinstance(words, str) else repr(list(words))


def _heads(names: Sequence[str]) -> list[str]:
    """A list of names, wrapped."""
    rows, row = list[str](), "   "
    for name in names:
        if len(row) + len(name) + 4 > WIDTH:
            rows.append(row)
            row = "   "
        row += f' "{name}",'
    one = "heads = [" + ", ".join(f'"{name}"' for name in names) + "]"
    return [one] if len(one) <= WIDTH else ["heads = [", *rows, row, "]"]
