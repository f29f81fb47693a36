"""A layered drawing of a circuit as SVG text: no graphviz, no browser, nothing to install.

A row a layer, from the input at the bottom to the logits at the top: heads side by side, MLPs in a column of their own
on the right. What MLPs read runs right of that column, what heads read left of them.
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from xml.sax.saxutils import escape

from ..core.export_options import SvgOptions
from ..core.plain import plain
from ..models.graph import INPUTS
from ..rank.circuit import Circuit, Edge

GREY = "#5b5b5b"
READS = {"q": ("query", "#2f6db3", -14), "k": ("key", "#2a9d6f", 0), "v": ("value", "#e8833a", 14)}
READS |= {"": ("MLP, logits", GREY, 0), "whole": ("head", "#2f6db3", 0)}
"""Role -> its word, its colour, and where its edges end: the three readers of a head stand side by side below it.
Edges into a head that are counted whole have no role of their own."""
NODE_WIDTH, NODE_HEIGHT, GAP_X, GAP_Y, MARGIN, LINE = 56, 20, 12, 50, 24, 18
BOW = 130  # room beside the nodes for edges that pass many layers
ROUNDS = 12
ARROW, STEM = 7, 3  # lengths of an arrowhead, and of the straight line before it, so that it points into its node
DASHES = ' stroke-dasharray="4 3"'  # of negative scores
Point = tuple[float, float]


def svg(circuit: Circuit, options: SvgOptions) -> str:
    whole = circuit.by_query_head()
    shown = whole.strongest(options.most)
    title = f"{plain(circuit.task)} on {plain(circuit.model)}: {len(circuit):,} of {circuit.graph.n_edges:,} edges"
    if len(shown) < len(whole):
        title += f"; drawn: the {len(shown)} strongest that are connected"
    if len(whole) > len(circuit):
        title += ", once for each query head that shares a key or value"
    edges = [edge._replace(role="whole") if _is_whole(circuit, edge) else edge for edge in shown.edges()]
    return _drawing({name: circuit.layer_of(name) for name in shown.nodes}, edges, title, circuit.graph.whole)


def _is_whole(circuit: Circuit, edge: Edge) -> bool:
    return circuit.graph.whole and edge.node.startswith("a")


def _drawing(layers: Mapping[str, int], edges: Sequence[Edge], title: str, whole: bool) -> str:
    """`layers`: node -> layer. Colour tells roles apart, width the size of the score, dashes that it is negative."""
    rows = _rows(layers, edges)
    widest = max((sum(not name.startswith("m") for name in row) for row in rows), default=1)
    heads_width = widest * (NODE_WIDTH + GAP_X)
    width = max(2 * MARGIN + 2 * BOW + heads_width + NODE_WIDTH + GAP_X, 480)
    words = wrap(title, int(width / 7))
    below = MARGIN + LINE * len(words)
    height = below + 44 + MARGIN + len(rows) * GAP_Y
    place = _places(rows, MARGIN + BOW, heads_width, height - MARGIN - NODE_HEIGHT / 2)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
    ]
    shown = ("whole", "") if whole else ("q", "k", "v", "")
    lines += ["<defs>", *map(_arrowhead, shown), "</defs>"]
    for number, line in enumerate(words):
        lines.append(f'<text x="{MARGIN}" y="{MARGIN + LINE * number}" font-size="13">{escape(line)}</text>')
    lines += _legend(below, shown)
    largest = max((abs(edge.score) for edge in edges), default=0.0) or 1.0
    span = max(len(rows) - 1, 1)
    for edge in sorted(edges, key=lambda edge: abs(edge.score)):  # the strongest on top
        start, end = place[edge.writer], place[edge.node]
        passed = (start[1] - end[1]) / GAP_Y / span
        lines.append(_curve(start, end, edge, abs(edge.score) / largest, BOW * passed**0.6))
    return "\n".join([*lines, *(_box(name, *place[name]) for name in layers), "</svg>"]) + "\n"


def _rows(layers: Mapping[str, int], edges: Sequence[Edge]) -> list[list[str]]:
    """Nodes of one layer side by side, each near the middle of its neighbours, so that fewer edges cross."""
    rows = [[name for name in layers if layers[name] == layer] for layer in sorted(set(layers.values()))]
    neighbours: dict[str, set[str]] = {name: set() for name in layers}
    for edge in edges:
        neighbours[edge.writer].add(edge.node)
        neighbours[edge.node].add(edge.writer)
    for _ in range(ROUNDS):
        at = {name: (index + 0.5) / len(row) for row in rows for index, name in enumerate(row)}
        for row in rows:
            row.sort(key=lambda name: sum(at[n] for n in neighbours[name]) / max(len(neighbours[name]), 1))
    return rows


def _places(rows: Sequence[Sequence[str]], left: float, heads_width: float, bottom: float) -> dict[str, Point]:
    found: dict[str, Point] = {}
    for number, row in enumerate(rows):
        y = bottom - number * GAP_Y
        mlps, heads = ([name for name in row if name.startswith("m") == is_mlp] for is_mlp in (True, False))
        first = left + (heads_width - len(heads) * (NODE_WIDTH + GAP_X)) / 2 + NODE_WIDTH / 2
        found |= {name: (first + index * (NODE_WIDTH + GAP_X), y) for index, name in enumerate(heads)}
        # An MLP stands a little higher, for its layer's heads come before it.
        found |= dict.fromkeys(mlps, (left + heads_width + GAP_X + NODE_WIDTH / 2, y - 0.4 * GAP_Y))
    return found


def _legend(y: float, roles: Sequence[str]) -> list[str]:
    found, x = [], float(MARGIN)
    for word, colour, dashes in (*((*READS[role][:2], "") for role in roles), ("negative score", GREY, DASHES)):
        ends = f'x1="{x}" y1="{y}" x2="{x + 22}" y2="{y}"'
        found.append(f'<line {ends} stroke="{colour}" stroke-width="2.5"{dashes}/>')
        found.append(f'<text x="{x + 28}" y="{y + 4}" font-size="11">{word}</text>')
        x += 46 + 6.5 * len(word)
    return found


def _arrowhead(role: str) -> str:
    """Of one size whatever the width of its stroke, which ends at its base."""
    half = ARROW / 2
    return (
        f'<marker id="{_arrow_name(role)}" refX="0.5" refY="{half:g}" markerWidth="{ARROW}" markerHeight="{ARROW}"'
        ' markerUnits="userSpaceOnUse" orient="auto">'
        f'<polygon points="0,0 {ARROW},{half:g} 0,{ARROW}" fill="{READS[role][1]}"/></marker>'
    )


def _arrow_name(role: str) -> str:
    return f"into-{role or 'other'}"


def _curve(start: Point, end: Point, edge: Edge, strength: float, bow: float) -> str:
    _, colour, aside = READS[edge.role]
    x1, y1 = start[0], start[1] - NODE_HEIGHT / 2
    x2, y2 = end[0] + aside, end[1] + NODE_HEIGHT / 2 + ARROW + STEM
    side, bend = -bow if edge.role else bow, max((y1 - y2) * 0.35, 12)
    role = f" {edge.role}" if edge.role in INPUTS else ""
    dashes, arrow = DASHES if edge.score < 0 else "", f' marker-end="url(#{_arrow_name(edge.role)})"'
    words = f"{edge.writer} to {edge.node}{role}: {edge.score:+.4g}"
    return (
        f'<path d="M{x1:.1f} {y1:.1f} C{x1 + side:.1f} {y1 - bend:.1f} {x2 + side:.1f} {y2 + bend:.1f}'
        f' {x2:.1f} {y2:.1f} v{-STEM}" fill="none" stroke="{colour}" stroke-width="{1.1 + 2.9 * strength:.2f}"'
        f' stroke-opacity="{0.7 + 0.3 * strength:.2f}"{arrow}{dashes}>'
        f"<title>{escape(words)}</title></path>"
    )


def _box(name: str, x: float, y: float) -> str:
    fill = {"a": "#eef3fa", "m": "#f7efe6"}.get(name[0], "#eeeeee")
    return (
        f'<rect x="{x - NODE_WIDTH / 2:.1f}" y="{y - NODE_HEIGHT / 2:.1f}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}"'
        f' rx="5" fill="{fill}" stroke="#777777" stroke-width="0.8"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="11" text-anchor="middle">{escape(name)}</text>'
    )
