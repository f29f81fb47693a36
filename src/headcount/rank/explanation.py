"""`headcount.explain`: which heads matter for one prompt.

The heads are removed one by one, exactly, and carry what they do on a counterfactual prompt. It is given, or made where
a rule allows (`tasks/counterfactual.py`), and must have as many tokens. Without one the heads carry zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..core.errors import HeadcountError
from ..core.saving import Row, Tabled
from ..edit import Fill, Head, head_name
from ..meters.attention_patterns import AttentionPattern, attention
from ..models import Model
from ..tasks import tokens_of
from ..tasks.counterfactual import make_counterfactual
from ..tasks.examples import Example, Pair, Task
from ..tasks.source import Draft, Item, Tokens, completion
from .score import score
from .scores import HeadScores

SHOWN = 10
"""Heads and next tokens that are told."""


@dataclass(frozen=True, eq=False)
class Explanation(Tabled):
    """Every head's part in one answer: what the metric falls by without it."""

    prompt: str
    answer: str
    wrong: str
    """Empty where nothing was compared."""
    counterfactual: str
    """Empty where there is none, and heads carry zeros instead."""
    origin: str
    """Where the counterfactual comes from, or why there is none."""
    fill: str
    predictions: dict[str, float]
    """The whole model's most probable next tokens."""
    probability: float
    """Of the answer, by the whole model."""
    wrong_probability: float | None
    scores: HeadScores = field(repr=False)
    attention: AttentionPattern = field(repr=False)
    """Of all heads, on the prompt."""
    task: Task = field(repr=False)
    """The prompt as a task of one example, to go on with: `headcount.measure(model, explanation.task, heads)`."""

    def top(self, k: int = SHOWN) -> list[Head]:
        """The k heads with the largest part, of either sign."""
        return self.scores.order()[:k]

    def rows(self) -> list[Row]:
        """One row per head, the largest part first: its score, and where it looks from the last token of the prompt."""
        made: list[Row] = []
        for head in self.scores.order():
            seen = self.attention.look(head, len(self.attention.tokens) - 1)
            value = float(self.scores.values[head])
            place: Row = {"looks_at": seen.token, "position": seen.position, "weight": seen.weight}
            made.append({"head": head_name(head), self.scores.metric: value, **place})
        return made

    def __str__(self) -> str:
        against = "" if self.wrong_probability is None else f", against {self.wrong!r} {self.wrong_probability:.1%}"
        lines = [f"{self.prompt!r} → {self.answer!r} {self.probability:.1%}{against}"]
        if self.counterfactual:
            lines.append(f"counterfactual ({self.origin}): {self.counterfactual!r}")
        else:
            lines.append(f"no counterfactual ({self.origin}): removed heads carry {self.fill}")
        said = ", ".join(f"{token!r} {chance:.1%}" for token, chance in list(self.predictions.items())[:3])
        lines += [f"the model would say {said}", "", f"head      {self.scores.metric:<12}looks most at"]
        for row in self.rows()[:SHOWN]:
            lines.append(f"{row['head']:<10}{row[self.scores.metric]:<+12.3f}{row['looks_at']!r} {row['weight']:.2f}")
        return "\n".join(lines)


def explain(
    model: Model,
    prompt: str,
    answer: str,
    wrong: str | None = None,
    counterfactual: str | None = None,
    *,
    method: str = "patching",
    fill: str | None = None,
) -> Explanation:
    """Which heads matter for one prompt and its answer.

    **Arguments:**

    - `answer`: what follows the prompt, with its leading space.
    - `wrong`: what it is compared with, by the difference of their logits; by default what the model says to the
      counterfactual, and without one nothing: then the answer's log-probability counts.
    - `counterfactual`: a prompt with as many tokens and another answer. Without it, one is made where answer and wrong
      answer, or the answer alone, stand in the prompt; else heads carry zeros.
    - `method`: a scoring method for heads; by default each head is removed, exactly.
    - `fill`: what removed heads carry; the counterfactual where there is one, else zero.

    ```python
    found = hc.explain(model, "When Mary and John went to the park, John gave the ball to", " Mary", " John")
    print(found)        # the ten heads with the largest part, and where they look
    hc.plot(found)      # all of them, as a map
    ```
    """
    model.prompt_ids(prompt)  # or why it cannot be read
    tokens = tokens_of(model)
    given, origin = counterfactual, "given"
    compared: str | int | None = wrong
    if counterfactual is not None and wrong is None:
        # As a token: its text alone need not be that token again.
        compared = int(_chances(model, model.prompt_ids(counterfactual)).argmax())
        if tokens.after(prompt, answer) == [compared]:
            raise HeadcountError(
                f"The model says {answer!r} to the counterfactual prompt too, so that there is nothing to compare."
                " Give wrong=..., or a counterfactual with another answer."
            )
    if counterfactual is None and wrong is not None:
        given, origin = _made(prompt, answer, wrong, tokens)
    elif counterfactual is None:
        origin = "none was given, and no wrong answer from which one could be made"
    example = _example(prompt, answer, compared, given, tokens)
    if given is not None and fill is None:
        fill = "counterfactual"
    fill = fill or "zero"
    if Fill.parse(fill).kind == "mean":
        raise HeadcountError("The mean at each position is that of many prompts, and this is one. Use 'mean-global'.")
    metric = "logit_diff" if isinstance(example, Pair) else "log_prob"
    task = Task("prompt", prompt, metric, *[(example,)] * 2)  # type: ignore[arg-type]
    scores = score(model, task, method, fill=fill, advance=lambda prompts: None)
    if not isinstance(scores, HeadScores):
        raise HeadcountError(f"{method!r} scores edges, and an explanation is of heads. Use patching or attribution.")
    chances = _chances(model, tokens.encode(prompt))
    likely = chances.argsort(descending=True)[:SHOWN].tolist()
    right = tokens.after(prompt, answer) or [0]
    other = [compared] if isinstance(compared, int) else tokens.after(prompt, compared) if compared else None
    return Explanation(
        prompt=prompt,
        answer=answer,
        wrong=model.decode([compared]) if isinstance(compared, int) else compared or "",
        counterfactual=given or "",
        origin=origin,
        fill=fill,
        predictions={model.decode([token]): float(chances[token]) for token in likely},
        probability=float(chances[right[0]]),
        wrong_probability=float(chances[other[0]]) if other else None,
        scores=scores,
        attention=attention(model, prompt),
        task=task,
    )


def _example(prompt: str, answer: str, wrong: str | int | None, counterfactual: str | None, tokens: Tokens) -> Example:
    """A pair where something is compared at one token; its counterfactual is the prompt itself where there is none, so
    that logits can be compared all the same."""
    if wrong is None:
        return completion(Item(prompt, answer), tokens)
    if isinstance(wrong, str) and counterfactual is None and _several(prompt, (answer, wrong), tokens):
        return completion(Item(prompt, answer, (answer, wrong)), tokens)
    return tokens.pair(Draft(prompt, counterfactual or prompt, [answer], [wrong]))


def _several(prompt: str, answers: Sequence[str], tokens: Tokens) -> bool:
    return any(len(tokens.after(prompt, answer) or ()) > 1 for answer in answers)


def _made(prompt: str, answer: str, wrong: str, tokens: Tokens) -> tuple[str | None, str]:
    """A counterfactual and its rule, or why there is none."""
    made = make_counterfactual(prompt, answer, wrong)
    if made is None:
        return None, f"{answer.strip()!r} does not stand in the prompt, so that none could be made"
    if _several(prompt, (answer, wrong), tokens):
        return None, "answers of several tokens are not compared token by token"
    lengths = [len(tokens.encode(text)) for text in (prompt, made.text)]
    if lengths[0] != lengths[1]:
        return None, f"{made.rule} would change the prompt's {lengths[0]} tokens to {lengths[1]}"
    return made.text, f"made: {made.rule}"


@torch.no_grad()
def _chances(model: Model, ids: Sequence[int]) -> torch.Tensor:
    """The probability of every next token."""
    end = torch.tensor([len(ids) - 1], device=model.device)
    return model.last_logits(torch.tensor([ids], device=model.device), end)[0].float().softmax(-1).cpu()
