"""Where the residual stream is read and written: what edge analysis touches beside the heads themselves.

Heads need the output projection only (`anatomy.py`). Edges need every reader's projection and norm as well, by the
names that a family's `edges` has for them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.activations import NewGELUActivation

from ..core.errors import HeadcountError
from ..core.words import READERS, Readers
from .anatomy import out_first
from .changes import Changes, changing
from .families import FAMILIES
from .graph import INPUTS, Graph, Input
from .model import Model
from .norms import NormParts, nearly, wave
from .plain_weights import require_plain


@dataclass(frozen=True)
class Rows:
    """Features of a linear module that belong to heads."""

    index: Tensor  # [head, head size]

    @cached_property
    def step(self) -> int | None:
        """The distance between heads, where a head's rows follow each other and heads are evenly spaced."""
        heads, size = self.index.shape
        step = int(self.index[-1, 0] - self.index[0, 0]) // max(heads - 1, 1)
        even = self.index[0, 0] + step * torch.arange(heads)[:, None] + torch.arange(size)
        return step if torch.equal(self.index, even) else None

    def of(self, values: Tensor) -> Tensor:
        """`values[index]`, [head, head size, ...]; a view where the rows are even."""
        if self.step is None:
            return values[self.index]
        stride = values.stride()
        first = values.storage_offset() + int(self.index[0, 0]) * stride[0]
        return values.as_strided((*self.index.shape, *values.shape[1:]), (self.step * stride[0], *stride), first)


@dataclass(frozen=True)
class Projection:
    """How the heads of one layer read one role: rows of a linear module."""

    module: nn.Module
    rows: Rows  # output features, where every head that reads has its own
    source_rows: Rows
    """The features of the module's own weight that they come from; query heads that share a KV head have the same."""

    def weight(self) -> Tensor:
        """[head, head size, d_model]."""
        return self.source_rows.of(out_first(self.module))

    def bias(self) -> Tensor | None:
        """[head, head size]."""
        bias = cast(Tensor | None, getattr(self.module, "bias", None))
        return None if bias is None else self.source_rows.of(bias)

    def columns(self, output: Tensor) -> Tensor:
        """The heads' part of what the module gives, [..., head, head size]."""
        return self.rows.of(output.movedim(-1, 0)).movedim((0, 1), (-2, -1))


@dataclass(frozen=True)
class LayerWiring:
    attention: nn.Module
    attention_norm: NormParts | None
    projections: dict[Input, Projection]
    heads_norm: NormParts | None  # the norm between the sum of the heads and the stream, in post-norm blocks
    mlp_norm: NormParts | None
    mlp_in: nn.Module
    mlp_out: nn.Module

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The modules of the projections; one where a family has them in one."""
        return tuple(dict.fromkeys(projection.module for projection in self.projections.values()))


@dataclass(frozen=True)
class Wiring:
    graph: Graph
    layers: tuple[LayerWiring, ...]
    final_norm: NormParts
    n_kv_heads: int  # of the model; the graph has more where query heads read
    gelus: tuple[nn.Module, ...]  # activations that are written out in elementary steps
    learned_positions: bool  # whether the stream begins with more than the token embedding

    @property
    def width(self) -> int:
        return len(self.final_norm.gain)

    def norms(self) -> list[NormParts]:
        """All that the stream passes on its way to a reader or from a writer."""
        of_layers = [(layer.attention_norm, layer.heads_norm, layer.mlp_norm) for layer in self.layers]
        return [norm for norms in of_layers for norm in norms if norm is not None] + [self.final_norm]

    @contextmanager
    def readied(self) -> Iterator[None]:
        """The model made ready for runs of edges, while the block lasts. What it computes stays the same. Where the
        graph counts keys and values by query head, they are written out once for each, so that each can be changed
        alone. GPT-2's GELU, eight steps that each keep a tensor for the backward pass, becomes one."""
        with changing() as changes:
            for gelu in self.gelus:
                changes.instead(gelu, partial(nn.functional.gelu, approximate="tanh"))
            for layer in self.layers if self.graph.n_kv_heads != self.n_kv_heads else ():
                for module in layer.modules:
                    changes.instead(module, _written_out(layer, module))
                for name, value in (("num_key_value_groups", 1), ("num_key_value_heads", self.graph.n_kv_heads)):
                    if hasattr(layer.attention, name):
                        changes.set(layer.attention, name, value)
                self._widen_norm(layer, changes)
            yield

    def _widen_norm(self, layer: LayerWiring, changes: Changes) -> None:
        """OLMo-2 norms all keys of a token together: copies have the same mean square, and need copies of the gain."""
        norm: Any = getattr(layer.attention, "k_norm", None)
        if norm is not None and len(norm.weight) == len(cast(Tensor, layer.projections["k"].module.weight)):
            by_head = norm.weight.detach().unflatten(0, (self.n_kv_heads, -1))
            wide = by_head.repeat_interleave(self.graph.n_kv_heads // self.n_kv_heads, dim=0).flatten()
            changes.set(norm, "weight", nn.Parameter(wide, requires_grad=norm.weight.requires_grad))


def _written_out(layer: LayerWiring, module: nn.Module) -> Callable[..., Tensor]:
    """The module's own forward, its key and value rows repeated for the query heads that share them."""
    own = module.forward
    parts = [projection for projection in layer.projections.values() if projection.module is module]
    source = torch.cat([projection.source_rows.index.flatten() for projection in parts])
    source = source[torch.cat([projection.rows.index.flatten() for projection in parts]).argsort()]

    def forward(*args: Any, **kwargs: Any) -> Tensor:
        output: Tensor = own(*args, **kwargs)
        return output[..., source.to(output.device)]

    return forward


def find_graph(model: Model, readers: Readers = "kv-heads") -> Graph:
    """The writers and readers of a model, or an error that names the family."""
    config = model.hf.config
    return graph_of_config(config, config.model_type, model.n_layers, model.n_heads, readers, heads_work=True)


def graph_of_config(
    config: PretrainedConfig, model_type: str, n_layers: int, n_heads: int, readers: Readers, heads_work: bool = False
) -> Graph:
    """The same from a config alone, with which it cannot be told whether the heads of an unknown family work."""
    if readers not in READERS:
        raise HeadcountError(f"Readers are {' or '.join(READERS)}; got {readers!r}.")
    text = config.get_text_config()
    family = FAMILIES.get(model_type)
    pre_norm = getattr(text, "do_layer_norm_before", True)  # OPT-350m norms the whole stream after each block
    if family is None or family.edges is None or not pre_norm:
        heads = "; its heads are: use heads, or a model of" if heads_work or family else ". Use a model of"
        known = ", ".join(sorted(name for name, other in FAMILIES.sound().items() if other.edges))
        raise HeadcountError(f"Edges are not supported for the family {model_type!r}{heads} {known}.")
    n_kv = kv_heads(config) if readers == "kv-heads" else n_heads
    return Graph(n_layers, n_heads, n_kv, bool(family.edges.parallel(text)), whole=readers == "components")


def has_edges(model: Model) -> bool:
    """Whether the edges of a model's family are known."""
    with suppress(HeadcountError):
        find_graph(model)
        return True
    return False


def kv_heads(config: PretrainedConfig) -> int:
    """How many heads of a layer have keys and values of their own."""
    text: Any = config.get_text_config()
    return int(getattr(text, "num_key_value_heads", None) or text.num_attention_heads)


def find_wiring(model: Model, readers: Readers = "kv-heads", readied: bool = False) -> Wiring:
    """Every module that edges touch, or an error that names the family; whole edges are wired as they are run. Where
    the model is `readied` already, its projections are what we have made of them."""
    graph = find_graph(model, readers).split
    anatomy = model.anatomy
    family = FAMILIES[anatomy.model_type]
    wires = family.edges
    assert wires is not None  # or there would be no graph
    n_kv = kv_heads(model.hf.config)
    for module in (model.unembedding, anatomy.out_projections[0]):
        require_plain(module)
    like = cast(Tensor, model.unembedding.weight)
    own = replace(graph, n_kv_heads=n_kv)

    def norm(layer: nn.Module, name: str | None) -> NormParts | None:
        """None where the stream is read as it is."""
        module = None if name is None else layer.get_submodule(name)
        return None if module is None or isinstance(module, nn.Identity) else NormParts.probe(module, like)

    places = {}  # the same in all layers
    for role, name in zip(INPUTS, (wires.queries, wires.keys, wires.values), strict=True):
        shared = graph.heads_of(role) // own.heads_of(role)
        source = _rows(own, anatomy.head_size, wires.layout, role).repeat_interleave(shared, dim=0)
        places[role] = name, Rows(_rows(graph, anatomy.head_size, wires.layout, role)), Rows(source)
    layers = tuple(
        LayerWiring(
            attention=block.get_submodule(family.attention),
            attention_norm=norm(block, wires.attention_norm),
            projections={role: Projection(block.get_submodule(name), *rows) for role, (name, *rows) in places.items()},
            heads_norm=norm(block, family.attention_norm),
            mlp_norm=norm(block, wires.mlp_norm),
            mlp_in=block.get_submodule(wires.mlp_in),
            mlp_out=block.get_submodule(wires.mlp_out),
        )
        for block in cast(nn.ModuleList, model.hf.get_submodule(family.layers))
    )
    for module in {module for layer in layers for module in layer.modules} if not readied else ():
        _require_plain(module)
    assert anatomy.final_norm is not None
    gelus = tuple(module for module in model.hf.modules() if isinstance(module, NewGELUActivation))
    return Wiring(graph, layers, NormParts.probe(anatomy.final_norm, like), n_kv, gelus, wires.learned_positions)


@torch.no_grad()
def _require_plain(module: nn.Module) -> None:
    """Refuse a projection that does more than its weights say (an adapter that was not merged, a forward or a hook of
    the user's): circuits compute it head by head from the weights alone."""
    weight, bias = out_first(module), cast(Tensor | None, getattr(module, "bias", None))
    x = wave(weight.shape[1]).to(weight)[None, None]
    if not nearly(nn.functional.linear(x, weight, bias), module(x)):
        raise HeadcountError(
            f"Edges need projections that are their weights alone, and a {type(module).__name__} of this model does"
            " more: merge its adapter, or take its hook off. Heads work."
        )


def _rows(graph: Graph, size: int, layout: str, role: Input) -> Tensor:
    """Which output features of a projection belong to which head of a role, [head, head size]."""
    heads = torch.arange(graph.heads_of(role))[:, None]
    within = torch.arange(size)
    if layout == "by head":
        return (3 * heads + INPUTS.index(role)) * size + within
    others = INPUTS[: INPUTS.index(role)] if layout == "blocks" else ()
    return (sum(map(graph.heads_of, others)) + heads) * size + within
