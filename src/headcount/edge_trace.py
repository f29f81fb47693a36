"""What a run writes into the residual stream and where it reads it, caught by hooks inside a `with` block."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .models import Model
from .models.wiring import Wiring


@dataclass
class Trace:
    """One entry a layer, [pair, position, …]; filled while the model runs."""

    z: list[Tensor] = field(default_factory=list)
    heads_sum: list[Tensor] = field(default_factory=list)
    """What the output projection gives, before a norm of its own."""
    attention_stream: list[Tensor] = field(default_factory=list)
    projected: list[tuple[Tensor, ...]] = field(default_factory=list)
    """Outputs of the query, key and value modules; one tensor where they are one module."""
    mlp_stream: list[Tensor] = field(default_factory=list)
    mlp_read: list[Tensor] = field(default_factory=list)
    mlp_written: list[Tensor] = field(default_factory=list)
    final_stream: list[Tensor] = field(default_factory=list)

    def read(self) -> list[Tensor]:
        """The tensors at which gradients are taken: projections and MLP input of every layer, and the final stream."""
        by_layer = zip(self.projected, self.mlp_read, strict=True)
        return [tensor for projected, mlp in by_layer for tensor in (*projected, mlp)] + self.final_stream

    def readings(self, wiring: Wiring, gradients: Sequence[Tensor]) -> tuple[list[Tensor], list[list[Tensor]]]:
        """For each norm in order the stream it saw [token, d], and its readers' gradients [token, head, head size]."""
        left = iter(gradients)
        streams: list[Tensor] = []
        found: list[list[Tensor]] = []
        for index, layer in enumerate(wiring.layers):
            own = [next(left).flatten(0, -2) for _ in self.projected[index]]
            roles = list(layer.projections.values())
            modules = [projection.module for projection in roles]
            by_role = [own[0] if len(own) == 1 else own[modules.index(p.module)] for p in roles]
            streams += [self.attention_stream[index].flatten(0, -2), self.mlp_stream[index].flatten(0, -2)]
            found.append([gradient[:, p.rows] for gradient, p in zip(by_role, roles, strict=True)])
            found.append([next(left).flatten(0, -2)[:, None]])
        streams.append(self.final_stream[0].flatten(0, -2))
        found.append([next(left).flatten(0, -2)[:, None]])
        return streams, found

    def written(self, model: Model, wiring: Wiring) -> Tensor:
        """What every writer added to the stream, [writer, token, d]; `input` is the stream before the first layer."""
        rows = [self.attention_stream[0].flatten(0, -2)[None]]
        for index, layer in enumerate(wiring.layers):
            heads = self.z[index].flatten(0, 1).transpose(0, 1)
            wrote = torch.bmm(heads, model.anatomy.out_weight(index))
            if layer.heads_norm is not None:
                whole = self.heads_sum[index].flatten(0, -2)
                wrote = layer.heads_norm.share(wrote.transpose(0, 1), whole).transpose(0, 1)
            rows += [wrote, self.mlp_written[index].flatten(0, -2)[None]]
        return torch.cat([row.detach() for row in rows])


@contextmanager
def traced(model: Model, wiring: Wiring) -> Iterator[Trace]:
    """Catch what the model reads and writes while the block lasts. Gradients, where on, begin at the embedding."""
    trace = Trace()
    shape = (model.n_heads, model.anatomy.head_size)

    def begin(module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
        return output.detach().requires_grad_() if torch.is_grad_enabled() else None

    with ExitStack() as stack:

        def enters(module: nn.Module, into: list[Tensor]) -> None:
            stack.callback(module.register_forward_pre_hook(lambda module, args: into.append(args[0])).remove)

        def leaves(module: nn.Module, into: list[Tensor]) -> None:
            stack.callback(module.register_forward_hook(lambda module, args, output: into.append(output)).remove)

        stack.callback(model.hf.get_input_embeddings().register_forward_hook(begin).remove)
        for index, layer in enumerate(wiring.layers):
            modules = list(dict.fromkeys(projection.module for projection in layer.projections.values()))
            caught: list[Tensor] = []

            def project(module: nn.Module, args: Any, output: Tensor, caught: list[Tensor] = caught) -> Tensor:
                """The model goes on with a copy: OLMo clips in place, and the gradient is wanted before that."""
                caught.append(output)
                return output.clone()

            for module in modules:
                stack.callback(module.register_forward_hook(project).remove)
            enters(layer.attention_norm.module if layer.attention_norm else modules[0], trace.attention_stream)
            projection = model.anatomy.out_projections[index]

            def close(module: nn.Module, args: Any, caught: list[Tensor] = caught) -> None:
                trace.projected.append(tuple(caught))
                trace.z.append(args[0].unflatten(-1, shape))

            stack.callback(projection.register_forward_pre_hook(close).remove)
            leaves(projection, trace.heads_sum)
            if layer.mlp_norm:
                enters(layer.mlp_norm.module, trace.mlp_stream)
            else:
                enters(layer.mlp_in, trace.mlp_stream)

            def split_off(module: nn.Module, args: Any) -> Any:
                """The MLP's own copy: without a norm in front, the same tensor goes on along the stream."""
                trace.mlp_read.append(args[0].view_as(args[0]))
                return (trace.mlp_read[-1], *args[1:])

            stack.callback(layer.mlp_in.register_forward_pre_hook(split_off).remove)
            leaves(layer.mlp_out, trace.mlp_written)
        enters(wiring.final_norm.module, trace.final_stream)
        yield trace
