"""Heads that are removed from a model for good: what `checkpoint`, `hooks` and `lm-eval` take."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError, listed
from ..core.export_options import CutChoice
from ..core.saving import Floats
from ..edit import Fill, Filling, Head, cut_heads, head_name
from ..edit.cut import heads_of, keep_mask
from ..edit.fills import mean_head_values
from ..models import Model, load
from ..models.wiring import kv_heads
from ..rank.comparison import load_scores
from ..rank.gating import ContrastGates
from ..rank.roles import HeadRoles
from ..rank.scores import HeadScores, ranked, warn_of_another
from ..tasks import task as make_task
from ..tasks.examples import Example

FILLS = ("zero", "scale", "mean-global")
"""What a weight, a bias or a line of text can hold."""


@dataclass(frozen=True, eq=False)
class HeadCut:
    """Heads of a model and what they carry instead, the same at every position."""

    model: Model
    heads: tuple[Head, ...]
    fill: Fill
    means: tuple[Tensor, ...] | None = field(repr=False)  # of every layer, [head, head size]; with mean-global
    origin: str  # where the heads come from, in words

    @property
    def by_layer(self) -> dict[int, list[int]]:
        """Layer -> its removed heads, in order; layers that lose none are not there."""
        found: dict[int, list[int]] = {}
        for layer, head in sorted(self.heads):
            found.setdefault(layer, []).append(head)
        return found

    def value(self, layer: int, head: int) -> Tensor:
        """What a removed head carries beside its share of itself, [head size]."""
        size = self.model.anatomy.head_size
        return torch.zeros(size) if self.means is None else self.means[layer][head].detach().cpu().float()

    def constant(self, layer: int) -> Tensor:
        """What the removed heads of a layer write together at every position, [width], in double precision."""
        weight = self.model.anatomy.out_weight(layer).detach().cpu().double()
        parts = [self.value(layer, head).double() @ weight[head] for head in self.by_layer.get(layer, ())]
        return torch.stack(parts).sum(0) if parts else torch.zeros(weight.shape[-1], dtype=torch.float64)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model without its heads while the block lasts."""
        values = None if self.means is None else tuple(mean[None] for mean in self.means)
        with cut_heads(self.model, keep_mask(self.model, self.heads)[None], Filling(values, self.fill.scale)):
            yield

    @property
    def words(self) -> str:
        """In a sentence."""
        names = listed((head_name(head) for head in self.heads), 400)
        which = f"{len(self.heads)} of {self.model.head_count} heads of {self.model.name} removed"
        return f"{which} ({self.origin}), fill {self.fill}: {names}"


def folder_with(place: Path, files: Sequence[str], units: str) -> Path:
    """The folder itself, or the only one of a study's that holds such scores."""
    if not place.is_dir():
        raise HeadcountError(f"There is no folder of results at {place}.")
    if any((place / f"{name}.json").is_file() for name in files):
        return place
    below = sorted(path.parent for name in files for path in place.glob(f"*/*/{name}.json"))
    if len(below) != 1:
        there = f"holds {len(below)} of them. Give one: {listed(map(str, below))}" if below else "holds none"
        raise HeadcountError(f"Scores of {units} are wanted, and {place} {there}.")
    return below[0]


def scores_in(place: Path) -> HeadScores:
    """The only scores of heads in a folder of scores, roles or a study."""
    return load_scores(folder_with(place, (HeadScores.FILE, HeadRoles.FILE, ContrastGates.FILE), "heads"))


def cut_of(scores: HeadScores | None, choice: CutChoice, model: Model | None = None) -> HeadCut:
    """The heads that a choice removes from a model, which is loaded where it is not at hand; so are the prompts that a
    mean is taken over."""
    name = choice.model or (scores.model if scores else None)
    if model is None and name is None:
        raise HeadcountError("A cut needs a model, and none is named. Give --model.")
    loaded = model or _loaded(str(name), choice)
    if scores is not None:
        warn_of_another(scores, loaded)
    reference: Sequence[Example] = ()
    if Fill.parse(choice.fill).needs_reference:
        asked = choice.task or (scores.task if scores else None)
        if asked is None:
            raise HeadcountError(f"The fill {choice.fill} is a mean over the prompts of a task. Give --task.")
        reference = make_task(asked, loaded, n=choice.n, seed=choice.seed).train
    return make_cut(loaded, choice, scores, reference)


def _loaded(name: str, choice: CutChoice) -> Model:
    revision: dict[str, Any] = {"revision": choice.revision} if choice.revision else {}
    return load(name, device=choice.device, dtype=choice.dtype, base=choice.base_model, **revision)


def make_cut(model: Model, choice: CutChoice, scores: HeadScores | None, reference: Sequence[Example] = ()) -> HeadCut:
    """The heads that a choice names, by the scores where it goes by scores; `reference`: prompts for a mean."""
    fill = Fill.parse(choice.fill)
    if fill.kind not in FILLS:
        raise HeadcountError(
            f"A cut that is written down carries the same at every position: zero, scale(eps) or mean-global; this is"
            f" {fill}."
        )
    heads, origin = _chosen(model, choice, scores)
    means = None
    if fill.needs_reference:
        longest = max(len(example.ids) for example in reference)
        means = tuple(mean[0] for mean in mean_head_values(model, reference, longest, "clean", by_position=False))
    return HeadCut(model, tuple(heads), fill, means, origin)


def random_cut(cut: HeadCut, seed: int) -> HeadCut:
    """As many heads at random, none of which are in the cut where there are enough others."""
    model, rng = cut.model, np.random.default_rng(seed)
    every = [divmod(place, model.n_heads) for place in range(model.head_count)]
    others = [head for head in every if head not in set(cut.heads)]
    pool = others if len(others) >= len(cut.heads) else every
    drawn = rng.choice(len(pool), len(cut.heads), replace=False)
    return HeadCut(model, tuple(pool[place] for place in drawn), cut.fill, cut.means, f"at random, seed {seed}")


def _chosen(model: Model, choice: CutChoice, scores: HeadScores | None) -> tuple[list[Head], str]:
    ways = [way for way in ("top", "weakest", "groups", "heads") if getattr(choice, way) is not None]
    if len(ways) != 1:
        given = f"{' and '.join(f'--{way}' for way in ways)} came" if ways else "none came"
        raise HeadcountError(f"Say once which heads to remove: --top, --weakest, --groups or --heads; {given}.")
    if choice.heads is not None:
        return heads_of(model, choice.heads), "named by hand"
    if scores is None:
        raise HeadcountError(f"--{ways[0]} goes by scores of heads, and there are none. Give their folder, or --heads.")
    scores.require_shape(model.name, model.n_layers, model.n_heads)
    told = f"{scores.method} on {scores.task}"
    if choice.groups is not None:
        return _groups(
            model, scores.values, choice.groups
        ), f"the {choice.groups} weakest KV groups of every layer by {told}"
    k = choice.top or choice.weakest or 0
    if k >= model.head_count:
        raise HeadcountError(
            f"{model.name} has {model.head_count} heads, of which one at least must stay; {k} were to go."
        )
    order = scores.order(choice.by)
    return (order[:k], f"the first {k} by {told}") if choice.top else (order[-k:], f"the last {k} by {told}")


def _groups(model: Model, values: Floats, count: int) -> list[Head]:
    """The weakest groups of query heads that share a KV head, by their largest score."""
    n_kv = kv_heads(model.hf.config)
    if count >= n_kv:
        raise HeadcountError(
            f"{model.name} has {n_kv} KV groups in a layer, of which one at least must stay; {count} were to go."
        )
    size = model.n_heads // n_kv
    found = []
    for layer, own in enumerate(np.abs(values).reshape(len(values), n_kv, size).max(-1)):
        weakest = ranked(-own, "signed")[:count]
        found += [(layer, group * size + place) for group in sorted(weakest.tolist()) for place in range(size)]
    return found
