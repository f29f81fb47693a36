"""Circuits for Graphviz: `headcount export dot RESULT --out circuit.dot`, then `dot -Tpdf circuit.dot`."""

import headcount as hc


class DotOptions(hc.Settings):
    digits: int = 3
    """Digits of a score."""


def dot(circuit: hc.Circuit, options: DotOptions) -> str:
    """A node a component, an edge for each role, with its score."""
    lines = [f'digraph "{circuit.model} {circuit.task}" {{', "  rankdir=BT;"]
    for edge in circuit.edges():
        label = f"{edge.role} {edge.score:.{options.digits}g}".strip()
        lines.append(f'  "{edge.writer}" -> "{edge.node}" [label="{label}"];')
    return "\n".join([*lines, "}", ""])


DOT = hc.Export("a circuit for Graphviz", takes="circuit", target=dot, options=DotOptions)
