"""What a model writes on, greedily and token by token, so that other work can come between two tokens.

The same tokens as `model.hf.generate` gives inside `headcount.cut`: with `last` heads are removed at the last prompt
token alone; the fills `counterfactual` and `resample` are for the prompt alone, as another prompt says nothing of what
is written.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from transformers import DynamicCache
from typing_extensions import TypedDict

from ...edit import cut_heads
from ...edit.cut import keep_mask
from ...edit.resume import last_of
from ...meters.generation import end_tokens
from .board import Switchboard
from .state import Asked, shown


class Progress(TypedDict):
    """How far both sides have come."""

    done: int
    of: int
    whole: list[str]  # tokens
    cut: list[str]


class Writer:
    """Writes on with the model of a switchboard."""

    def __init__(self, board: Switchboard) -> None:
        self.board, self.model = board, board.model

    def write(self, asked: Asked) -> Iterator[Progress]:
        """One event a token. What the whole model writes is kept for the next cut."""
        context = self.model.context
        steps = min(asked.new_tokens, context - len(asked.ids)) if context else asked.new_tokens
        key = "written", asked.ids, steps
        sides: tuple[list[int], list[int]] = [], []

        def progress(done: int) -> Progress:
            whole, cut = ([shown(self.model, token) for token in side] for side in sides)
            return {"done": done, "of": 2 * steps, "whole": whole, "cut": cut}

        finished = self.board.kept.get(key, tuple, _no_bytes) if key in self.board.kept else None
        for token in self.tokens(asked.without(()), steps) if finished is None else finished:
            sides[0].append(token)
            yield progress(len(sides[0]))
        self.board.kept.get(key, lambda: tuple(sides[0]), _no_bytes)
        for token in self.tokens(asked, steps) if asked.heads else sides[0]:
            sides[1].append(token)
            yield progress(steps + len(sides[1]))
        yield progress(2 * steps)

    def tokens(self, asked: Asked, steps: int) -> Iterator[int]:
        """Up to the token that ends a text."""
        ends, cache = end_tokens(self.model), DynamicCache(config=self.model.hf.config)
        new = self.board.tensor(asked.ids)
        for step in range(steps):
            with torch.no_grad(), self._cutting(asked, step):
                token = int(self.model.last_logits(new, last_of(new), cache)[0].argmax())
            if token in ends:
                return
            yield token
            new = self.board.tensor((token,))

    def _cutting(self, asked: Asked, step: int) -> AbstractContextManager[None]:
        if not asked.heads:
            return nullcontext()
        if not step:
            return self.board.cutting(asked)
        if asked.positions == "last" or asked.fill.kind in ("counterfactual", "resample"):
            return nullcontext()
        return cut_heads(self.model, keep_mask(self.model, asked.heads)[None], self.board.filling(asked), "all")


def _no_bytes(tokens: tuple[int, ...]) -> int:
    return 0
