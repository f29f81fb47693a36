"""Causal head gating (Nam et al. 2025, arXiv 2505.13737): which heads help a task, which hurt it, which do neither.

Gates on all heads are fitted together (`gate_fit.py`), in three stages that differ in the pull λ alone:

    free:      λ = 0,    from random gates     -> G0
    keeping:   λ = +0.1, from G0               -> G+    shut only where the head hurts
    removing:  λ = -0.1, from G0               -> G-    open only where the head helps

The loss is minus the log-probability of the target per token. The paper's equation writes sums over the batch and the
heads; like its code we take means, with which its λ goes.

Contrastive head gating (equation 2 of the paper): gates that keep one way of asking and forget another.

    loss = mean over (R, F) of [ -log P(y_R | x_R) + max(log P(y_F | x_F) - log P(y_R | x_R), -5) ]
           - λ · mean over heads of clamp(θ, -4, 4)

R is what is to be retained, F what is to be forgotten; log-probabilities are per token, and the second log P(y_R) is
held fixed. Above the floor the gradient is that of the paper's difference, log P(y_F) - log P(y_R). Once the forgotten
target is e⁵ times less probable than the retained one, forgetting ends and retaining goes on; a floor under the whole
difference, as the equation may be read, would let both fall together. The sign of λ is the user's: with λ > 0 only
heads that have to go are shut (the reading that fits the paper's text), with λ < 0 only heads that have to stay are
open (what its appendix prints).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError, require_seed
from ..core.progress import progress_bar
from ..core.provenance import Facts, provenance
from ..core.saving import Floats, Saved
from ..edit import Filler
from ..meters import TOKENS_A_PASS, Advance, HeadMeter
from ..models import Model
from ..models.changes import leaves_no_trace
from ..tasks.examples import Example, Task
from .fit import Fit, checked_fit
from .gate_fit import Fitter, Objective, Stage
from .method import Request
from .roles import HeadRoles
from .scores import HeadScores

FLOOR = -5.0


@leaves_no_trace
def fit_roles(
    model: Model,
    task: Task,
    fit: Fit | None = None,
    *,
    fill: str = "zero",
    seed: int = 0,
    checkpoint: str | Path | None = None,
    max_tokens: int = TOKENS_A_PASS,
    advance: Advance | None = None,
    note: Callable[[str], None] | None = None,
) -> HeadRoles:
    """Fit gates on the train split of a task, and give every head its role.

    **Arguments:**

    - `fit`: seeds, updates, batch, learning rates; the paper's by default, `headcount.QUICK` for a look.
    - `fill`: what a shut gate lets through: `zero` (the paper), `mean`, `mean-global`, or, for pairs, `counterfactual`.
    - `seed`: of the first fit; the others count on from it.
    - `checkpoint`: a file that a killed fit goes on from; in the cache folder by default. It is gone when the fit ends.
    - `advance`, `note`: told how many prompts have been run, and how the loss stands. Without them a bar is shown in a
      terminal.
    """
    fit = checked_fit(fit)
    require_seed(seed)
    examples = task.split("train")
    filler = Filler.prepare(model, fill, examples=examples, reference=examples, seed=seed, max_tokens=max_tokens)
    with progress_bar(fit.forwards(len(examples)), quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {task.name} · gating")
        told, note = advance or bar.advance, note or bar.note
        request = Request("log_prob_per_token", filler, "all", 1, seed, max_tokens, told, fit=fit, note=note)
        gates, losses = _three_stages(model, examples, request, checkpoint)
    free, plus, minus = gates.numpy()
    origin = provenance(model, task, {"fill": fill, "seed": seed, **fit.facts()})
    return HeadRoles(model.name, task.name, fill, free, plus, minus, losses.numpy(), origin)


def gating(model: Model, examples: Sequence[Example], request: Request) -> Tensor:
    """The scoring method: F - N = G+ + G- - 1 of every seed, [seed, layer, head]."""
    gates, _ = _three_stages(model, examples, request)
    return gates[1] + gates[2] - 1


def _three_stages(
    model: Model, examples: Sequence[Example], request: Request, checkpoint: str | Path | None = None
) -> tuple[Tensor, Tensor]:
    """G0, G+ and G-, [stage, seed, layer, head], and the losses, [stage, update, seed]."""
    objective = Objective([(example,) for example in examples], lambda log_probs: -log_probs[:, 0])
    fitter = Fitter(model, objective, request, checkpoint)
    pull = fitter.fit.pull
    if pull <= 0:
        raise HeadcountError(f"The pull must be above 0, as both signs of it are fitted; got {pull}.")
    free = fitter.run(Stage("free", 0.0), fitter.first_gates())
    pulled = [fitter.run(Stage(name, sign * pull), free[0]) for name, sign in (("keeping", 1), ("removing", -1))]
    fitter.checkpoint.path.unlink(missing_ok=True)
    gates, losses = (torch.stack(found).double() for found in zip(free, *pulled, strict=True))
    return gates.sigmoid(), losses


def contrast_loss(log_probs: Tensor) -> Tensor:
    """[group, (retain, forget)] -> [group]."""
    retain, forget = log_probs.unbind(1)
    return -retain + (forget - retain.detach()).clamp(min=FLOOR)


@dataclass(frozen=True, eq=False)
class ContrastGates(Saved):
    """Gates that retain one task and forget another, and what is left of both on their test splits."""

    FILE: ClassVar[str] = "contrast"
    AXES: ClassVar[dict[str, tuple[str, ...]]] = {"gates": ("seed", "layer", "head")}
    FINITE: ClassVar[tuple[str, ...]] = ("gates",)

    model: str
    retain: str
    forget: str
    fill: str
    gates: Floats = field(repr=False)  # [seed, layer, head]
    retained: Floats  # mean log-probability of a test target's token, of the whole model, then under each seed's gates
    forgotten: Floats
    provenance: Facts = field(default_factory=dict, repr=False)

    def scores(self) -> HeadScores:
        """The gates as head scores, to be compared with others."""
        task, origin = f"{self.retain} without {self.forget}", self.provenance
        return HeadScores(self.model, task, "contrast", "log_prob_per_token", self.gates, "seeds", provenance=origin)


@leaves_no_trace
def fit_contrast(
    model: Model,
    retain: Task,
    forget: Task,
    fit: Fit | None = None,
    *,
    pull: float = 0.1,
    fill: str = "zero",
    seed: int = 0,
    checkpoint: str | Path | None = None,
    max_tokens: int = TOKENS_A_PASS,
    advance: Advance | None = None,
    note: Callable[[str], None] | None = None,
) -> ContrastGates:
    """Fit gates on the train splits of two tasks, such as `syntax` (by instruction) and `syntax-shots` (by example).

    **Arguments:**

    - `pull`: λ with its sign; it takes the place of the fit's own.
    - the others are those of `fit_roles`; one stage is fitted, without the rates of a pull, as the paper does.
    """
    fit = checked_fit(fit).changed(pull=pull)
    require_seed(seed)
    kept: Sequence[Example] = retain.split("train")
    gone: Sequence[Example] = forget.split("train")
    groups, both = list(zip(kept, gone, strict=False)), (*kept, *gone)
    filler = Filler.prepare(model, fill, examples=both, reference=both, seed=seed, max_tokens=max_tokens)
    with progress_bar(2 * fit.forwards(len(groups), stages=1), quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {retain.name} without {forget.name} · contrast")
        told, note = advance or bar.advance, note or bar.note
        request = Request("log_prob_per_token", filler, "all", 1, seed, max_tokens, told, fit=fit, note=note)
        fitter = Fitter(model, Objective(groups, contrast_loss), request, checkpoint)
        theta, _ = fitter.run(Stage("contrast", fit.pull, free_rates=True), fitter.first_gates())
        fitter.checkpoint.path.unlink(missing_ok=True)
    gates = theta.double().sigmoid().numpy()
    retained, forgotten = (_left(model, gates, task, both, fill, max_tokens) for task in (retain, forget))
    origin = provenance(model, retain, {"fill": fill, "seed": seed, **fit.facts(), "forget": forget.fingerprint})
    return ContrastGates(model.name, retain.name, forget.name, fill, gates, retained, forgotten, origin)


def _left(model: Model, gates: Floats, task: Task, reference: Sequence[Example], fill: str, max_tokens: int) -> Floats:
    """Log-probability of a target token on the test split, of the whole model and under each seed's gates."""
    examples = task.split("test")
    filler = Filler.prepare(model, fill, examples=examples, reference=reference, max_tokens=max_tokens)
    masks = torch.from_numpy(np.concatenate([np.ones_like(gates[:1]), gates]))
    values = HeadMeter(model, examples, filler, max_tokens=max_tokens).measure(masks)
    return np.asarray(values.get("log_prob_per_token", values["log_prob"]).mean(1))
