"""What fills the hole that a removed head leaves: nothing (`zero`), its mean, what it carries on another prompt
(`counterfactual`, `resample`), or a share of itself (`scale(eps)`)."""

import math
import random
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from ..core.errors import HeadcountError
from ..models import Model
from ..tasks.batches import Batch, batches, collate
from ..tasks.examples import Example, pairs_only
from .heads import head_values

Side = Literal["clean", "corrupt"]


@dataclass(frozen=True)
class Fill:
    """What a removed head carries: `zero`, `mean`, `mean-global`, `counterfactual`, `resample`, `scale(0.1)`."""

    kind: str
    scale: float = 0.0

    KINDS = ("zero", "mean", "mean-global", "counterfactual", "resample", "scale(eps)")

    @classmethod
    def parse(cls, text: "str | Fill") -> "Fill":
        if isinstance(text, Fill):
            return text
        text = str(text)
        if found := re.fullmatch(r"scale\((.+)\)", text):
            with suppress(ValueError):
                if math.isfinite(share := float(found[1])):
                    return cls("scale", share)
        elif text in cls.KINDS:
            return cls(text)
        raise HeadcountError(f"There is no fill {text!r}. Known: {', '.join(cls.KINDS)}, for example scale(0.1).")

    def __str__(self) -> str:
        return f"scale({self.scale:g})" if self.kind == "scale" else self.kind

    @property
    def asks(self) -> str:
        """What a study asks that keeps some units and lets the others carry this."""
        if self.kind == "counterfactual":
            return "what of the difference between the two prompts the kept units carry"
        if self.kind == "resample":
            return "what of the behaviour is left when the other units come from another prompt"
        others = {"zero": "silent", "scale": f"turned down to {self.scale:g}"}.get(self.kind, "average")
        return f"what of the behaviour is left when the other units are {others}"

    @property
    def needs_reference(self) -> bool:
        """True where the fill is an average over a set of prompts."""
        return self.kind.startswith("mean")


def check_fill(fill: "Fill | str", examples: Sequence[Example]) -> Fill:
    """The fill, where these examples have the other prompts that it may need."""
    fill = Fill.parse(fill)
    if fill.kind in ("counterfactual", "resample"):
        pairs_only(examples, f"The fill {fill}")
    return fill


@dataclass(frozen=True)
class Filling:
    """A fill made ready for one batch: stored values, one tensor a layer, or a share of the head's own value."""

    values: tuple[Tensor, ...] | None = None
    scale: float = 0.0

    def of(self, layer: int, z: Tensor) -> Tensor:
        """What a removed head carries; broadcasts to z, [cut, pair, position, head, head size]."""
        return z * self.scale if self.values is None else self.values[layer]

    @property
    def is_zero(self) -> bool:
        return self.values is None and self.scale == 0

    @property
    def positions(self) -> int:
        """For how many positions there is a value of their own; 1 where one does for all."""
        return 1 if self.values is None else self.values[0].shape[-3]

    def by_row(self) -> "Filling":
        """The same for a batch in which every row is a cut of its own."""
        return self._each(lambda v: v.unsqueeze(1) if v.dim() == 4 else v)

    def from_position(self, start: int) -> "Filling":
        """The same for a run that begins at a later position."""
        return self._each(lambda v: v[..., start:, :, :] if v.shape[-3] > 1 else v)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Filling":
        return self if self.values is None else replace(self, values=tuple(map(change, self.values)))


@dataclass(frozen=True)
class Filler:
    """Makes the filling of each batch: runs the donor prompts, or looks up the means."""

    fill: Fill
    side: Side = "clean"  # the prompts that the cut model runs on; `counterfactual` fills from the other side
    examples: Sequence[Example] = ()  # all examples of the measurement, from which `resample` draws donors
    means: tuple[Tensor, ...] | None = field(default=None, repr=False)
    """One tensor a layer: [position, head, head size], or [1, head, head size] for the mean over positions too."""
    seed: int = 0

    @classmethod
    def prepare(
        cls,
        model: Model,
        fill: "Fill | str",
        *,
        examples: Sequence[Example],
        reference: Sequence[Example],
        side: Side = "clean",
        seed: int = 0,
        max_tokens: int = 2048,
    ) -> "Filler":
        """`reference`: the prompts that `mean` averages over (the train split, when a curve is measured on test)."""
        fill = check_fill(fill, examples)
        means = None
        if fill.needs_reference:
            longest = max(len(example.ids) for example in (*examples, *reference))
            means = mean_head_values(model, reference, longest, side, fill.kind == "mean", max_tokens)
        return cls(fill, side, tuple(examples), means, seed)

    def filling(
        self, model: Model, indices: Sequence[int], batch: Batch, start: int = 0, prefix: DynamicCache | None = None
    ) -> Filling:
        """For a run that begins at a later position, behind a prefix of the batch's own."""
        match self.fill.kind:
            case "zero" | "scale":
                return Filling(scale=self.fill.scale)
            case "counterfactual":
                other = batch.corrupt if self.side == "clean" else batch.clean
                if prefix is not None and torch.equal(batch.clean[:, :start], batch.corrupt[:, :start]):
                    return Filling(head_values(model, other[:, start:], model.repeated_prefix(prefix, 1)))
                found = Filling(head_values(model, other))
            case "resample":
                found = Filling(head_values(model, self._donors(indices, batch)))
            case _:
                assert self.means is not None
                found = Filling(tuple(mean[: batch.length] if len(mean) > 1 else mean for mean in self.means))
        return found.from_position(start)

    def opposite(self) -> "Filler":
        """The same for a run on the other side of the pairs."""
        return replace(self, side="corrupt" if self.side == "clean" else "clean")

    def _donors(self, indices: Sequence[int], batch: Batch) -> Tensor:
        """For each pair another prompt of its length and side, at random; if there is none, its counterfactual."""
        pairs = pairs_only(self.examples, "The fill resample")
        donors = []
        for index in indices:
            own = pairs[index]
            others = [p for i, p in enumerate(pairs) if i != index and len(p.clean) == len(own.clean)]
            others = others or [replace(own, clean=own.corrupt, corrupt=own.clean)]
            donors.append(random.Random(f"{self.seed} {index}").choice(others))
        chosen = collate(donors, batch.clean.device)
        ids = chosen.clean if self.side == "clean" else chosen.corrupt
        return nn.functional.pad(ids, (0, batch.length - ids.shape[1]))


def mean_head_values(
    model: Model, examples: Sequence[Example], length: int, side: Side, by_position: bool, max_tokens: int = 2048
) -> tuple[Tensor, ...]:
    """Mean of z over prompts: for each position (counted from the start), or over all real positions together. A
    position that no reference prompt reaches gets the mean over all positions."""
    sums: list[Tensor] = []
    count = torch.zeros(length, dtype=torch.float64)
    for _, batch in batches(examples, model.device, max_tokens):
        values = head_values(model, batch.clean if side == "clean" else batch.corrupt)
        real = batch.real()
        count[: batch.length] += real.sum(0).cpu()
        for layer, z in enumerate(values):
            if layer == len(sums):
                sums.append(torch.zeros(length, *z.shape[2:], dtype=torch.float64))
            wide = torch.promote_types(z.dtype, torch.float32)
            total = torch.where(real.to(z.device)[..., None, None], z, 0).sum(0, dtype=wide)
            sums[layer][: batch.length] += total.cpu().double()
    dtype = values[0].dtype
    return tuple(mean_of_sums(total, count, by_position).to(device=model.device, dtype=dtype) for total in sums)


def mean_of_sums(total: Tensor, count: Tensor, by_position: bool) -> Tensor:
    """Sums over so many prompts as means: at each position, [position, …], or over all together, [1, …]."""
    ones = count.to(total.device).view(-1, *[1] * (total.dim() - 1))
    overall = total.sum(0, keepdim=True) / ones.sum()
    return torch.where(ones > 0, total / ones.clamp(min=1), overall) if by_position else overall


def first_reached(batch: Batch, fill: Fill, where: Tensor | None) -> int:
    """The first position at which any cut of these pairs can change anything. Before the first token in which the two
    prompts of a pair differ, every head carries the same in both runs, so a counterfactual fill changes nothing there,
    and what comes before never depends on what comes after."""
    reached = torch.ones_like(batch.clean, dtype=torch.bool) if where is None else where
    if fill.kind == "counterfactual":
        reached = reached & (batch.clean != batch.corrupt).int().cummax(1).values.bool()
    return int(reached.int().argmax(1).min())
