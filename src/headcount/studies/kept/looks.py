"""How lines of explained effect look: colours tell models, methods or tasks apart, dashes orders and controls."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Literal

from matplotlib.lines import Line2D
from typing_extensions import TypedDict

from ...core.words import Control
from ...rank import METHODS
from ...sweeps import Curve, Repeats
from ...view.style import grouped

Dashes = tuple[float, tuple[float, ...]] | Literal["-"]
MODEL_COLOURS = ("#2f6db3", "#e8833a", "#2a9d6f", "#c9559b", "#7a5cc4", "#8c6d46")
CHANCE_COLOUR = "#8a8a8a"
ORDER_COLOURS = {"absolute": "#2f6db3", "signed": "#e8833a", "best": "#2a9d6f"}
ORDERS: dict[str, tuple[str, Dashes]] = {
    "absolute": ("largest effect first", (0, (8, 1.5, 2, 1.5))),
    "signed": ("most helpful first", (0, (5, 1.5))),
    "best": ("mix of most helpful and largest", (0, (8, 1.5, 2, 1.5, 2, 1.5))),
    "chance": ("random order", (0, (1, 1.5))),
    "chance-matched": ("random order, same layers", (0, (3, 1, 1, 1))),
}
CONTROLS: dict[Control, tuple[str, Dashes]] = {
    "nonsense": ("nonsense", (0, (1, 3))),
    "shuffled": ("shuffled scores", (0, (2, 3))),
}
"""Words and dashes; the first order of a figure is a solid line."""
DrawnPanel = tuple[str, Sequence[Curve]]
"""Its title and its curves."""


class Look(TypedDict):
    """How the line of a curve is plotted."""

    label: str
    color: str
    linestyle: Dashes


Looks = dict[Curve, Look]


def by_chance(curve: Curve) -> bool:
    return curve.order.startswith("chance")


def words_of_orders(repeats: Mapping[Curve, Repeats]) -> dict[Curve, str]:
    """What the order of each curve is called. A mix that is one of the two plain orders wherever it was chosen has its
    name; scores without a sign are no effects, and have one order."""
    mixes = {one.mix for own in repeats.values() for one in own.curves if one.order == "best"}
    plain = "absolute" if mixes == {0.0} else "signed" if mixes == {1.0} else "best"
    beside = any(curve.order == plain for curve in repeats) and plain != "best"
    found = dict[Curve, str]()
    for curve in repeats:
        order, method = plain if curve.order == "best" else curve.order, METHODS.get(curve.method)
        unsigned = order == "absolute" and method is not None and not method.signed
        found[curve] = "highest score first" if unsigned else ORDERS[order][0]
        if beside and curve.order == "best":
            found[curve] += " (the best mix)"
    return found


def looks_of(panels: Sequence[DrawnPanel], orders: Mapping[Curve, str]) -> Looks:
    """Colour tells apart what the lines of a panel differ in: models, methods, tasks; dashes tell orders apart. Where
    they differ in nothing else, the orders get the colours. `orders`: what those are called."""
    curves = [curve for _, own in panels for curve in own]
    ranked = [curve for curve in curves if not by_chance(curve)] or curves
    groups = [[curve for curve in own if curve in ranked] for _, own in panels]
    parts = [part for part in ("title", "method") if any(len(grouped(own, part)) > 1 for own in groups)]
    parts = ["model"] * (len(grouped(ranked, "model")) > 1) + parts
    names = [" · ".join(getattr(curve, part) for part in parts) for curve in ranked]
    colours = dict(zip(dict.fromkeys(names), cycle(MODEL_COLOURS), strict=False))
    looks, named = Looks(), set[str]()
    solid = ranked[0].order
    for curve in curves:
        words, dashes = orders[curve], ORDERS[curve.order][1]
        own = [part for part in parts if part != "method" or not by_chance(curve)]
        name = " · ".join(getattr(curve, part) for part in own)
        if len(colours) == 1:
            colour = CHANCE_COLOUR if by_chance(curve) else ORDER_COLOURS.get(curve.order, MODEL_COLOURS[0])
            label = words
        elif by_chance(curve) and name not in colours:  # one line by chance for several methods
            colour, label = CHANCE_COLOUR, " · ".join(filter(None, [name, words]))
        else:
            colour, label = colours[name], "_" if name in named else name
            named.add(name)
        looks[curve] = {"label": label, "color": colour, "linestyle": "-" if curve.order == solid else dashes}
    return looks


def order_lines(looks: Looks, orders: Mapping[Curve, str]) -> dict[str, Line2D]:
    """Entries for the dashes, where colours stand for something else than orders."""
    told = {look["label"] for look in looks.values()}
    if len({curve.order for curve in looks}) == 1:
        return {}
    found = {orders[curve]: looks[curve]["linestyle"] for curve in sorted(looks, key=_place)}
    return grey_lines((words, dashes) for words, dashes in found.items() if words not in told)


def _place(curve: Curve) -> int:
    """Of its order, among all."""
    return list(ORDERS).index(curve.order)


def grey_lines(found: Iterable[tuple[str, Dashes]]) -> dict[str, Line2D]:
    """Entries of a legend, from words and dashes."""
    return {words: Line2D([], [], color="#555555", linestyle=dashes, linewidth=1.2) for words, dashes in found}
