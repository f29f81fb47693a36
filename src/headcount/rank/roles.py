"""The role of every head, by causal head gating: helps the task, hurts it, or does neither."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..core.errors import require_known
from ..core.provenance import Facts, part_of
from ..core.saving import Floats, Row, Saved, Tabled
from ..core.shown import Shown
from ..core.words import ROLES, Role
from .scores import HeadScores

LABELS: dict[Role, str] = dict(zip(ROLES, ("facilitating", "irrelevant", "interfering"), strict=True))
UNCLEAR = "unclear"  # none of the head's scores reaches one half
Aggregation = Literal["always", "any", "mean", "max"]


@dataclass(frozen=True, eq=False)
class HeadRoles(Saved, Tabled, Shown):
    """Gates of several fits, and the scores that follow from them (Nam et al. 2025, table 1).

    facilitating   G+ high, G- high    F = G-              the task falls without the head
    interfering    G+ low,  G- low     N = 1 - G+          the task rises without it
    irrelevant     G+ high, G- low     R = G+ · (1 - G-)   nothing happens
    """

    FILE: ClassVar[str] = "roles"
    AXES: ClassVar[dict[str, tuple[str, ...]]] = {
        **dict.fromkeys(("free", "plus", "minus"), ("seed", "layer", "head")), "losses": ("stage", "update", "seed"),
    }  # fmt: skip
    FINITE: ClassVar[tuple[str, ...]] = ("free", "plus", "minus")

    model: str
    task: str
    fill: str
    free: Floats = field(repr=False)  # G0, fitted without a pull; both others start from it, [seed, layer, head]
    plus: Floats = field(repr=False)  # G+, fitted under a pull toward keeping heads
    minus: Floats = field(repr=False)  # G-, fitted under a pull toward removing them
    losses: Floats = field(repr=False)  # of minibatches, [stage, update, seed]; not a number once a seed has settled
    provenance: Facts = field(default_factory=dict, repr=False)

    @property
    def seeds(self) -> int:
        return len(self.plus)

    def score(self, role: Role) -> Floats:
        """[seed, layer, head], from 0 to 1."""
        require_known(role, ROLES, "role")
        if role == "facilitation":
            return self.minus
        return 1 - self.plus if role == "interference" else self.plus * (1 - self.minus)

    def aggregate(self, role: Role, how: Aggregation = "mean") -> Floats:
        """Over seeds, [layer, head]: the mean or the largest score; or 1 where the score is at least one half in all
        (`always`) or in at least one (`any`) of them, else 0."""
        require_known(how, get_args(Aggregation), "aggregation")
        score = self.score(role)
        if how in ("mean", "max"):
            return np.asarray(score.mean(0) if how == "mean" else score.max(0))
        high = score >= 0.5
        return np.asarray(high.all(0) if how == "always" else high.any(0), dtype=np.float64)

    def labels(self) -> NDArray[np.str_]:
        """[seed, layer, head]: the role whose score is at least one half, `unclear` where none is. Where two are (G+
        low and G- high, which is rare), the larger."""
        scores = np.stack([self.score(role) for role in ROLES])
        names = np.array([LABELS[role] for role in ROLES])
        return np.where(scores.max(0) >= 0.5, names[scores.argmax(0)], UNCLEAR)

    def shares(self) -> dict[Role, dict[str, float]]:
        """Share of the heads in each role: mean over seeds, in all seeds, in at least one."""
        high = {role: self.score(role) >= 0.5 for role in ROLES}
        return {
            role: {"mean": float(h.mean()), "always": float(h.all(0).mean()), "any": float(h.any(0).mean())}
            for role, h in high.items()
        }

    def scores(self, role: Role | None = None) -> HeadScores:
        """As head scores, a sample a seed, to be compared or swept. Without a role: F - N = G+ + G- - 1, which is near
        1 for heads that help, near -1 for heads that hurt, and near 0 for the others."""
        values = self.plus + self.minus - 1 if role is None else self.score(role)
        name, origin = "gating" if role is None else f"gating-{role}", self.provenance
        return HeadScores(self.model, self.task, name, "log_prob_per_token", values, "seeds", provenance=origin)

    def order(self, role: Role, seed: int) -> NDArray[np.intp]:
        """Heads by their place in the flattened map, the highest score of one seed first; ties go by place."""
        return np.argsort(-self.score(role)[seed].ravel(), kind="stable")

    def rows(self) -> list[Row]:
        """One row per seed and head."""
        seed = part_of(self.provenance, "arguments").get("seed")
        first = seed if isinstance(seed, int) else 0
        maps: dict[str, Floats] = {"free": self.free, "plus": self.plus, "minus": self.minus}
        maps |= {role: self.score(role) for role in ROLES}
        facts, rows = {"model": self.model, "task": self.task}, list[Row]()
        for (seed, layer, head), label in np.ndenumerate(self.labels()):
            numbers = {name: float(values[seed, layer, head]) for name, values in maps.items()}
            rows.append({**facts, "seed": first + seed, "layer": layer, "head": head, **numbers, "label": str(label)})
        return rows
