"""MIB's and EAP-IG's graph JSON: every edge of the model with its score and whether it is in the circuit.

Edges that are grouped or counted whole are written out as MIB counts them, as in `Circuit.split`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import HeadcountError, in_short
from ..core.export_options import NoOptions
from ..core.reading import parse_json, read_text
from ..models.graph import Graph
from ..rank.circuit import Circuit


def mib(circuit: Circuit, options: NoOptions) -> str:
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


def read_mib(path: Path) -> Circuit:
    """A circuit back from its file, also one that EAP-IG or MIB's code wrote. It names neither model nor task."""
    try:
        found: Any = parse_json(read_text(path, "The circuit"))
        config, listed = found["cfg"], found["edges"]
        if not 0 < config["n_layers"] * config["n_heads"] <= len(listed):  # every head has edges of its own
            raise ValueError(f"it lists {len(listed)} edges, and its cfg has more heads, or none")
        graph = Graph(config["n_layers"], config["n_heads"], config["n_heads"], bool(config["parallel_attn_mlp"]))
        writers = {name: place for place, name in enumerate(graph.writers)}
        readers = {name: place for place, name in enumerate(graph.readers)}
        keep, scores = np.zeros(graph.real.shape, dtype=bool), np.zeros(graph.real.shape)
        for name, edge in listed.items():
            writer, _, reader = name.partition("->")
            place = writers[writer], readers[reader]
            keep[place], scores[place] = bool(edge["in_graph"]), float(edge["score"])
        return Circuit(path.stem, "", graph, int(config["d_model"]), keep, scores)
    except (ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError) as error:
        raise HeadcountError(f"{path} is no circuit as MIB writes them: {in_short(error)}") from error
