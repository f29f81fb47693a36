"""MIB's and EAP-IG's graph JSON: every edge of the model with its score and whether it is in the circuit.

Edges that are grouped or counted whole are written out as MIB counts them, as in `Circuit.split`.
"""

import json

import numpy as np

from ..rank.circuit import Circuit


def mib(circuit: Circuit) -> str:
    wide = circuit.split()
    graph = wide.graph
    inside = {*wide.nodes, "logits"}
    writers, readers, scores, keep = graph.writers, graph.readers, wide.scores, wide.keep
    edges = {
        f"{writers[f]}->{readers[b]}": {"score": float(scores[f, b]), "in_graph": bool(keep[f, b])}
        for f, b in np.argwhere(graph.real)
    }
    config = {"n_layers": graph.n_layers, "n_heads": graph.n_heads, "parallel_attn_mlp": graph.parallel}
    nodes = {name: {"in_graph": name in inside} for name in (*writers, "logits")}
    return json.dumps({"cfg": {**config, "d_model": circuit.width}, "nodes": nodes, "edges": edges})
