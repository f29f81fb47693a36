"""Cutting heads: which are removed, what they carry instead, and at which positions."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..core.errors import HeadcountError, require_known
from ..core.words import POSITIONS, Positions
from ..models import Model
from ..models.changes import changing, own_block
from ..tasks.examples import Example
from .branches import Branches
from .fills import Fill, Filling, mean_head_values
from .heads import Head, head_values, visit_heads


@contextmanager
def cut_heads(
    model: Model,
    keep: Tensor,
    filling: Filling,
    where: Tensor | Positions = "all",
    branches: Branches | None = None,
) -> Iterator[None]:
    """Remove heads while the block lasts.

    **Arguments:**

    - `keep`: [cut, layer, head], True for heads that are left alone; or gates g from 0 to 1, which let a head through
      in part, g·z + (1 - g)·fill, and through which gradients flow. With several cuts, the rows of the batch that runs
      inside the block are the same prompts once for each cut, cut by cut.
    - `where`: positions at which the cut applies: a name, or a mask [pair, position].
    - `branches`: of these cuts; those that are alike up to a layer then run it once. For a single forward pass.

    Layers in which nothing is removed are not touched at all. While a model writes, a fill that is known for the prompt
    alone (`counterfactual`) is for the prompt alone.
    """
    touched = [layer for layer in range(model.n_layers) if keep.requires_grad or not bool((keep[:, layer] == 1).all())]
    calls = dict.fromkeys(touched, 0)

    def visit(layer: int, z: Tensor) -> Tensor | None:
        calls[layer] += 1
        if calls[layer] > 1 and (where == "last" or (z.shape[1] == 1 and filling.positions > 1)):
            return None
        kept = keep[:, layer] if branches is None else keep[branches.run_at(layer), layer]
        z = z.unflatten(0, (len(kept), -1))
        if filling.positions not in (1, z.shape[2]):
            raise HeadcountError(
                f"The other prompts have {filling.positions} tokens, and prompts of {z.shape[2]} run. Both must have as"
                " many, so that each position has a value to take."
            )
        kept = kept.to(z.device if keep.dtype == torch.bool else z)[:, None, None, :, None]
        if isinstance(where, Tensor) or where != "all":  # a head is left alone outside the positions of the cut
            positions = torch.arange(z.shape[2], device=z.device)[None]
            there = where.to(z.device) if isinstance(where, Tensor) else positions == z.shape[2] - 1
            there = there[:, :, None, None]
            kept = kept | ~there if kept.dtype == torch.bool else torch.where(there, kept, 1.0)
        if kept.dtype == torch.bool:
            mixed = torch.where(kept, z, filling.of(layer, z).to(z.device))
        elif filling.is_zero:
            mixed = kept * z
        else:
            mixed = torch.lerp(filling.of(layer, z).to(z.device).expand_as(z), z, kept.expand_as(z))
        return mixed.flatten(0, 1)

    following = filling.following(model) if isinstance(filling, PositionMeans) else nullcontext()
    sharing = nullcontext() if branches is None else branches.shared(model)
    with following, sharing, visit_heads(model, visit, touched):
        yield


def parse_head(head: "Head | str") -> Head:
    """(3, 5), or its name a3.h5."""
    if isinstance(head, str) and (found := re.fullmatch(r"a(\d+)\.h(\d+)", head)):
        return int(found[1]), int(found[2])
    match head:
        case (int(layer), int(number)) if not isinstance(layer, bool) and not isinstance(number, bool):
            return layer, number
    raise HeadcountError(f"A head is (layer, head) or a name such as 'a3.h5'; got {head!r}.")


def heads_of(model: Model, heads: "Iterable[Head | str] | Head | str") -> list[Head]:
    """Heads of a model, each once, in the order given; one head need not stand in a list."""
    match heads:
        case str() | (int(), int()):
            found = [parse_head(cast(Head | str, heads))]
        case _:
            found = [parse_head(head) for head in heads]
    for layer, head in found:
        if not (0 <= layer < model.n_layers and 0 <= head < model.n_heads):
            raise HeadcountError(
                f"{model.name} has {model.n_layers} layers of {model.n_heads} heads, counted from 0;"
                f" there is no head ({layer}, {head})."
            )
    return list(dict.fromkeys(found))


def keep_mask(model: Model, removed: "Iterable[Head | str] | Head | str") -> Tensor:
    """[layer, head], False for the heads that are removed."""
    keep = torch.ones(model.n_layers, model.n_heads, dtype=torch.bool)
    for head in heads_of(model, removed):
        keep[head] = False
    return keep


@own_block
def cut(
    model: Model,
    heads: "Iterable[Head | str] | Head | str",
    fill: "str | Fill" = "zero",
    *,
    positions: Positions = "all",
    other: Tensor | None = None,
    reference: Sequence[Example] = (),
    seed: int = 0,
) -> Iterator[None]:
    """Remove heads from a model for experiments of your own, also around `model.hf.generate`.

    **Arguments:**

    - `heads`: (layer, head), counted from 0, or names as a curve's ranking has them (`a3.h5`).
    - `fill`: what they carry instead.
    - `positions`: `all`, `last`, `generated`; prompts must then be unpadded or padded on the left.
    - `other`: for the fill `counterfactual`, the token ids of the other prompts, as long as the ones that run. They say
      nothing of tokens that a model writes by itself: there heads are left alone.
    - `reference`: for `mean` and `mean-global`, the examples over which the mean is taken, such as `task.train`. The
      mean of a position counts from the first real token; where prompts are longer than these, it is that over all
      positions. For `resample`, the examples among which the other prompt is drawn: one that has as many tokens as the
      prompts that run, the same for all of them. As of a counterfactual, nothing is said of tokens that are written.
    - `seed`: of that draw.

    ```python
    with hc.cut(model, [(3, 1), (5, 0)], "scale(0.001)", positions="generated"):
        model.hf.generate(**inputs)
    ```
    """
    fill = Fill.parse(fill)
    require_known(positions, POSITIONS, "positions")
    filling = Filling(scale=fill.scale)
    if fill.kind == "counterfactual":
        if other is None:
            raise HeadcountError(f"The fill '{fill}' needs the token ids of the other prompts: cut(..., other=ids).")
        filling = Filling(head_values(model, other.to(model.device)))
    elif fill.needs_reference:
        if not reference:
            raise HeadcountError(f"The fill '{fill}' needs prompts to average over: cut(..., reference=task.train).")
        filling = mean_filling(model, fill, reference)
    elif fill.kind == "resample":
        if not reference:
            raise HeadcountError(f"The fill '{fill}' needs prompts to draw from: cut(..., reference=task.train).")
        filling = Donors.of_prompts(model, reference, seed)
    keep = keep_mask(model, heads)[None]
    with cut_heads(model, keep, filling, positions):
        yield


def mean_filling(model: Model, fill: Fill, reference: Sequence[Example]) -> Filling:
    """The mean over prompts, of every position or of all together, for runs that are not known before."""
    longest = max(len(example.ids) for example in reference)
    # One position more than any of them has, which gets the mean over all positions.
    means = mean_head_values(model, reference, longest + 1, "clean", by_position=fill.kind == "mean")
    return Filling(means) if fill.kind == "mean-global" else PositionMeans(means)


def donor_of(reference: Sequence[Example], length: int, seed: int) -> tuple[int, ...]:
    """A prompt of so many tokens, drawn at random; refused where there is none."""
    lengths = sorted({len(example.ids) for example in reference})
    if length not in lengths:
        raise HeadcountError(_no_donor(length, lengths))
    fitting = [tuple(example.ids) for example in reference if len(example.ids) == length]
    return random.Random(f"{seed} {length}").choice(fitting)


def _no_donor(length: int, lengths: Sequence[int]) -> str:
    return (
        f"The fill resample needs another prompt of {length} tokens, and those to draw from have"
        f" {', '.join(map(str, lengths[:12]))}. Change the prompt, or draw from others."
    )


@dataclass(frozen=True)
class Donors(Filling):
    """What heads carry on another prompt, for runs whose length is not known before: one prompt of each length. Single
    tokens are those that a model writes, of which other prompts say nothing."""

    by_length: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)

    @classmethod
    def of_prompts(cls, model: Model, reference: Sequence[Example], seed: int) -> "Donors":
        lengths = sorted({len(example.ids) for example in reference})
        drawn = {length: torch.tensor([donor_of(reference, length, seed)]) for length in lengths}
        return cls(by_length={length: head_values(model, ids.to(model.device)) for length, ids in drawn.items()})

    @property
    def is_zero(self) -> bool:
        return False

    def of(self, layer: int, z: Tensor) -> Tensor:
        length = z.shape[2]
        if length == 1:
            return z
        if length not in self.by_length:
            raise HeadcountError(_no_donor(length, list(self.by_length)))
        return self.by_length[length][layer]


@dataclass(frozen=True)
class PositionMeans(Filling):
    """The mean of each position for runs that are not known before: of any length, behind a KV cache, padded on the
    left. Which positions a run has is read off what the model is called with."""

    at: dict[str, Tensor] = field(default_factory=dict)

    @property
    def positions(self) -> int:
        """It fits whatever runs."""
        return 1

    @contextmanager
    def following(self, model: Model) -> Iterator[None]:
        """Know the positions of every run of the model while the block lasts."""

        def look(module: nn.Module, args: tuple[object, ...], told: dict[str, Any]) -> None:
            ids: Tensor = told["input_ids"] if "input_ids" in told else args[0]  # type: ignore[assignment]
            past, mask = told.get("past_key_values"), told.get("attention_mask")
            start = 0 if past is None else int(past.get_seq_length())
            places = torch.arange(start, start + ids.shape[1], device=ids.device).expand(len(ids), -1)
            if isinstance(mask, Tensor) and mask.dim() == 2:
                places = places - (mask.cumsum(1) == 0).sum(1, keepdim=True)
            self.at["places"] = places.clamp(min=0)

        with changing() as changes:
            changes.before(model.hf, look, with_kwargs=True)
            yield

    def from_position(self, start: int) -> "PositionMeans":
        """It sees by itself where a run begins."""
        return self

    def of(self, layer: int, z: Tensor) -> Tensor:
        assert self.values is not None
        means = self.values[layer]
        return means[self.at["places"].clamp(max=len(means) - 1).to(means.device)][None]
