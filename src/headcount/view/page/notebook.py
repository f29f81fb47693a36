"""Results in a notebook: the parts of the report that speak of them, in a frame of their own, with nothing to fetch.

Before the frame stands the result in a sentence, which is all that viewers without frames show.
"""

from dataclasses import replace
from html import escape

from ...core.errors import HeadcountError
from ...rank.circuit import Circuit
from ...rank.roles import HeadRoles
from ...rank.scores import EdgeScores, HeadScores
from ...sweeps import Curve
from .curves import curve_data
from .data import PanelData, Report
from .html import page_html
from .maps import circuit_data, map_data, order_data, roles_data

SHOWN_EDGES = 80
THRESHOLD = 0.9
HEIGHT = {"curve": 560, "map": 460, "circuit": 720, "study": 900}


def notebook_html(result: object) -> str:
    """What `_repr_html_` gives."""
    report, words, height = _small(result)
    return framed(page_html("report", report.title, report.to_json()), words, height)


def framed(page: str, words: str, height: int) -> str:
    """A page in a frame, behind a sentence."""
    look = f"width:100%;height:{height}px;border:1px solid #d5d9e0;border-radius:8px"
    allowed = "allow-scripts allow-downloads"
    told = f'title="{escape(words)}" sandbox="{allowed}" style="{look}"'
    return f'<p>{escape(words)}</p><iframe srcdoc="{escape(page)}" {told}></iframe>'


def _small(result: object) -> tuple[Report, str, int]:
    match result:
        case Curve():
            panels = [PanelData(result.title, THRESHOLD if result.kind == "explained" else None)]
            told = f"{result.model} · {result.title} · {result.order}"
            if result.kind == "explained":
                told += f": {result.units_needed(THRESHOLD)} at a threshold of {THRESHOLD}"
            curves = [curve_data(result, result.rows())]
            return Report("curve", result.title, look="small", panels=panels, curves=curves), told, HEIGHT["curve"]
        case HeadScores():
            told = f"{result.method} of {result.size} heads of {result.model} on {result.task}; {_first(result)}"
            found = Report(
                "scores", result.task, look="small", panels=[PanelData(result.task, None)], maps=[map_data(result)]
            )
            return found, told, HEIGHT["map"]
        case HeadRoles():
            shares = ", ".join(f"{role} {by['mean']:.0%}" for role, by in result.shares().items())
            told = f"Roles of the heads of {result.model} on {result.task}, {result.seeds} fits: {shares}"
            found = Report(
                "roles", result.task, look="small", panels=[PanelData(result.task, None)], roles=[roles_data(result)]
            )
            return found, told, HEIGHT["map"]
        case EdgeScores():
            told = f"{result.method} of {result.size:,} edges of {result.model} on {result.task}; {_first(result)}"
            first = order_data(result, "absolute")
            drawn = [replace(first, order="circuit", edges=first.edges[:SHOWN_EDGES])]
            return Report("edges", result.task, look="small", circuits=drawn), told, HEIGHT["circuit"]
        case Circuit():
            told = f"{len(result):,} of {result.graph.n_edges:,} edges of {result.model} on {result.task}"
            return (
                Report("circuit", result.task, look="small", circuits=[circuit_data(result)]),
                told,
                HEIGHT["circuit"],
            )
    raise HeadcountError(f"A {type(result).__name__} has no look of its own in a notebook.")


def _first(scores: HeadScores | EdgeScores) -> str:
    return f"first: {', '.join(scores.top(5))}"
