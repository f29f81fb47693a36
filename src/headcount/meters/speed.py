"""How fast a model reads, and whether there is an end to what was asked of it."""

from collections.abc import Mapping
from timeit import repeat

import torch

from ..core.errors import HeadcountError
from ..edit import Filling, cut_heads
from ..models import Model

TIMED_TOKENS, TIMED_LENGTH = 1024, 32
SOON = 10**7
"""Tokens that are read without asking how long it takes."""
LONGEST = 7 * 24 * 3600.0
"""Seconds that may be taken without being told so: a slip in a count is months."""


@torch.no_grad()
def tokens_a_second(model: Model) -> float:
    """Of a plain forward pass, the better of two."""
    ids = torch.zeros((TIMED_TOKENS // TIMED_LENGTH, TIMED_LENGTH), dtype=torch.long, device=model.device)
    return TIMED_TOKENS / min(repeat(lambda: model.run(ids), number=1, repeat=2))


def fitted_tokens_a_second(model: Model, rows: int, length: int) -> float:
    """Of an update of gates on so many prompts at once, forward and backward, whose tokens count twice, as in plans. A
    small batch, the graph and the way back take far longer than the same tokens do in plain passes."""
    ids = torch.zeros((rows, length), dtype=torch.long, device=model.device)
    ends = torch.full((rows,), length - 1, device=model.device)

    def update() -> None:
        gates = torch.full((rows, model.n_layers, model.n_heads), 0.5, device=model.device, requires_grad=True)
        with model.frozen(), torch.enable_grad(), cut_heads(model, gates, Filling(scale=0.0)):
            model.last_logits(ids, ends).float().log_softmax(-1)[:, 0].sum().backward()

    return 2 * rows * length / min(repeat(update, number=1, repeat=2))


def require_end(tokens: Mapping[Model, float], long: bool, cure: str = "Ask for less (see --plan)") -> None:
    """Refuse what would take longer than a week, unless `long` says that it may. Few tokens need no look."""
    if long or sum(tokens.values()) < SOON:
        return
    seconds = sum(count / tokens_a_second(model) for model, count in tokens.items())
    if seconds > LONGEST:
        raise HeadcountError(
            f"This would read {sum(tokens.values()):.2g} tokens, which takes about {seconds / 86_400:,.0f} days here."
            f" {cure}, or say that you mean it: --long."
        )
