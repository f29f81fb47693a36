"""Scores of heads, roles and circuits as a page shows them."""

import numpy as np

from ...core.words import ROLES, ScoreOrder
from ...rank.circuit import Circuit
from ...rank.comparison import seed_agreement, spearman
from ...rank.roles import LABELS, HeadRoles
from ...rank.scores import EdgeScores, HeadScores
from .data import CircuitData, EdgeData, MapData, RolesData, short, short_map

DRAWN_EDGES = 400
"""Of an order, the first that a page can draw."""


def map_data(scores: HeadScores, panel: int = 0, fill: str = "") -> MapData:
    count = len(scores.by_pair)
    errors = scores.by_pair.std(0, ddof=1) / np.sqrt(count) if count > 1 else np.full(scores.values.shape, np.nan)
    return MapData(
        panel=panel,
        model=scores.model,
        task=scores.task,
        method=scores.method,
        metric=scores.metric,
        fill=fill,
        values=short_map(scores.values),
        errors=short_map(errors, 3),
        samples=scores.samples,
        count=count,
        signed=scores.signed,
    )


def roles_data(roles: HeadRoles, panel: int = 0) -> RolesData:
    labels = roles.labels()
    own = {"gating": roles.scores()} | {str(role): roles.scores(role) for role in ROLES}
    return RolesData(
        panel=panel,
        model=roles.model,
        task=roles.task,
        fill=roles.fill,
        seeds=roles.seeds,
        scores={role: short_map(roles.aggregate(role), 3) for role in ROLES},
        votes={role: short_map((labels == LABELS[role]).mean(0), 3) for role in ROLES},
        shares={role: {how: short(share, 4) for how, share in by.items()} for role, by in roles.shares().items()},
        agreement={name: short(seed_agreement(scores, "signed", spearman), 3) for name, scores in own.items()},
    )


def order_data(scores: EdgeScores, order: ScoreOrder, mix: float | None = None, panel: int = 0) -> CircuitData:
    """The first edges of an order, from the first to be kept on."""
    readers, writers = scores.graph.readers, scores.graph.writers
    first = scores.order(order, mix)[:DRAWN_EDGES]
    edges = [_edge(writers[f], readers[b], float(scores.values[f, b])) for f, b in first]
    size = scores.graph.n_layers, scores.size
    return CircuitData(panel, scores.model, scores.task, order, *size, edges, scores.method)


def circuit_data(circuit: Circuit, panel: int = 0) -> CircuitData:
    """The edges of a circuit, the largest scores first."""
    ranked = sorted(circuit.edges(), key=lambda edge: -abs(edge.score))[:DRAWN_EDGES]
    edges = [EdgeData(edge.writer, edge.node, edge.role, short(edge.score, 4)) for edge in ranked]
    graph = circuit.graph
    return CircuitData(panel, circuit.model, circuit.task, "circuit", graph.n_layers, graph.n_edges, edges)


def _edge(writer: str, reader: str, score: float) -> EdgeData:
    node, _, role = reader.partition("<")
    return EdgeData(writer, node, role.rstrip(">"), short(score, 4))
