"""The one place where a model's activations are changed, always inside a `with` block.

A head is (layer, head). Its value z, [batch, position, head size], is a slice of what enters the attention output
projection. A cut leaves some heads alone and puts something else in the place of the others: nothing (`zero`), their
mean, what they carry on another prompt (`counterfactual`, `resample`), or a share of themselves (`scale(eps)`).
"""

import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn

from .errors import HeadcountError
from .models import Model
from .tasks.pairs import Batch, Pair, batches, collate

Head = tuple[int, int]
Positions = Literal["all", "last", "generated"]
"""Where a cut applies. `last`: at the last prompt token only. `generated`: from the last prompt token on, which is all
that a generated answer depends on beyond the prompt's own values; in a single forward pass the two are the same."""

POSITIONS: tuple[Positions, ...] = ("all", "last", "generated")
Side = Literal["clean", "corrupt"]


def head_name(head: Head) -> str:
    """a3.h5: head 5 of layer 3, both counted from 0."""
    return f"a{head[0]}.h{head[1]}"


# ---------------------------------------------------------------------------------------------------------------------
# Reading and replacing heads


@contextmanager
def visit_heads(
    model: Model, visit: Callable[[int, Tensor], Tensor | None], layers: Iterable[int] | None = None
) -> Iterator[None]:
    """Call `visit(layer, z)` before each output projection, z being [batch, position, head, head size].

    What it returns takes z's place; None leaves it alone. The hooks are gone after the block, however it ends.
    """
    shape = (model.n_heads, model.anatomy.head_size)

    def hook_of(layer: int) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...] | None]:
        def hook(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            changed = visit(layer, args[0].unflatten(-1, shape))
            return None if changed is None else (changed.flatten(-2), *args[1:])

        return hook

    with ExitStack() as stack:
        for layer in range(model.n_layers) if layers is None else layers:
            stack.callback(model.anatomy.out_projections[layer].register_forward_pre_hook(hook_of(layer)).remove)
        yield


def head_values(model: Model, ids: Tensor) -> tuple[Tensor, ...]:
    """What every head carries on some prompts: one tensor a layer, [batch, position, head, head size]."""
    values: list[Tensor] = []
    with visit_heads(model, lambda layer, z: values.append(z)), torch.no_grad():
        model.run(ids)
    return tuple(values)


@contextmanager
def mix_inputs(model: Model, start: Tensor, end: Tensor, shares: Sequence[float]) -> Iterator[None]:
    """Token embeddings on the line between two prompts, e(start) + share · (e(end) - e(start)): the batch once for each
    share."""
    embedding: nn.Module = model.hf.get_input_embeddings()
    with torch.no_grad():
        ends = embedding(start), embedding(end)
        mixed = torch.cat([torch.lerp(*ends, share) for share in shares])
    handle = embedding.register_forward_hook(lambda module, args, output: mixed)
    try:
        yield
    finally:
        handle.remove()


# ---------------------------------------------------------------------------------------------------------------------
# What fills the hole


@dataclass(frozen=True)
class Fill:
    """What a removed head carries. Write it as text: `zero`, `mean`, `mean-global`, `counterfactual`, `resample`,
    `scale(0.1)`."""

    kind: str
    scale: float = 0.0

    KINDS = ("zero", "mean", "mean-global", "counterfactual", "resample", "scale(eps)")

    @classmethod
    def parse(cls, text: "str | Fill") -> "Fill":
        if isinstance(text, Fill):
            return text
        text = str(text)
        if found := re.fullmatch(r"scale\((.+)\)", text):
            try:
                share = float(found[1])
            except ValueError:
                share = math.nan
            if math.isfinite(share):
                return cls("scale", share)
        elif text in cls.KINDS:
            return cls(text)
        raise HeadcountError(f"There is no fill {text!r}. Known: {', '.join(cls.KINDS)}, for example scale(0.1).")

    def __str__(self) -> str:
        return f"scale({self.scale:g})" if self.kind == "scale" else self.kind

    @property
    def needs_reference(self) -> bool:
        """True where the fill is an average over a set of prompts."""
        return self.kind.startswith("mean")


@dataclass(frozen=True)
class Filling:
    """A fill made ready for one batch: stored values, one tensor a layer, or a share of the head's own value."""

    values: tuple[Tensor, ...] | None = None
    scale: float = 0.0

    def of(self, layer: int, z: Tensor) -> Tensor:
        """What a removed head carries; broadcasts to z, [cut, pair, position, head, head size]."""
        return z * self.scale if self.values is None else self.values[layer]

    def from_position(self, start: int) -> "Filling":
        """The same for a run that begins at a later position."""
        if self.values is None or start == 0:
            return self
        return replace(self, values=tuple(v[..., start:, :, :] if v.shape[-3] > 1 else v for v in self.values))


@dataclass(frozen=True)
class Filler:
    """Makes the filling of each batch: runs the donor prompts, or looks up the means."""

    fill: Fill
    side: Side = "clean"
    """The prompts that the cut model runs on; `counterfactual` fills from the other side."""
    pairs: Sequence[Pair] = ()
    """All pairs of the measurement, from which `resample` draws donors."""
    means: tuple[Tensor, ...] | None = field(default=None, repr=False)
    """One tensor a layer: [position, head, head size], or [1, head, head size] for the mean over positions too."""
    seed: int = 0

    @classmethod
    def prepare(
        cls, model: Model, fill: "Fill | str", *, pairs: Sequence[Pair], reference: Sequence[Pair],
        side: Side = "clean", seed: int = 0, max_tokens: int = 2048,
    ) -> "Filler":  # fmt: skip
        """`reference`: the prompts that `mean` averages over (the train split, when a curve is measured on test)."""
        fill = Fill.parse(fill)
        means = None
        if fill.needs_reference:
            longest = max(len(pair.clean) for pair in (*pairs, *reference))
            means = mean_head_values(model, reference, longest, side, fill.kind == "mean", max_tokens)
        return cls(fill, side, tuple(pairs), means, seed)

    def filling(self, model: Model, indices: Sequence[int], batch: Batch) -> Filling:
        match self.fill.kind:
            case "zero" | "scale":
                return Filling(scale=self.fill.scale)
            case "counterfactual":
                return Filling(head_values(model, batch.corrupt if self.side == "clean" else batch.clean))
            case "resample":
                return Filling(head_values(model, self._donors(indices, batch)))
            case _:
                assert self.means is not None
                return Filling(tuple(mean[: batch.length] if len(mean) > 1 else mean for mean in self.means))

    def opposite(self) -> "Filler":
        """The same for a run on the other side of the pairs."""
        return replace(self, side="corrupt" if self.side == "clean" else "clean")

    def _donors(self, indices: Sequence[int], batch: Batch) -> Tensor:
        """For each pair another prompt of the same length from the same side, chosen at random; where there is none,
        the pair's own counterfactual."""
        donors = []
        for index in indices:
            own = self.pairs[index]
            others = [p for i, p in enumerate(self.pairs) if i != index and len(p.clean) == len(own.clean)]
            chosen = random.Random(f"{self.seed} {index}").choice(others) if others else None
            donors.append(Pair(own.corrupt, own.clean, own.answers, own.wrongs) if chosen is None else chosen)
        turned = collate(donors, batch.clean.device)
        ids = turned.clean if self.side == "clean" else turned.corrupt
        return nn.functional.pad(ids, (0, batch.length - ids.shape[1]))


def mean_head_values(
    model: Model, pairs: Sequence[Pair], length: int, side: Side, by_position: bool, max_tokens: int = 2048
) -> tuple[Tensor, ...]:
    """Mean of z over prompts: for each position (counted from the start), or over all real positions together.

    A position that no reference prompt reaches gets the mean over all positions.
    """
    sums: list[Tensor] = []
    count = torch.zeros(length, 1, 1, dtype=torch.float64)
    for _, batch in batches(pairs, model.device, max_tokens):
        values = head_values(model, batch.clean if side == "clean" else batch.corrupt)
        real = torch.arange(batch.length, device=model.device) <= batch.last[:, None]
        count[: batch.length] += real.sum(0).cpu()[:, None, None]
        for layer, z in enumerate(values):
            if layer == len(sums):
                sums.append(torch.zeros(length, *z.shape[2:], dtype=torch.float64))
            wide = torch.promote_types(z.dtype, torch.float32)
            total = torch.where(real.to(z.device)[..., None, None], z, 0).sum(0, dtype=wide)
            sums[layer][: batch.length] += total.cpu().double()
    means = []
    for total in sums:
        overall = total.sum(0, keepdim=True) / count.sum()
        mean = torch.where(count > 0, total / count.clamp(min=1), overall) if by_position else overall
        means.append(mean.to(device=model.device, dtype=values[0].dtype))
    return tuple(means)


# ---------------------------------------------------------------------------------------------------------------------
# The cut


@contextmanager
def cut_heads(model: Model, keep: Tensor, filling: Filling, where: Tensor | Positions = "all") -> Iterator[None]:
    """Remove heads while the block lasts.

    **Arguments:**

    - `keep`: [cut, layer, head], True for heads that are left alone. With several cuts, the rows of the batch that runs
      inside the block are the same prompts once for each cut, cut by cut.
    - `where`: positions at which the cut applies: a name, or a mask [pair, position].

    Layers in which nothing is removed are not touched at all.
    """
    cuts = len(keep)
    touched = [layer for layer in range(model.n_layers) if not bool(keep[:, layer].all())]
    calls = dict.fromkeys(touched, 0)

    def visit(layer: int, z: Tensor) -> Tensor | None:
        calls[layer] += 1
        if where == "last" and calls[layer] > 1:
            return None
        z = z.unflatten(0, (cuts, -1))
        kept = keep[:, layer].to(z.device)[:, None, None, :, None]
        if isinstance(where, Tensor):
            kept = kept | ~where.to(z.device)[:, :, None, None]
        elif where != "all":
            before_last = torch.arange(z.shape[2], device=z.device) < z.shape[2] - 1
            kept = kept | before_last[:, None, None]
        return torch.where(kept, z, filling.of(layer, z).to(z.device)).flatten(0, 1)

    with visit_heads(model, visit, touched):
        yield


def parse_head(head: "Head | str") -> Head:
    """(3, 5), or its name a3.h5."""
    if isinstance(head, str) and (found := re.fullmatch(r"a(\d+)\.h(\d+)", head)):
        return int(found[1]), int(found[2])
    match head:
        case (int(layer), int(number)):
            return layer, number
    raise HeadcountError(f"A head is (layer, head) or a name such as 'a3.h5'; this is {head!r}.")


def keep_mask(model: Model, removed: "Iterable[Head | str]") -> Tensor:
    """[layer, head], False for the heads that are removed."""
    keep = torch.ones(model.n_layers, model.n_heads, dtype=torch.bool)
    for layer, head in map(parse_head, removed):
        if not (0 <= layer < model.n_layers and 0 <= head < model.n_heads):
            raise HeadcountError(
                f"{model.name} has {model.n_layers} layers of {model.n_heads} heads, counted from 0;"
                f" there is no head ({layer}, {head})."
            )
        keep[layer, head] = False
    return keep


@contextmanager
def cut(
    model: Model, heads: "Iterable[Head | str]", fill: "str | Fill" = "zero", *, positions: Positions = "all",
    other: Tensor | None = None, reference: Sequence[Pair] = (),
) -> Iterator[None]:  # fmt: skip
    """Remove heads from a model for experiments of your own, also around `model.hf.generate`.

    **Arguments:**

    - `heads`: (layer, head), counted from 0, or names as a curve's ranking has them (`a3.h5`).
    - `fill`: what they carry instead.
    - `positions`: `all`, `last`, `generated`; prompts must then be unpadded or padded on the left.
    - `other`: for the fill `counterfactual`, the token ids of the other prompts, as long as the ones that run.
    - `reference`: for `mean-global`, the pairs over which the mean is taken.

    ```python
    with hc.cut(model, [(3, 1), (5, 0)], "scale(0.001)", positions="generated"):
        model.hf.generate(**inputs)
    ```
    """
    fill = Fill.parse(fill)
    if positions not in POSITIONS:
        raise HeadcountError(f"There are no positions {positions!r}. Known: {', '.join(POSITIONS)}.")
    filling = Filling(scale=fill.scale)
    if fill.kind == "counterfactual":
        if other is None:
            raise HeadcountError(
                "The fill 'counterfactual' needs the token ids of the other prompts: cut(..., other=ids)."
            )
        filling = Filling(head_values(model, other.to(model.device)))
    elif fill.kind == "mean-global":
        if not reference:
            raise HeadcountError("The fill 'mean-global' needs pairs to average over: cut(..., reference=task.train).")
        longest = max(len(pair.clean) for pair in reference)
        filling = Filling(mean_head_values(model, reference, longest, "clean", by_position=False))
    elif fill.kind in ("mean", "resample"):
        raise HeadcountError(
            f"The fill {fill} needs to know which prompts run; use headcount.sweep, headcount.score or 'mean-global'."
        )
    with cut_heads(model, keep_mask(model, heads)[None], filling, positions):
        yield
