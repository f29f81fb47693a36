"""MIB's and EAP-IG's graph JSON: every edge of the model with its score and whether it is in the circuit."""

import json

import numpy as np

from ..rank.circuit import Circuit


def mib(circuit: Circuit) -> str:
    wide = circuit.by_query_head()
    graph = wide.graph
    inside = {*wide.nodes, "logits"}
    edges = {
        f"{graph.writers[writer]}->{graph.readers[reader]}": {
            "score": float(wide.scores[writer, reader]),
            "in_graph": bool(wide.keep[writer, reader]),
        }
        for writer, reader in np.argwhere(graph.real)
    }
    config = {"n_layers": graph.n_layers, "n_heads": graph.n_heads, "parallel_attn_mlp": graph.parallel}
    nodes = {name: {"in_graph": name in inside} for name in (*graph.writers, "logits")}
    return json.dumps({"cfg": {**config, "d_model": circuit.width}, "nodes": nodes, "edges": edges})
