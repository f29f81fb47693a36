"""GraphML for networkx and Gephi: a node a component, an edge for each role, with its score; without a role where edges
are counted whole.

Query heads that share a KV head each get its edges, as in `Circuit.by_query_head`.
"""

import networkx as nx

from ..core.export_options import NoOptions
from ..core.plain import plain
from ..rank.circuit import Circuit


def graphml(circuit: Circuit, options: NoOptions) -> str:
    wide = circuit.by_query_head()
    graph = nx.MultiDiGraph(id=plain(f"{circuit.model} {circuit.task}"))
    for name in wide.nodes:
        graph.add_node(name, layer=circuit.layer_of(name))
    for number, edge in enumerate(wide.edges()):
        graph.add_edge(edge.writer, edge.node, key=f"e{number}", role=edge.role, score=edge.score)
    return "\n".join(nx.generate_graphml(graph, named_key_ids=True, edge_id_from_attribute=None)) + "\n"
