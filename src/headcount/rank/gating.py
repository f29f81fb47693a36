"""Causal head gating (Nam et al. 2025, arXiv 2505.13737): which heads help a task, which hurt it, which do neither.

Gates on all heads are fitted together (`gate_fit.py`), in three stages that differ in the pull λ alone:

    free:      λ = 0,    from random gates     -> G0
    keeping:   λ = +0.1, from G0               -> G+    shut only where the head hurts
    removing:  λ = -0.1, from G0               -> G-    open only where the head helps

The loss is minus the log-probability of the target per token. The paper's equation writes sums over the batch and the
heads; like its code we take means, with which its λ goes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import HeadcountError, require_seed
from ..core.progress import progress_bar
from ..core.provenance import provenance
from ..edit import Filler
from ..meters import TOKENS_A_PASS, Advance
from ..models import Model
from ..tasks.examples import Example, Task
from .fit import Fit, checked_fit
from .gate_fit import Fitter, Objective, Stage
from .method import Request
from .roles import HeadRoles


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
    fitter = Fitter.prepare(model, objective, request, checkpoint)
    pull = fitter.fit.pull
    if pull <= 0:
        raise HeadcountError(f"The pull must be above 0, as both signs of it are fitted; this is {pull}.")
    free = fitter.run(Stage("free", 0.0), fitter.first_gates())
    pulled = [fitter.run(Stage(name, sign * pull), free[0]) for name, sign in (("keeping", 1), ("removing", -1))]
    fitter.checkpoint.path.unlink(missing_ok=True)
    gates, losses = (torch.stack(found).double() for found in zip(free, *pulled, strict=True))
    return gates.sigmoid(), losses
