"""What the precision of a model hides: in half precision logits are rounded, and smaller differences are not real."""

import torch

from ..models import Model

TRIED = 8
"""Prompts whose logits are looked at."""


def is_coarse(model: Model) -> bool:
    return bool(model.hf.dtype.itemsize < 4)


@torch.no_grad()
def words_of_rounding(model: Model, examples: object) -> str:
    """Numbers of a dtype lie apart by up to its epsilon times their size."""
    dtype = model.hf.dtype
    said = f"{model.name} runs in {str(dtype).removeprefix('torch.')}"
    prompts = getattr(examples, "test", ())[:TRIED]
    rows = [example.ids for example in prompts if hasattr(example, "ids")]
    if not rows:  # questions become prompts later
        return f"{said}, in which numbers are rounded to {torch.finfo(dtype).eps:.1%}: small differences are not real."
    ends = [model.last_logits(_ids(model, row), torch.tensor([len(row) - 1], device=model.device)) for row in rows]
    largest = max(float(logits.abs().max()) for logits in ends)
    step = torch.finfo(dtype).eps * largest
    return (
        f"{said}, in which its logits, up to {largest:.0f}, are rounded to about {step:.2g}: differences of that size"
        " are rounding. Use dtype float32 for numbers to publish."
    )


def _ids(model: Model, row: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor([row], device=model.device)
