"""Direct logit attribution: what a head writes toward the answer and away from the wrong one, past all later layers.

The residual stream before the unembedding is a sum, one term of which is the head's output z_h W_O. The final norm is
linear once its scale is fixed, so that term's share of the logit difference can be read off:

    score(h) = A(z_h W_O) · (U[answer] - U[wrong]),   norm(x) = A(x) + bias,  A(x) = gain * (x - mean?(x)) / scale

with the scale taken from the whole sum. In post-norm blocks (OLMo-2, Gemma) the sum of the heads passes a norm of its
own first, whose scale is fixed in the same way. Logits are taken before a soft cap, where the model has one. With
several right or wrong tokens, the best of each side on the clean prompt count, as in `logit_diff`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from ..core.errors import HeadcountError
from ..edit import visit_heads
from ..models import Model
from ..models.changes import changing
from ..models.norms import NormParts
from ..models.plain_weights import require_plain
from ..tasks.batches import Batch
from ..tasks.examples import Pair
from .gradients import by_batch
from .method import Request


def no_final_norm(model: Model) -> HeadcountError:
    """What to say of a family whose heads are known and nothing else."""
    return HeadcountError(
        f"Direct logit attribution must know the final norm of {model.anatomy.model_type!r}, and that family is not"
        " registered; its heads work with every other method. See headcount.register_family."
    )


def direct(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    reader = DirectReader.of(model)

    @torch.no_grad()
    def score(indices: list[int], batch: Batch) -> Tensor:
        with reader.watching() as written:
            logits = model.last_logits(batch.clean, batch.last)
        right, wrong = (reader.unembedding[_best_id(logits, ids)] for ids in (batch.answers, batch.wrongs))
        shares = written.shares(batch.last)
        return torch.stack([torch.einsum("bhm,bm->bh", share, right - wrong) for share in shares], dim=1)

    return by_batch(model, pairs, request, 1, score)


@dataclass(frozen=True, eq=False)
class DirectReader:
    """Reads off what heads write toward logits; norms are taken apart once."""

    model: Model
    own: tuple[NormParts, ...]  # that the sum of a layer's heads passes, in post-norm blocks
    final: NormParts

    @classmethod
    def of(cls, model: Model) -> "DirectReader":
        require_plain(model.unembedding)
        anatomy, unembedding = model.anatomy, cast(Tensor, model.unembedding.weight)
        if anatomy.final_norm is None:
            raise no_final_norm(model)
        modules = [*(anatomy.attention_norms or ()), anatomy.final_norm]
        *own, final = [NormParts.probe(norm, like=unembedding) for norm in modules]
        if unembedding.shape[1] != len(final.gain):
            raise HeadcountError(
                f"Direct logit attribution needs the residual stream ({len(final.gain)} wide) to enter the unembedding"
                f" as it is, but the latter takes {unembedding.shape[1]} inputs. Use another method with"
                f" {anatomy.model_type}."
            )
        return cls(model, tuple(own), final)

    @property
    def unembedding(self) -> Tensor:
        return cast(Tensor, self.model.unembedding.weight)

    @contextmanager
    def watching(self) -> Iterator["Written"]:
        """Note what the heads carry in the run of this block, cut or not."""
        values: list[Tensor] = []
        modules = [norm.module for norm in (*self.own, self.final)]
        with visit_heads(self.model, lambda layer, z: values.append(z)), inputs_of(modules) as norm_inputs:
            yield Written(self, values, norm_inputs)


@dataclass(frozen=True, eq=False)
class Written:
    """What the heads wrote in one run."""

    reader: DirectReader
    values: list[Tensor]  # one a layer, [row, position, head, head size]
    norm_inputs: list[Tensor]

    def shares(self, at: Tensor) -> Iterator[Tensor]:
        """Layer by layer what each head's output at a position of each row becomes in the final norm, [row, head,
        d_model]; multiplied by a row of the unembedding, its share of that logit."""
        reader, rows = self.reader, torch.arange(len(at), device=at.device)

        def there(tensor: Tensor) -> Tensor:
            return tensor[rows, at] if tensor.shape[1] > 1 else tensor[:, 0]

        for layer, z in enumerate(self.values):
            written = torch.einsum("bhd,hdm->bhm", there(z), reader.model.anatomy.out_weight(layer))
            if reader.own:
                written = reader.own[layer].share(written, there(self.norm_inputs[layer]))
            yield reader.final.share(written, there(self.norm_inputs[-1]))


@contextmanager
def inputs_of(modules: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Collect what enters some modules, in the order in which they run."""
    seen: list[Tensor] = []
    with changing() as changes:
        for module in modules:
            changes.before(module, lambda module, args: seen.append(args[0]))
        yield seen


def _best_id(logits: Tensor, ids: Tensor) -> Tensor:
    best = logits.gather(-1, ids.clamp(min=0)).masked_fill(ids < 0, -torch.inf).argmax(-1)
    return ids.gather(-1, best[:, None])[:, 0]
