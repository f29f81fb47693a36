"""A study before its models are there: from their shapes alone, what it would take on a GPU.

A stand-in has the modules of a model and none of its weights. Prompts are made with the tokenizer of `tiny`, so that
their lengths are about those of the model's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ..core.cache import Result
from ..core.errors import HeadcountError
from ..meters.forecast import SHAPES
from ..models import Model, load
from ..models.anatomy import find_anatomy
from .bench import Bench
from .plan import Step

SPEED = 5e13
"""Operations a second that one GPU is taken to do: a sixth of what an A100 could in bfloat16 at best."""
HALF = 2
"""Bytes of a weight in bfloat16."""


class StandIn(Model):
    """A model without weights. It can be planned with, and not run."""

    @property
    def fingerprint(self) -> str:
        return f"shape of {self.name}"


def shape_name(name: str) -> str | None:
    """The known shape that a model's name speaks of: a hub id, or a folder that is called like it."""
    known = Path(name).name.lower().removesuffix("-hf").removesuffix("-instruct")
    return known if known in SHAPES else None


def stand_in(name: str, **options: object) -> Model:
    """A loader for a `Bench`."""
    shape = shape_name(name)
    if shape is None:
        raise HeadcountError(f"The shape of {name} is not known without its files. Known: {', '.join(SHAPES)}.")
    with torch.device("meta"):
        hf = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPES[shape]), trust_remote_code=False)
    return StandIn(name, hf, load("tiny").tokenizer, find_anatomy(hf))


@dataclass(frozen=True)
class Needs:
    """What the steps of one model take on a GPU."""

    model: str
    weights: int
    """Bytes, in bfloat16."""
    beyond: int
    """Bytes beyond the weights, of the step that takes most."""
    steps: int
    tokens: float
    hours: float
    """Of one GPU, with plain forward passes of so many tokens."""


def needs_of(steps: Sequence[Step[Result]], bench: Bench) -> list[Needs]:
    """Model by model."""
    by_model: dict[str, list[Step[Result]]] = {}
    for step in steps:
        if step.subject is not None:
            by_model.setdefault(step.subject.model, []).append(step)
    found = []
    for name, own in by_model.items():
        subject = own[0].subject
        assert subject is not None
        count = sum(weight.numel() for weight in bench.model(name, subject.asked).hf.parameters())
        tokens, beyond = sum(step.cost for step in own), max(step.memory for step in own)
        found.append(Needs(name, HALF * count, beyond, len(own), tokens, 2 * count * tokens / SPEED / 3600))
    return found
