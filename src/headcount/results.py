"""How results are kept: arrays as safetensors, facts as JSON, tables as CSV. Nothing that runs code when it is read."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialise_arrays

from .cache import writable_folder, write_file
from .errors import HeadcountError

Arrays = dict[str, NDArray[np.float64]]


def save_result(folder: str | Path, name: str, arrays: Arrays, facts: dict[str, Any]) -> Path:
    """Write `name.safetensors`, then `name.json`; the JSON appears last, so its presence says that both are whole."""
    folder = writable_folder(Path(folder))
    write_file(
        folder / f"{name}.safetensors", serialise_arrays({k: np.ascontiguousarray(v) for k, v in arrays.items()})
    )
    write_file(folder / f"{name}.json", json.dumps(facts, indent=1, sort_keys=True) + "\n")
    return folder


def load_result(folder: str | Path, name: str) -> tuple[Arrays, dict[str, Any]]:
    folder = Path(folder)
    try:
        facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        return parse_arrays((folder / f"{name}.safetensors").read_bytes()), facts
    except (OSError, ValueError, SafetensorError) as error:
        raise HeadcountError(
            f"The folder {folder} holds no whole {name}.json and {name}.safetensors: {error}"
        ) from error


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """A table with the keys of its first row as header; numbers to 6 digits, enough to plot and stable to compare."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:  # adding 0.0 turns -0.0 into 0
        writer.writerow({key: f"{v + 0.0:.6g}" if isinstance(v, float) else v for key, v in row.items()})
    return out.getvalue()


def frame(rows: Sequence[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise HeadcountError("A frame needs pandas: pip install 'headcount[frames]'") from error
    return pandas.DataFrame(list(rows))
