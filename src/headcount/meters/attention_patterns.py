"""`headcount.attention`: what heads look at on one prompt, with its tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from ..core.errors import HeadcountError, did_you_mean
from ..core.saving import Floats, Row, Saved, Tabled
from ..edit import Head, head_name
from ..edit.attention import attention_weights
from ..edit.cut import heads_of, parse_head
from ..models import Model


class Look(NamedTuple):
    """Where a head looks most from one token."""

    position: int
    token: str
    weight: float


@dataclass(frozen=True, eq=False)
class AttentionPattern(Saved, Tabled):
    """Attention weights of some heads on one prompt. Every row sums to 1, but for sparse models, whose shut gates take
    weight away."""

    FILE: ClassVar[str] = "attention"

    model: str
    tokens: tuple[str, ...]
    heads: tuple[str, ...]
    weights: Floats = field(repr=False)
    """[head, query, key]: how much the token `query` looks at the token `key`, which is never behind it."""

    def of(self, head: Head | str) -> Floats:
        """[query, key] of one head."""
        name = head_name(parse_head(head))
        if name not in self.heads:
            raise HeadcountError(f"This pattern has no head {name}.{did_you_mean(name, self.heads)}")
        return np.asarray(self.weights[self.heads.index(name)])

    def look(self, head: Head | str, query: int = -1) -> Look:
        """Where a head looks most, from the last token or from another one."""
        row = self.of(head)[query]
        place = int(row.argmax())
        return Look(place, self.tokens[place], float(row[place]))

    def rows(self) -> list[Row]:
        """One row per head and edge from one token to another or to itself."""
        return [
            {
                "head": head, "query": i, "query_token": self.tokens[i], "key": j, "key_token": self.tokens[j],
                "weight": float(weights[i, j]),
            }
            for head, weights in zip(self.heads, self.weights, strict=True)
            for i in range(len(self.tokens))
            for j in range(i + 1)
        ]  # fmt: skip


def attention(
    model: Model, prompt: str | Sequence[int], head: "Iterable[Head | str] | Head | str | None" = None
) -> AttentionPattern:
    """What heads look at while the model reads a prompt, whatever its attention implementation.

    **Arguments:**

    - `prompt`: text, or token ids.
    - `head`: (layer, head), counted from 0, or a name such as `a3.h5`; a list of them; all heads by default.

    ```python
    pattern = hc.attention(model, "When Mary and John went to the park, John gave the ball to", "a3.h5")
    pattern.look("a3.h5")       # where the last token looks most
    hc.plot(pattern)            # the pattern with its tokens
    ```
    """
    ids = model.prompt_ids(prompt)
    every = [(layer, number) for layer in range(model.n_layers) for number in range(model.n_heads)]
    heads = every if head is None else heads_of(model, head)
    weights = attention_weights(model, torch.tensor([ids], device=model.device))
    chosen = [weights[layer][0, number].cpu().double().numpy() for layer, number in heads]
    return AttentionPattern(model.name, model.token_texts(ids), tuple(map(head_name, heads)), np.stack(chosen))
