"""What edges outside a circuit carry, and the base run, in which no edge is kept and every reader sees the fill.

With counterfactual fill the base run is the counterfactual run itself. For means and zeros it is a run of its own: each
reader's stream is that of the clean run, less what every writer before it wrote, plus what fills it. What belongs to no
writer (position embeddings, the bias of the attention's output) stays.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from ..core.errors import HeadcountError
from ..models import Model
from ..models.wiring import Wiring
from ..tasks.batches import Batch, batches
from ..tasks.examples import Pair
from .fills import Fill, first_reached
from .trace import Trace, Written, summed_heads, traced

EDGE_FILLS = ("counterfactual", "mean", "mean-global", "zero")


def check_cut(fill: Fill | str, positions: str) -> None:
    """Whether edges can be cut so."""
    fill = Fill.parse(fill)
    if fill.kind not in EDGE_FILLS:
        raise HeadcountError(f"Edges can be filled with {', '.join(EDGE_FILLS)}; this is {str(fill)!r}.")
    if positions != "all":
        raise HeadcountError(f"Edges are cut at all positions; this is {positions!r}.")


@dataclass(frozen=True)
class BaseRun:
    """A batch with its base run, behind the prefix that the two prompts of each pair share. One entry a layer."""

    batch: Batch
    ids: Tensor
    last: Tensor
    prefix: Any
    attention_stream: list[Tensor]
    """[token, d]."""
    projected: list[tuple[Tensor, ...]]
    """[row, position, feature]."""
    mlp_stream: list[Tensor]
    final_stream: Tensor
    written: Written
    """In the base run."""
    fill: Written
    """What an edge outside the circuit carries; what was written, for counterfactual fill."""
    input_change: Tensor
    """What the embedding of the clean prompts writes more than the fill, [token, d]."""
    uncut: Tensor
    """Logits of the whole model on the clean prompts, [pair, vocabulary]."""

    @property
    def answers(self) -> Tensor:
        """Tokens that are unembedded."""
        return torch.arange(len(self.last), device=self.last.device) * self.ids.shape[1] + self.last

    @classmethod
    def of(
        cls,
        batch: Batch,
        start: int,
        prefix: DynamicCache | None,
        base: Trace,
        wiring: Wiring,
        **rest: Written | Tensor,
    ) -> "BaseRun":
        return cls(
            batch, batch.clean[:, start:], batch.last - start, prefix,
            attention_stream=[stream.flatten(0, -2) for stream in base.attention_stream],
            projected=base.projected,
            mlp_stream=[stream.flatten(0, -2) for stream in base.mlp_stream],
            final_stream=base.final_stream[0].flatten(0, -2), written=base.written(wiring), **rest,  # type: ignore[arg-type]
        )  # fmt: skip


@dataclass(frozen=True)
class EdgeFiller:
    """Makes the base run of each batch."""

    fill: Fill
    means: Written | None = field(default=None, repr=False)
    """[position, …], or [1, …] for the mean over positions too."""

    @classmethod
    def prepare(
        cls, model: Model, wiring: Wiring, fill: Fill | str, pairs: Sequence[Pair], reference: Sequence[Pair],
        max_tokens: int,
    ) -> "EdgeFiller":  # fmt: skip
        fill = Fill.parse(fill)
        check_cut(fill, "all")
        if not fill.needs_reference:
            return cls(fill)
        if not reference:
            raise HeadcountError(f"The fill {str(fill)!r} is a mean over prompts, and no reference prompts were given.")
        longest = max(len(pair.clean) for pair in (*pairs, *reference))
        return cls(fill, _means(model, wiring, reference, longest, fill.kind == "mean", max_tokens))

    @property
    def is_counterfactual(self) -> bool:
        return self.fill.kind == "counterfactual"

    def base_run(self, model: Model, wiring: Wiring, batch: Batch) -> BaseRun:
        return self._counterfactual(model, wiring, batch) if self.is_counterfactual else self._own(model, wiring, batch)

    def _counterfactual(self, model: Model, wiring: Wiring, batch: Batch) -> BaseRun:
        start = first_reached(batch, self.fill, None)
        prefix = model.read_prefix(batch.clean[:, :start]) if start else None
        last = batch.last - start

        def past() -> Any:
            return None if prefix is None else model.repeated_prefix(prefix, 1)

        with traced(model, wiring, last) as base:
            model.run(batch.corrupt[:, start:], past())
        with traced(model, wiring, last) as clean:
            uncut = model.last_logits(batch.clean[:, start:], last, past())
        change = clean.attention_stream[0] - base.attention_stream[0]
        return BaseRun.of(
            batch, start, prefix, base, wiring, fill=base.written(wiring), input_change=change.flatten(0, -2),
            uncut=uncut,
        )  # fmt: skip

    def _own(self, model: Model, wiring: Wiring, batch: Batch) -> BaseRun:
        with traced(model, wiring) as clean:
            uncut = model.last_logits(batch.clean, batch.last)
        written = clean.written(wiring)
        fill = self._of(written, batch)
        change = written - fill
        streams = _without(model, wiring, clean, change)
        with _every_reader_sees(wiring, streams), traced(model, wiring, batch.last) as base:
            model.run(batch.clean)
        return BaseRun.of(batch, 0, None, base, wiring, fill=fill, input_change=change.input, uncut=uncut)

    def _of(self, written: Written, batch: Batch) -> Written:
        """The fill of every token of a batch."""
        if self.means is None:
            return Written.of_parts([torch.zeros_like(part) for part in written.parts()])
        positions = batch.clean.shape[1]
        filled = []
        for mean, part in zip(self.means.parts(), written.parts(), strict=True):
            by_position = mean[:positions] if len(mean) > 1 else mean.expand(positions, *mean.shape[1:])
            filled.append(by_position.repeat(len(batch), *[1] * (part.dim() - 1)))
        return Written.of_parts(filled)


def _without(model: Model, wiring: Wiring, clean: Trace, change: Written) -> list[Tensor]:
    """The streams before each attention, each MLP and the final norm, less what writers wrote more than the fill."""
    total = change.input
    streams = []
    for index in range(len(wiring.layers)):
        heads = summed_heads(model, wiring, index, change.heads[index])
        before_mlp = total if wiring.graph.parallel else total + heads
        for stream, less in ((clean.attention_stream[index], total), (clean.mlp_stream[index], before_mlp)):
            streams.append(stream - less.view_as(stream))
        total = total + heads + change.mlps[index]
    return [*streams, clean.final_stream[0] - total.view_as(clean.final_stream[0])]


@contextmanager
def _every_reader_sees(wiring: Wiring, streams: list[Tensor]) -> Iterator[None]:
    """Streams in the place of the model's own, in the order of `_without`."""
    left = iter(streams)
    with ExitStack() as stack:

        def sees(module: nn.Module, stream: Tensor) -> None:
            hook = module.register_forward_pre_hook(lambda module, args: (stream.view_as(args[0]), *args[1:]))
            stack.callback(hook.remove)

        for layer in wiring.layers:
            stream = next(left)
            for module in (layer.attention_norm.module,) if layer.attention_norm else layer.modules:
                sees(module, stream)
            sees(layer.mlp_norm.module if layer.mlp_norm else layer.mlp_in, next(left))
        sees(wiring.final_norm.module, next(left))
        yield


@torch.no_grad()
def _means(
    model: Model, wiring: Wiring, pairs: Sequence[Pair], length: int, by_position: bool, max_tokens: int
) -> Written:
    """Means over prompts at each position (counted from the start), or over all real positions together.

    A position that no reference prompt reaches gets the mean over all positions.
    """
    sums: list[Tensor] = []
    count = torch.zeros(length, dtype=torch.float64)
    for _, batch in batches(pairs, model.device, max_tokens):
        with wiring.readied(), traced(model, wiring) as trace:
            model.run(batch.clean)
        real = torch.arange(batch.length, device=model.device) <= batch.last[:, None]
        count[: batch.length] += real.sum(0).cpu()
        for place, part in enumerate(trace.written(wiring).parts()):
            found = (part.double() * real.flatten().view(-1, *[1] * (part.dim() - 1))).unflatten(0, real.shape).sum(0)
            if place == len(sums):
                sums.append(found.new_zeros(length, *found.shape[1:]))
            sums[place][: batch.length] += found
    dtype = model.hf.dtype
    means = []
    for total in sums:
        ones = count.to(total.device).view(-1, *[1] * (total.dim() - 1))
        overall = total.sum(0, keepdim=True) / ones.sum()
        means.append((torch.where(ones > 0, total / ones.clamp(min=1), overall) if by_position else overall).to(dtype))
    return Written.of_parts(means)
