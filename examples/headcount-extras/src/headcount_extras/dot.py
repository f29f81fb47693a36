"""Circuits for Graphviz: `dot -Tpdf circuit.dot`."""


def dot(circuit, digits: int = 3) -> str:
    """A node a component, an edge for each role, with its score."""
    lines = [f'digraph "{circuit.model} {circuit.task}" {{', "  rankdir=BT;"]
    for edge in circuit.edges():
        label = f"{edge.role} {edge.score:.{digits}g}".strip()
        lines.append(f'  "{edge.writer}" -> "{edge.node}" [label="{label}"];')
    return "\n".join([*lines, "}", ""])
