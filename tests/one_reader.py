"""One edge changed by hand, with hooks alone: what edge scores and circuits are held against."""

from functools import lru_cache

import numpy as np
import torch

from headcount.edit.trace import traced
from headcount.models.wiring import find_wiring


def run(model, ids):
    """What a plain run writes, [writer, position, d], and sees before each norm."""
    wiring = find_wiring(model)
    with torch.no_grad(), traced(model, wiring) as trace:
        model.logits(ids)
        return trace.written(wiring).expanded(model, wiring), trace


def metric_with_one_reader_moved(model, pair, reader, shift):
    """The clean run, in which one reader alone sees its stream moved by `shift` [position, d]."""
    with torch.no_grad():
        return float(differentiable_metric(model, pair, reader, shift))


@lru_cache(maxsize=2)
def clean_run(model, pair):
    """Once for all edges: no test changes a model between two of them."""
    ids = torch.tensor([pair.clean])
    return find_wiring(model), run(model, ids)[1], ids


def differentiable_metric(model, pair, reader, shift):
    """The same, with a gradient at the shift."""
    wiring, trace, ids = clean_run(model, pair)
    name = wiring.graph.readers[reader]

    def seen(norm, stream):
        moved = stream.flatten(0, -2) + shift
        return moved if norm is None else norm.module(moved)

    if name == "logits":
        module, change = wiring.final_norm.module, lambda module, args, output: module.forward(args[0] + shift)
    elif name.startswith("m"):
        layer = wiring.layers[int(name[1:])]
        moved = seen(layer.mlp_norm, trace.mlp_stream[int(name[1:])])
        module, change = layer.mlp_in, lambda module, args, output: module.forward(moved.view_as(args[0]))
    else:
        index, head = (int(part) for part in name[1:].split("<")[0].split(".h"))
        layer = wiring.layers[index]
        projection = layer.projections[name[-2]]
        moved = seen(layer.attention_norm, trace.attention_stream[index])
        module = projection.module

        def change(module, args, output):
            output = output.clone()
            rows = projection.rows.index[head]
            output[0][:, rows] = module.forward(moved)[:, rows]
            return output

    with module.register_forward_hook(change):
        logits = model.logits(ids)[0, -1]
    return logits[pair.answers[0]] - logits[pair.wrongs[0]]


def some_edges(graph, rng, n=14):
    """Random real edges, with each kind of reader among them."""
    real = np.argwhere(graph.real)
    chosen = [tuple(edge) for edge in real[rng.choice(len(real), n, replace=False)]]
    for kind in ("<q>", "<k>", "<v>", "m2", "logits"):
        of_kind = [edge for edge in real if kind in graph.readers[edge[1]]]
        chosen.append(tuple(of_kind[rng.integers(len(of_kind))]))
    return chosen
