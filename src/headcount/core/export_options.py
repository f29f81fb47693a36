"""Options of exports: which part of a result is meant, and how each of the package's own exports writes it.

They stand apart from the exports so that the command line can list them without torch.
"""

from typing import Literal

from .settings import Count, Few, Listed, Seed, Settings
from .words import DtypeName, PlainOrder

Tool = Literal["pytorch", "transformer-lens", "nnsight", "pyvene"]


class NoOptions(Settings):
    """Of exports that can be written in one way."""


class CircuitChoice(Settings):
    """Which edges of a result are the circuit."""

    top: Count | None = None
    """This many edges, the first by score; by default the smallest faithful circuit of a study."""
    by: PlainOrder = "absolute"
    """The order of --top: the largest effect first, or the most helpful."""


class CutChoice(Settings):
    """Which heads of a model are removed, and what they carry instead."""

    model: str | None = None
    """The model, where the name in the scores is not enough to find it: a named model, a folder or a hub id."""
    top: Count | None = None
    """Remove this many heads, the first by score."""
    weakest: Count | None = None
    """Remove this many heads, the last by score."""
    groups: Count | None = None
    """Remove this many KV groups of every layer, the weakest first (of one head each without grouped queries)."""
    heads: Listed[str] | None = None
    """Remove these heads: a3.h5,a7.h0."""
    by: PlainOrder = "absolute"
    """What --top goes by: the largest effect first, or the most helpful."""
    fill: str = "zero"
    """What removed heads carry: zero, scale(0.1), or mean-global, their mean over the prompts of a task."""
    task: str | None = None
    """The task whose train prompts a mean is taken over; that of the scores by default."""
    n: Few = 200
    """Examples of that task, half of which are train."""
    seed: Seed = 0
    """Seed of that task."""
    device: str | None = None
    """Device: cpu, cuda or mps; by default the best one available."""
    dtype: DtypeName | None = None
    """Precision of the weights; by default float32 on the CPU, elsewhere that of the checkpoint."""
    revision: str | None = None
    """Branch, tag or commit of a model on the hub."""
    base_model: str | None = None
    """The model that an adapter goes on, where it is not where it was in training."""


class CheckpointOptions(Settings):
    shrink: bool = False
    """Take empty KV groups out of the weights, as many of every layer as the poorest has."""


class CacheOptions(Settings):
    model: str | None = None
    """The model whose config says how many KV heads there are, where the name in the scores does not find it."""
    kv_heads: Count | None = None
    """KV heads of a layer, instead of a model."""
    sink: Few = 64
    """First tokens that a short cache keeps, for DuoAttention."""
    recent: Few = 256
    """Last tokens that a short cache keeps, for DuoAttention."""
    important: Few = 40
    """How many heads are listed as important for vLLM-Hook."""


class HookOptions(Settings):
    tool: Tool = "pytorch"
    """The library that the text is for."""


class DatasetOptions(Settings):
    top: Few = 10
    """How many heads the section for the model card names."""


class SvgOptions(Settings):
    most: Few = 80
    """Draw at most this many edges, with the largest scores that connect; the title says how many are left out."""
