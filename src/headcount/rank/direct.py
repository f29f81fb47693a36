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
from typing import cast

import torch
from torch import Tensor, nn

from ..core.errors import HeadcountError
from ..edit import visit_heads
from ..models import Model
from ..models.changes import changing
from ..models.norms import NormParts
from ..tasks.batches import Batch
from ..tasks.examples import Pair
from .gradients import by_batch
from .method import Request


def direct(model: Model, pairs: Sequence[Pair], request: Request) -> Tensor:
    anatomy = model.anatomy
    if anatomy.final_norm is None:
        raise HeadcountError(
            f"Direct logit attribution must know the final norm of {anatomy.model_type!r}, and that family is not"
            " registered; its heads work with every other method. See headcount.register_family."
        )
    unembedding = cast(Tensor, model.unembedding.weight)
    modules = [*(anatomy.attention_norms or ()), anatomy.final_norm]
    *own, final = [NormParts.probe(norm, like=unembedding) for norm in modules]
    if unembedding.shape[1] != len(final.gain):
        raise HeadcountError(
            f"Direct logit attribution needs the residual stream ({len(final.gain)} wide) to enter the unembedding as"
            f" it is, but the latter takes {unembedding.shape[1]} inputs. Use another method with {anatomy.model_type}."
        )

    @torch.no_grad()
    def score(indices: list[int], batch: Batch) -> Tensor:
        values: list[Tensor] = []
        with visit_heads(model, lambda layer, z: values.append(z)), inputs_of(modules) as norm_inputs:
            logits = model.last_logits(batch.clean, batch.last)
        rows = torch.arange(len(batch), device=model.device)

        def at_answer(tensor: Tensor) -> Tensor:
            """The answer position of each pair."""
            return tensor[rows, batch.last] if tensor.shape[1] > 1 else tensor[:, 0]

        direction = unembedding[_best_id(logits, batch.answers)] - unembedding[_best_id(logits, batch.wrongs)]
        scores = []
        for layer, z in enumerate(values):
            written = torch.einsum("bhd,hdm->bhm", at_answer(z), anatomy.out_weight(layer))
            if own:
                written = own[layer].share(written, at_answer(norm_inputs[layer]))
            scores.append(torch.einsum("bhm,bm->bh", final.share(written, at_answer(norm_inputs[-1])), direction))
        return torch.stack(scores, dim=1)

    return by_batch(model, pairs, request, 1, score)


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
