"""What all figures share: how they look, and how they are saved."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

STYLE: Any = {
    "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False, "pdf.fonttype": 42,
    "svg.hashsalt": "headcount", "savefig.dpi": 200, "axes.linewidth": 0.8, "legend.frameon": False,
    "font.family": "sans-serif", "text.parse_math": False,
}  # fmt: skip


def legend_columns(labels: list[str], width: float) -> int:
    """As many as fit side by side, at about 0.08 inches a letter and 0.6 for the line."""
    return max(min(int(width / (0.08 * max(map(len, labels)) + 0.6)), len(labels)), 1)


def save_figure(figure: Figure, folder: Path, name: str = "figure") -> list[Path]:
    """PNG, SVG and PDF; the same figure gives the same bytes."""
    paths = []
    for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
        path = folder / f"{name}.{ending}"
        with mpl.rc_context(STYLE):
            figure.savefig(path, metadata=metadata)
        paths.append(path)
    return paths
