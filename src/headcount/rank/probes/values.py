"""What heads carry while a model writes its answers, one vector a head and question.

The value of a head at the position that predicts answer token j, averaged over the tokens chosen: the first, the last,
all of them, or the k that the model itself found most surprising (largest -log p), which needs no outside judge of what
matters in an answer.
"""

from collections.abc import Sequence
from functools import partial
from typing import get_args

import torch
from torch import Tensor

from ...core.errors import HeadcountError, require_known
from ...core.words import TokenChoice
from ...edit import visit_heads
from ...meters import TOKENS_A_PASS, Advance, silent
from ...models import Model
from ...models.changes import leaves_no_trace
from ...tasks.batches import Batch, batches
from ...tasks.examples import Completion


@leaves_no_trace
@torch.no_grad()
def answer_values(
    model: Model,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    *,
    choose: TokenChoice = "surprisal",
    k: int = 5,
    max_tokens: int = TOKENS_A_PASS,
    advance: Advance = silent,
) -> Tensor:
    """[question, layer, head, head size], in float32. Every answer has at least one token."""
    require_known(choose, get_args(TokenChoice), "choice of answer tokens")
    if k < 1:
        raise HeadcountError(f"At least one answer token has to be chosen; k is {k}.")
    examples = [Completion(tuple(prompt), tuple(answer)) for prompt, answer in zip(prompts, answers, strict=True)]
    found = torch.empty(len(examples), model.n_layers, model.n_heads, model.anatomy.head_size)
    for places, batch in batches(examples, model.device, max_tokens):
        values: list[Tensor] = []
        with visit_heads(model, partial(_keep, values, batch)):
            if choose == "surprisal":
                logits = model.last_logits(batch.clean, batch.spots, rows=batch.rows)
                surprisal = -logits.log_softmax(-1).gather(1, batch.answers)[:, 0].cpu()
            else:
                model.run(batch.clean)
                surprisal = torch.zeros(len(batch.spots))
        weights = _weights(batch.rows.cpu(), surprisal, choose, k)
        for layer, z in enumerate(values):
            found[places, layer] = torch.einsum("qs,shd->qhd", weights, z)
        advance(len(places))
    return found


def _keep(values: list[Tensor], batch: Batch, layer: int, z: Tensor) -> None:
    """Of a layer, what its heads carry where answer tokens are predicted, [spot, head, head size]."""
    values.append(z[batch.rows.to(z.device), batch.spots.to(z.device)].float().cpu())


def _weights(rows: Tensor, surprisal: Tensor, choose: TokenChoice, k: int) -> Tensor:
    """How much each answer token counts for each question, [question, spot]; the weights of a question sum to 1."""
    weights = torch.zeros(int(rows.max()) + 1, len(rows))
    for question in range(len(weights)):
        own = (rows == question).nonzero()[:, 0]
        if choose == "surprisal":
            own = own[surprisal[own].argsort(descending=True, stable=True)[:k]]
        elif choose != "mean":
            own = own[:1] if choose == "first" else own[-1:]
        weights[question, own] = 1 / len(own)
    return weights
