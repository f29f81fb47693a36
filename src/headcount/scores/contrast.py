"""Contrastive head gating (Nam et al. 2025, equation 2): gates that keep one way of asking and forget another.

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..cuts import Filler
from ..errors import require_seed
from ..measure import MAX_TOKENS, Advance, Meter, silent
from ..models import Model
from ..progress import progress_bar
from ..provenance import provenance
from ..results import load_result, save_result
from ..tasks.examples import Example, Task
from .gate_fit import Fit, Fitter, Objective, Stage, checked_fit
from .result import HeadScores

FLOOR = -5.0


def contrast_loss(log_probs: Tensor) -> Tensor:
    """[group, (retain, forget)] -> [group]."""
    retain, forget = log_probs.unbind(1)
    return -retain + (forget - retain.detach()).clamp(min=FLOOR)


@dataclass(frozen=True, eq=False)
class ContrastGates:
    """Gates that retain one task and forget another, and what is left of both on their test splits."""

    model: str
    retain: str
    forget: str
    fill: str
    gates: NDArray[np.float64] = field(repr=False)
    """[seed, layer, head]."""
    retained: NDArray[np.float64]
    """Log-probability of a target token, mean over the test split: of the whole model, then under each seed's gates."""
    forgotten: NDArray[np.float64]
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)

    def scores(self) -> HeadScores:
        """The gates as head scores, to be compared with others."""
        return HeadScores(
            self.model, f"{self.retain} without {self.forget}", "contrast", "log_prob_per_token", self.gates,
            samples="seeds", provenance=self.provenance,
        )  # fmt: skip

    def save(self, folder: str | Path) -> Path:
        """Write `contrast.safetensors` and `contrast.json` into a folder."""
        arrays = {name: getattr(self, name) for name in ("gates", "retained", "forgotten")}
        facts = {name: getattr(self, name) for name in ("model", "retain", "forget", "fill", "provenance")}
        return save_result(folder, "contrast", arrays, facts)

    @classmethod
    def load(cls, folder: str | Path) -> "ContrastGates":
        arrays, facts = load_result(folder, "contrast")
        return cls(**{**arrays, **facts})


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
    max_tokens: int = MAX_TOKENS,
    advance: Advance | None = None,
    note: Callable[[str], None] | None = None,
) -> ContrastGates:
    """Fit gates on the train splits of two tasks, such as `syntax` (by instruction) and `syntax-shots` (by example).

    **Arguments:**

    - `pull`: λ with its sign; it takes the place of the fit's own.
    - the others are those of `fit_roles`; one stage is fitted, without the rates of a pull, as the paper does.
    """
    fit = replace(checked_fit(fit), pull=pull)
    require_seed(seed)
    kept: Sequence[Example] = retain.split("train")
    gone: Sequence[Example] = forget.split("train")
    groups = list(zip(kept, gone, strict=False))
    objective = Objective(groups, contrast_loss)
    both = (*kept, *gone)
    filler = Filler.prepare(model, fill, examples=both, reference=both, seed=seed, max_tokens=max_tokens)
    with progress_bar(2 * fit.forwards(len(groups), stages=1), quiet=advance is not None) as bar:
        bar.describe(f"{model.name} · {retain.name} without {forget.name} · contrast")
        fitter = Fitter.prepare(
            model, objective, fit, filler, seed=seed, max_tokens=max_tokens, advance=advance or bar.advance,
            note=note or bar.note, checkpoint=checkpoint,
        )  # fmt: skip
        with fitter.kept_until_done():
            theta, _ = fitter.run(Stage("contrast", fit.pull, free_rates=True), fitter.first_gates())
    gates = theta.double().sigmoid().numpy()
    arguments = {"fill": fill, "seed": seed, **fit.facts(), "forget": forget.fingerprint}
    retained, forgotten = (_left(model, gates, task, both, fill, max_tokens) for task in (retain, forget))
    origin = provenance(model, retain, arguments)
    return ContrastGates(model.name, retain.name, forget.name, fill, gates, retained, forgotten, origin)


def _left(
    model: Model, gates: NDArray[np.float64], task: Task, reference: Sequence[Example], fill: str, max_tokens: int
) -> NDArray[np.float64]:
    """Log-probability of a target token on the test split, of the whole model and under each seed's gates."""
    examples = task.split("test")
    filler = Filler.prepare(model, fill, examples=examples, reference=reference, max_tokens=max_tokens)
    whole = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.float64)
    masks = torch.cat([whole, torch.from_numpy(gates)])
    meter = Meter(model, examples, filler, max_tokens=max_tokens, advance=silent)
    values = meter.measure(masks)
    name = "log_prob_per_token" if "log_prob_per_token" in values else "log_prob"
    return np.asarray(values[name].mean(1))
