"""Attention-pattern detectors: how much a head looks where a previous-token, duplicate-token or induction head would.

They run on random tokens said twice, r_1 … r_n r_1 … r_n, not on the task (Olsson et al. 2022, arXiv 2209.11895). The
score is the mean attention weight from a token of the second copy at position i

    previous-token:   to position i - 1
    duplicate-token:  to position i - n, where the same token stood before
    induction:        to position i - n + 1, the token that followed it
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ..edit.attention import attention_weights
from ..models import Model
from ..tasks.examples import Example
from .method import Request

COPY_LENGTH = 24


def _attention_to(model: Model, examples: Sequence[Example], request: Request, back: int) -> Tensor:
    """Mean attention weight from the second copy to the position `back` tokens before, [row, layer, head]."""
    ids = repeated_tokens(model, len(examples), torch.Generator().manual_seed(request.seed))
    queries = torch.arange(ids.shape[1] - COPY_LENGTH, ids.shape[1])
    scores = []
    for part in ids.split(max(request.max_tokens // ids.shape[1], 1)):
        patterns = attention_weights(model, part)
        scores.append(torch.stack([p[:, :, queries, queries - back].mean(-1).cpu() for p in patterns], dim=1))
        request.advance(len(part))
    return torch.cat(scores).double()


previous_token = partial(_attention_to, back=1)
duplicate_token = partial(_attention_to, back=COPY_LENGTH)
induction = partial(_attention_to, back=COPY_LENGTH - 1)


def repeated_tokens(model: Model, rows: int, generator: torch.Generator) -> Tensor:
    """Random ordinary tokens said twice, behind the beginning-of-text token where the tokenizer uses one."""
    special = set(getattr(model.tokenizer, "all_special_ids", ()))
    ordinary = torch.tensor([i for i in range(model.hf.config.get_text_config().vocab_size) if i not in special])
    copy = ordinary[torch.randint(len(ordinary), (rows, COPY_LENGTH), generator=generator)]
    front = model.encode("a")[:1] if model.tokenizer is not None else []
    start = torch.tensor([i for i in front if i in special], dtype=torch.long).expand(rows, -1)
    return torch.cat([start, copy, copy], dim=1).to(model.device)
