"""What every study leaves behind beside its own tables: curves.csv, the resolved TOML, provenance, the summary."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..cache import write_file
from ..curves import Curve
from ..provenance import versions
from ..results import csv_text
from .spec import Study

CSV_COLUMNS = ("model", "task", "units", "method", "order", "k", "metric", "value", "low", "high")


def write_common(
    folder: Path, study: Study, curves: Sequence[Curve], origins: Sequence[dict[str, Any]], summary: dict[str, Any]
) -> None:
    """`origins`: where the scores come from."""
    rows = [row for curve in curves for row in curve.rows()]
    write_file(folder / "curves.csv", csv_text([{key: row[key] for key in CSV_COLUMNS} for row in rows]))
    write_file(folder / "study.toml", study.to_toml())
    write_file(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
    facts = {"versions": versions(), "scores": list(origins), "curves": [curve.provenance for curve in curves]}
    write_file(folder / "provenance.json", json.dumps(facts, indent=1) + "\n")


def file_name(words: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-")


def rounded(value: float | None) -> float | None:
    """Six digits; nothing where it is not a number, which JSON does not know."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
