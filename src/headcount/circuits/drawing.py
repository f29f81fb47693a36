"""A layered drawing of a graph as SVG text: no graphviz, no browser, nothing to install."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from xml.sax.saxutils import escape

COLOURS = {"q": "#2f6db3", "k": "#2a9d6f", "v": "#e8833a", "": "#5b5b5b"}
WORDS = {"q": "query", "k": "key", "v": "value", "": "MLP, logits"}
NODE_WIDTH, NODE_HEIGHT, GAP_X, GAP_Y, MARGIN, TOP = 58, 22, 14, 62, 24, 74
ROUNDS = 12


class Drawn(Protocol):
    @property
    def writer(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def score(self) -> float: ...


def svg_of(levels: Mapping[str, int], edges: Sequence[Drawn], title: str) -> str:
    """`levels`: node -> height. Edges run upwards. Colour tells roles apart, width the size of the score, dashes that it
    is negative."""
    rows = _rows(levels, edges)
    widest = max((len(row) for row in rows), default=1)
    width = max(2 * MARGIN + widest * (NODE_WIDTH + GAP_X) - GAP_X, 460, 7 * len(title))
    height = TOP + MARGIN + max(len(rows), 1) * GAP_Y
    place = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (NODE_WIDTH + GAP_X) + GAP_X) / 2
        for index, name in enumerate(row):
            x = left + index * (NODE_WIDTH + GAP_X) + NODE_WIDTH / 2
            place[name] = x, height - MARGIN - NODE_HEIGHT / 2 - number * GAP_Y
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        f'<text x="{MARGIN}" y="26" font-size="13">{escape(title)}</text>',
        *_legend(),
    ]
    largest = max((abs(edge.score) for edge in edges), default=0.0) or 1.0
    for edge in sorted(edges, key=lambda edge: abs(edge.score)):  # the strongest on top
        lines.append(_curve(*place[edge.writer], *place[edge.node], edge, abs(edge.score) / largest))
    lines += [_box(name, *place[name]) for name in levels]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _rows(levels: Mapping[str, int], edges: Sequence[Drawn]) -> list[list[str]]:
    """Nodes of one height side by side, each near the middle of its neighbours, so that fewer edges cross."""
    rows = [[name for name in levels if levels[name] == level] for level in sorted(set(levels.values()))]
    neighbours: dict[str, set[str]] = {name: set() for name in levels}
    for edge in edges:
        neighbours[edge.writer].add(edge.node)
        neighbours[edge.node].add(edge.writer)
    for _ in range(ROUNDS):
        at = {name: (index + 0.5) / len(row) for row in rows for index, name in enumerate(row)}
        for row in rows:
            row.sort(key=lambda name: sum(at[n] for n in neighbours[name]) / max(len(neighbours[name]), 1))
    return rows


def _legend() -> list[str]:
    found, x = [], MARGIN
    for role, word in WORDS.items():
        found.append(f'<line x1="{x}" y1="46" x2="{x + 22}" y2="46" stroke="{COLOURS[role]}" stroke-width="2.5"/>')
        found.append(f'<text x="{x + 28}" y="50" font-size="11">{word}</text>')
        x += 46 + 7 * len(word)
    found.append(
        f'<line x1="{x}" y1="46" x2="{x + 22}" y2="46" stroke="#5b5b5b" stroke-width="2" stroke-dasharray="4 3"/>'
    )
    found.append(f'<text x="{x + 28}" y="50" font-size="11">negative score</text>')
    return found


def _curve(x1: float, y1: float, x2: float, y2: float, edge: Drawn, strength: float) -> str:
    bottom, top = y1 - NODE_HEIGHT / 2, y2 + NODE_HEIGHT / 2
    # The three readers of a head stand side by side below it.
    x2 += {"q": -14, "k": 0, "v": 14, "": 0}[edge.role]
    bend = (bottom - top) * 0.45
    dashes = ' stroke-dasharray="4 3"' if edge.score < 0 else ""
    words = f"{edge.writer} to {edge.node}{' ' + edge.role if edge.role else ''}: {edge.score:+.4g}"
    return (
        f'<path d="M{x1:.1f} {bottom:.1f} C{x1:.1f} {bottom - bend:.1f} {x2:.1f} {top + bend:.1f} {x2:.1f} {top:.1f}"'
        f' fill="none" stroke="{COLOURS[edge.role]}" stroke-width="{0.6 + 3.4 * strength:.2f}"'
        f' stroke-opacity="{0.45 + 0.5 * strength:.2f}"{dashes}><title>{escape(words)}</title></path>'
    )


def _box(name: str, x: float, y: float) -> str:
    fill = "#eef3fa" if name.startswith("a") else "#f7efe6" if name.startswith("m") else "#eeeeee"
    return (
        f'<rect x="{x - NODE_WIDTH / 2:.1f}" y="{y - NODE_HEIGHT / 2:.1f}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}"'
        f' rx="5" fill="{fill}" stroke="#777777" stroke-width="0.8"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="11" text-anchor="middle">{escape(name)}</text>'
    )
