"""Cuts that begin alike share their first layers.

Many cuts run in one pass, each on a copy of the prompts of its own. Up to the first layer in which two of them differ,
their copies hold the same numbers; so a layer is run once for all cuts that are alike up to it. Small k leave the first
layers empty and large k leave them whole, which makes this a good part of a sweep.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Cache

from ..models import Model
from ..models.changes import changing


class Branches:
    """Where some cuts, [cut, layer, head], part from each other."""

    def __init__(self, keep: Tensor) -> None:
        self.cuts = len(keep)
        self._firsts: list[Tensor] = []  # by layer: the first cut of each kind
        self._kinds: list[Tensor] = []  # by layer: the kind of each cut
        self._shared: set[int] = set()  # layers that have run once for each kind
        kind = torch.zeros(len(keep), dtype=torch.long)
        for heads in keep.detach().cpu().unbind(1):
            alike = torch.cat([kind[:, None], heads.double()], dim=1)
            found, kind = torch.unique(alike, dim=0, return_inverse=True)
            first = torch.full((len(found),), len(keep)).scatter_reduce(0, kind, torch.arange(len(keep)), "amin")
            self._firsts.append(first)
            self._kinds.append(kind)

    def run_at(self, layer: int) -> Tensor | slice:
        """The cuts whose copies of the prompts are there while a layer runs."""
        return self._firsts[layer] if layer in self._shared else slice(None)

    @contextmanager
    def shared(self, model: Model) -> Iterator[None]:
        """While the block lasts, a layer runs once for all cuts that are alike up to it."""
        with changing() as changes:
            for layer, module in enumerate(model.anatomy.layers):
                if len(self._firsts[layer]) < self.cuts:
                    changes.before(module, partial(self._narrow, layer), with_kwargs=True)
                    changes.after(module, partial(self._widen, layer))
            yield

    def _narrow(self, layer: int, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What a layer is given, for the first cut of each kind. It is left whole where that cannot be told."""
        stream: Tensor = args[0] if args else named["hidden_states"]
        rows = len(stream)
        if stream.dim() != 3 or rows == stream.shape[1] or not _by_row([args, named], rows):
            return None
        self._shared.add(layer)
        index = _rows_of(self._firsts[layer], rows // self.cuts).to(stream.device)
        return _narrowed(args, rows, index, layer), _narrowed(named, rows, index, layer)

    def _widen(self, layer: int, module: nn.Module, args: object, output: Any) -> Any:
        """What a layer returns, for every cut."""
        if layer not in self._shared:
            return None
        stream: Tensor = output if isinstance(output, Tensor) else output[0]
        index = _rows_of(self._kinds[layer], len(stream) // len(self._firsts[layer])).to(stream.device)
        wide = stream.index_select(0, index)
        return wide if isinstance(output, Tensor) else (wide, *output[1:])


def _rows_of(copies: Tensor, each: int) -> Tensor:
    """The rows of some copies of the prompts, each being so many rows."""
    return (copies[:, None] * each + torch.arange(each)).flatten()


def _by_row(given: Any, rows: int) -> bool:
    """Whether everything has one row for each copy of a prompt, or one for all, or none."""
    match given:
        case Tensor():
            return given.dim() == 0 or len(given) in (1, rows)
        case tuple() | list():
            return all(_by_row(one, rows) for one in given)
        case dict():
            return all(_by_row(one, rows) for one in given.values())
    return given is None or isinstance(given, bool | int | float | str | Cache)


def _narrowed(given: Any, rows: int, index: Tensor, layer: int) -> Any:
    """Some rows of every tensor that has a row for each copy, and of the layer's own keys and values of a prefix."""
    match given:
        case Tensor() if given.dim() and len(given) == rows:
            return given.index_select(0, index.to(given.device))
        case tuple() | list():
            some = [_narrowed(one, rows, index, layer) for one in given]
            return some if isinstance(given, list) else tuple(some)
        case dict():
            return {name: _narrowed(one, rows, index, layer) for name, one in given.items()}
        case Cache():
            cast(Any, given.layers[layer]).batch_select_indices(index)
    return given
