"""What edges outside a circuit carry, and the base run, in which no edge is kept and every reader sees the fill.

With counterfactual fill the base run is the counterfactual run itself. For means and zeros it is a run of its own: each
reader's stream is that of the clean run, less what every writer before it wrote, plus what fills it. What belongs to no
writer (position embeddings, the bias of the attention's output) stays.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from ..core.errors import HeadcountError
from ..models import Model
from ..models.changes import changing
from ..models.wiring import Wiring
from ..tasks.batches import Batch, batches
from ..tasks.examples import Pair
from .fills import Fill, first_reached, mean_of_sums
from .trace import Trace, Written, summed_heads, traced

EDGE_FILLS = ("counterfactual", "mean", "mean-global", "zero")


def check_cut(fill: Fill | str, positions: str, units: str = "Edges") -> None:
    """Whether edges, or attention edges, can be cut so."""
    fill = Fill.parse(fill)
    if fill.kind not in EDGE_FILLS:
        raise HeadcountError(f"{units} can be filled with {', '.join(EDGE_FILLS)}; got {str(fill)!r}.")
    if positions != "all":
        raise HeadcountError(f"{units} are cut at all positions; got {positions!r}.")


@dataclass(frozen=True)
class BaseRun:
    """A batch with its base run, behind the prefix that the two prompts of each pair share. One entry a layer."""

    batch: Batch
    ids: Tensor
    last: Tensor
    prefix: DynamicCache | None
    attention_stream: list[Tensor]  # [token, d]
    projected: list[tuple[Tensor, ...]]  # [row, position, feature]
    mlp_stream: list[Tensor]
    final_stream: Tensor
    written: Written  # in the base run
    fill: Written  # what an edge outside the circuit carries; what was written, for counterfactual fill
    input_change: Tensor  # what the embedding of the clean prompts writes more than the fill, [token, d]
    uncut: Tensor  # logits of the whole model on the clean prompts, [pair, vocabulary]

    @property
    def answers(self) -> Tensor:
        """Tokens that are unembedded."""
        return torch.arange(len(self.last), device=self.last.device) * self.ids.shape[1] + self.last


@dataclass(frozen=True)
class EdgeFiller:
    """Makes the base run of each batch."""

    fill: Fill
    means: Written | None = field(default=None, repr=False)
    """[position, …], or [1, …] for the mean over positions too."""

    @classmethod
    def prepare(
        cls, model: Model, wiring: Wiring, fill: str, pairs: Sequence[Pair], reference: Sequence[Pair], max_tokens: int
    ) -> "EdgeFiller":
        check_cut(fill, "all")
        filler = cls(Fill.parse(fill))
        if not filler.fill.needs_reference:
            return filler
        if not reference:
            raise HeadcountError(f"The fill {str(fill)!r} is a mean over prompts, and no reference prompts were given.")
        longest, by_position = max(len(pair.clean) for pair in (*pairs, *reference)), filler.fill.kind == "mean"
        return replace(filler, means=_means(model, wiring, reference, longest, by_position, max_tokens))

    @property
    def is_counterfactual(self) -> bool:
        return self.fill.kind == "counterfactual"

    def base_run(self, model: Model, wiring: Wiring, batch: Batch) -> BaseRun:
        start = first_reached(batch, self.fill, None)
        prefix = model.read_prefix(batch.clean[:, :start]) if start else None
        ids, last = batch.clean[:, start:], batch.last - start

        def past() -> DynamicCache | None:
            return None if prefix is None else model.repeated_prefix(prefix, 1)

        with traced(model, wiring, last if self.is_counterfactual else None) as clean:
            uncut = model.last_logits(ids, last, past())
        if self.is_counterfactual:
            with traced(model, wiring, last) as base:
                model.run(batch.corrupt[:, start:], past())
            written = fill = base.written(wiring)
            input_change = (clean.attention_stream[0] - base.attention_stream[0]).flatten(0, -2)
        else:
            whole = clean.written(wiring)
            fill = self.written(whole, batch)
            change = whole - fill
            streams = _without(model, wiring, clean, change)
            with _every_reader_sees(wiring, streams), traced(model, wiring, last) as base:
                model.run(ids)
            written, input_change = base.written(wiring), change.input
        seen = (base.attention_stream, base.mlp_stream, base.final_stream)
        attention, mlp, (final,) = ([stream.flatten(0, -2) for stream in each] for each in seen)
        caught = (attention, base.projected, mlp, final, written)
        return BaseRun(batch, ids, last, prefix, *caught, fill, input_change, uncut)

    def written(self, like: Written, batch: Batch) -> Written:
        """What edges outside a circuit carry at every token of a batch, where that is not the counterfactual."""
        if self.means is None:
            return Written.of_parts([torch.zeros_like(part) for part in like.parts()])
        filled = []
        for mean in self.means.parts():
            by_position = mean[: batch.length] if len(mean) > 1 else mean.expand(batch.length, *mean.shape[1:])
            filled.append(by_position.repeat(len(batch), *[1] * (mean.dim() - 1)))
        return Written.of_parts(filled)


def _without(model: Model, wiring: Wiring, clean: Trace, change: Written) -> Iterator[Tensor]:
    """The streams before each attention, each MLP and the final norm, less what writers wrote more than the fill."""
    total = change.input
    for index, (attention, mlp) in enumerate(zip(clean.attention_stream, clean.mlp_stream, strict=True)):
        heads = summed_heads(model, wiring, index, change.heads[index])
        yield attention - total.view_as(attention)
        yield mlp - (total if wiring.graph.parallel else total + heads).view_as(mlp)
        total = total + heads + change.mlps[index]
    yield clean.final_stream[0] - total.view_as(clean.final_stream[0])


@contextmanager
def _every_reader_sees(wiring: Wiring, streams: Iterator[Tensor]) -> Iterator[None]:
    """Streams in the place of the model's own, in the order of `_without`."""
    with changing() as changes:

        def see(stream: Tensor, *modules: nn.Module) -> None:
            for module in modules:
                changes.before(module, lambda module, args: (stream.view_as(args[0]), *args[1:]))

        for layer in wiring.layers:
            see(next(streams), *([layer.attention_norm.module] if layer.attention_norm else layer.modules))
            see(next(streams), layer.mlp_norm.module if layer.mlp_norm else layer.mlp_in)
        see(next(streams), wiring.final_norm.module)
        yield


@torch.no_grad()
def _means(
    model: Model, wiring: Wiring, pairs: Sequence[Pair], length: int, by_position: bool, max_tokens: int
) -> Written:
    """As `mean_head_values`, over everything that is written."""
    sums: list[Tensor] = []
    count = torch.zeros(length, dtype=torch.float64)
    for _, batch in batches(pairs, model.device, max_tokens):
        with wiring.readied(), traced(model, wiring) as trace:
            model.run(batch.clean)
        real = batch.real()
        count[: batch.length] += real.sum(0).cpu()
        for place, part in enumerate(trace.written(wiring).parts()):
            found = (part.double() * real.flatten().view(-1, *[1] * (part.dim() - 1))).unflatten(0, real.shape).sum(0)
            if place == len(sums):
                sums.append(found.new_zeros(length, *found.shape[1:]))
            sums[place][: batch.length] += found
    return Written.of_parts([mean_of_sums(total, count, by_position).to(model.hf.dtype) for total in sums])
