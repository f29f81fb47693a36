"""A closer look at heads on a prompt: what they look at, which keys a sparse model leaves open, and what they write
toward the next tokens, whole and cut."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from typing_extensions import TypedDict

from ...core.errors import HeadcountError
from ...edit import Head, head_name
from ...edit.attention import attention_weights
from ...models.gates import gates_of
from ...rank.direct import DirectReader
from .board import Switchboard, Token
from .state import Asked, shown

MOST_TOKENS = 256
"""Of a prompt whose patterns are shown: a page has no room for more."""
OWN_TOKENS = 6
"""Tokens that a head writes toward most of all, and as many that it writes away from."""
DIGITS = 8  # of weights
Pattern = list[list[float]]
"""Weights from each query to the keys up to it."""


class Push(Token):
    """A head's direct share of a token's logit."""

    whole: float
    cut: float


class Look(TypedDict):
    """One head on one prompt."""

    head: str
    whole: Pattern
    cut: Pattern
    other: Pattern | None  # in the run of the counterfactual prompt
    gated: bool  # whether weights of 0 are keys whose gate is shut
    open_keys: list[int] | None  # of a sparse model: how many keys each query leaves open
    toward: list[Push]  # the answers, and the most probable next tokens
    most: list[Push]  # what it writes toward most
    least: list[Push]  # what it writes away from most
    unread: str  # why nothing is said of what it writes


class Overview(TypedDict):
    """One number per head, [layer][head], to colour the board by."""

    toward: str  # what is written toward
    writes: list[list[float]] | None
    open: list[list[float]] | None  # share of the keys that are open, of a sparse model
    unread: str


@dataclass(frozen=True, eq=False)
class Run:
    """What heads looked at and wrote in one run of a prompt."""

    weights: tuple[Tensor, ...]  # one a layer, [head, query, key]
    shares: Tensor | None  # of the final norm at the last token, [layer, head, d_model]

    @property
    def bytes(self) -> int:
        held = [*self.weights, *([] if self.shares is None else [self.shares])]
        return sum(tensor.numel() * tensor.element_size() for tensor in held)

    def pattern(self, head: Head) -> Pattern:
        rows = self.weights[head[0]][head[1]].cpu().double().tolist()
        return [[round(weight, DIGITS) for weight in row[: place + 1]] for place, row in enumerate(rows)]

    def open_keys(self, head: Head) -> list[int]:
        found: list[int] = (self.weights[head[0]][head[1]] > 0).sum(-1).tolist()
        return found

    def open_shares(self) -> list[list[float]]:
        """Of all keys that queries could look at."""
        edges = sum(range(1, self.weights[0].shape[-1] + 1))
        return [((layer > 0).sum((1, 2)) / edges).tolist() for layer in self.weights]


class Looker:
    """Looks at the heads of a switchboard's model."""

    def __init__(self, board: Switchboard) -> None:
        self.board, self.model = board, board.model

    @cached_property
    def _reader(self) -> DirectReader | HeadcountError:
        try:
            return DirectReader.of(self.model)
        except HeadcountError as error:  # its patterns can be looked at all the same
            return error

    @property
    def unread(self) -> str:
        return str(self._reader) if isinstance(self._reader, HeadcountError) else ""

    @torch.no_grad()
    def _run(self, asked: Asked) -> Run:
        ids, reader = self.board.tensor(asked.ids), self._reader
        with self.board.cutting(asked) if asked.heads else nullcontext():
            if isinstance(reader, HeadcountError):
                return Run(tuple(layer[0] for layer in attention_weights(self.model, ids)), None)
            with reader.watching() as written:
                weights = attention_weights(self.model, ids)
        last = torch.tensor([ids.shape[1] - 1], device=ids.device)
        shares = torch.stack([share[0].to(self.model.device) for share in written.shares(last)])
        return Run(tuple(layer[0] for layer in weights), shares)

    def run(self, asked: Asked) -> Run:
        if len(asked.ids) > MOST_TOKENS:
            raise HeadcountError(
                f"Patterns are shown for prompts of at most {MOST_TOKENS} tokens; this one has {len(asked.ids)}."
            )
        return self.board.kept.get(("look", *asked.cut_key), lambda: self._run(asked), lambda run: run.bytes)

    @torch.no_grad()
    def look(self, asked: Asked, head: Head) -> Look:
        whole, cut = self.run(asked.without(())), self.run(asked)
        same_length = len(asked.other) == len(asked.ids)
        other = self.run(replace(asked, ids=asked.other, other=(), heads=())).pattern(head) if same_length else None
        gated = bool(gates_of(self.model))
        found: Look = {
            "head": head_name(head),
            "whole": whole.pattern(head),
            "cut": cut.pattern(head),
            "other": other,
            "gated": gated,
            "open_keys": cut.open_keys(head) if gated else None,
            "toward": [],
            "most": [],
            "least": [],
            "unread": self.unread,
        }
        if whole.shares is None or cut.shares is None or isinstance(self._reader, HeadcountError):
            return found
        unembedding = self._reader.unembedding
        sides = [unembedding @ run.shares[head].to(unembedding) for run in (whole, cut) if run.shares is not None]
        writes = sides[1] if bool(sides[1].any()) else sides[0]  # a head that is silenced writes toward no token
        highest, lowest = (writes.topk(OWN_TOKENS, largest=up).indices.tolist() for up in (True, False))
        shown_tokens = [row["id"] for row in self.board.answer(asked)["rows"]]

        def pushes(tokens: list[int]) -> list[Push]:
            return [
                {"id": i, "text": shown(self.model, i), "whole": float(sides[0][i]), "cut": float(sides[1][i])}
                for i in tokens
            ]

        return {**found, "toward": pushes(shown_tokens), "most": pushes(highest), "least": pushes(lowest)}

    @torch.no_grad()
    def overview(self, asked: Asked) -> Overview:
        """What every head of the cut model writes toward the answer and away from the wrong one, the best of each side;
        without answers toward the whole model's first token."""
        run, logits = self.run(asked), self.board.run(asked).logits
        right = asked.answers or (int(self.board.reading(asked.ids).logits[0].argmax()),)
        ends = [max(side, key=lambda token: float(logits[token])) for side in (right, asked.wrongs) if side]
        writes = None
        if run.shares is not None and not isinstance(self._reader, HeadcountError):
            rows = self._reader.unembedding[ends]
            direction = rows[0] - rows[1] if len(ends) > 1 else rows[0]
            writes = (run.shares.to(direction) @ direction).tolist()
        return {
            "toward": " − ".join(shown(self.model, token) for token in ends),
            "writes": writes,
            "open": run.open_shares() if gates_of(self.model) else None,
            "unread": self.unread,
        }
