"""The role of every head, by causal head gating: helps the task, hurts it, or does neither."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..core.errors import HeadcountError, did_you_mean
from ..core.provenance import Facts
from ..core.saving import Floats, Row, Saved, Tabled
from ..core.words import ROLES, Role
from .scores import HeadScores

LABELS: dict[Role, str] = {
    "facilitation": "facilitating",
    "irrelevance": "irrelevant",
    "interference": "interfering",
}
UNCLEAR = "unclear"
"""The label of a head none of whose scores reaches one half."""

Aggregation = Literal["always", "any", "mean", "max"]


@dataclass(frozen=True, eq=False)
class HeadRoles(Saved, Tabled):
    """Gates of several fits, and the scores that follow from them (Nam et al. 2025, table 1).

    facilitating   G+ high, G- high    F = G-              the task falls without the head
    interfering    G+ low,  G- low     N = 1 - G+          the task rises without it
    irrelevant     G+ high, G- low     R = G+ · (1 - G-)   nothing happens
    """

    FILE: ClassVar[str] = "roles"

    model: str
    task: str
    fill: str
    free: Floats = field(repr=False)
    """G0, the gates fitted without a pull, from which both others start, [seed, layer, head]."""
    plus: Floats = field(repr=False)
    """G+, fitted under a pull toward keeping heads."""
    minus: Floats = field(repr=False)
    """G-, fitted under a pull toward removing them."""
    losses: Floats = field(repr=False)
    """Loss on each minibatch, [stage, update, seed]; not a number once a seed has settled."""
    provenance: Facts = field(default_factory=dict, repr=False)

    @property
    def seeds(self) -> int:
        return len(self.plus)

    def score(self, role: Role) -> Floats:
        """[seed, layer, head], from 0 to 1."""
        match role:
            case "facilitation":
                return self.minus
            case "irrelevance":
                return self.plus * (1 - self.minus)
            case "interference":
                return 1 - self.plus
        raise HeadcountError(f"There is no role {role!r}.{did_you_mean(str(role), ROLES)}")

    def aggregate(self, role: Role, how: Aggregation = "mean") -> Floats:
        """Over seeds, [layer, head]: the mean or the largest score; or 1 where the score is at least one half in all
        (`always`) or in at least one (`any`) of them, else 0."""
        score = self.score(role)
        match how:
            case "mean":
                return np.asarray(score.mean(0))
            case "max":
                return np.asarray(score.max(0))
            case "always":
                return np.asarray((score >= 0.5).all(0), dtype=np.float64)
            case "any":
                return np.asarray((score >= 0.5).any(0), dtype=np.float64)
        raise HeadcountError(f"There is no aggregation {how!r}.{did_you_mean(str(how), get_args(Aggregation))}")

    def labels(self) -> NDArray[np.str_]:
        """[seed, layer, head]: the role whose score is at least one half, `unclear` where none is. Where two are (G+
        low and G- high, which is rare), the larger."""
        scores = np.stack([self.score(role) for role in ROLES])
        names = np.array([LABELS[role] for role in ROLES])
        return np.where(scores.max(0) >= 0.5, names[scores.argmax(0)], UNCLEAR)

    def shares(self) -> dict[Role, dict[str, float]]:
        """Share of the heads in each role: mean over seeds, in all seeds, in at least one."""
        return {
            role: {
                "mean": float((self.score(role) >= 0.5).mean()),
                "always": float(self.aggregate(role, "always").mean()),
                "any": float(self.aggregate(role, "any").mean()),
            }
            for role in ROLES
        }

    def scores(self, role: Role | None = None) -> HeadScores:
        """As head scores, a sample a seed, to be compared or swept. Without a role: F - N = G+ + G- - 1, which is near
        1 for heads that help, near -1 for heads that hurt, and near 0 for the others."""
        values = self.plus + self.minus - 1 if role is None else self.score(role)
        method = "gating" if role is None else f"gating-{role}"
        return HeadScores(
            self.model, self.task, method, "log_prob_per_token", values, samples="seeds", provenance=self.provenance
        )

    def order(self, role: Role, seed: int) -> NDArray[np.intp]:
        """Heads by their place in the flattened map, the highest score of one seed first; ties go by place."""
        ranked: NDArray[np.intp] = np.argsort(-self.score(role)[seed].ravel(), kind="stable")
        return ranked

    def rows(self) -> list[Row]:
        """A row a seed and head."""
        labels = self.labels()
        first = int(self.provenance.get("arguments", {}).get("seed", 0))
        return [
            {
                "model": self.model, "task": self.task, "seed": first + s, "layer": layer, "head": head,
                "free": float(self.free[s, layer, head]), "plus": float(plus),
                "minus": float(self.minus[s, layer, head]),
                **{role: float(self.score(role)[s, layer, head]) for role in ROLES},
                "label": str(labels[s, layer, head]),
            }
            for (s, layer, head), plus in np.ndenumerate(self.plus)
        ]  # fmt: skip
