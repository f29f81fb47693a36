"""Every table of a result as Parquet, laid out as a dataset of the hub, and a section for the card of the model.

data/heads.parquet    one row per head: model, task, method, layer, head, score, standard_error
data/edges.parquet    one row per edge
data/roles.parquet    one row per seed and head
data/curves.parquet   one row per metric and k
README.md             the dataset's card, with a configuration for each table
model-card.md         which heads carry what, to be put into the card of the model
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import HeadcountError
from ..core.export_options import DatasetOptions
from ..core.files import write_file
from ..core.plain import plain
from ..core.provenance import versions
from ..core.saving import Row
from ..core.words import SCORE_ORDERS
from ..rank.roles import HeadRoles
from ..rank.scores import EdgeScores, HeadScores
from ..sweeps import Curve

Result = HeadScores | EdgeScores | HeadRoles | Curve
TABLES: Mapping[str, type[Result]] = {"heads": HeadScores, "edges": EdgeScores, "roles": HeadRoles, "curves": Curve}
WHAT = {"heads": "one score per head", "edges": "one score per edge", "roles": "one row per seed and head"}
WHAT["curves"] = "one row per metric and number of units"


@dataclass(frozen=True)
class Results:
    """What a folder holds."""

    name: str
    results: tuple[Result, ...]


def dataset(found: Results, options: DatasetOptions, folder: Path) -> None:
    """Fill a folder that `datasets.load_dataset` reads, by the name of a table."""
    tables = {
        name: [row for each in found.results if isinstance(each, kind) for row in each.rows()]
        for name, kind in TABLES.items()
    }
    written = {name: rows for name, rows in tables.items() if rows}
    for name, rows in written.items():
        place = folder / "data" / f"{name}.parquet"
        place.parent.mkdir(exist_ok=True)
        write_file(place, parquet(rows))
    write_file(folder / "README.md", _dataset_card(found.name, written))
    write_file(folder / "model-card.md", model_card(found.results, options.top))


def parquet(rows: Sequence[Row]) -> bytes:
    """A table as the bytes of a Parquet file, with the versions that it comes from."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise HeadcountError("Parquet needs pyarrow: pip install 'headcount[datasets]'") from error
    table = pyarrow.Table.from_pylist(list(rows))
    facts = {"headcount": json.dumps(versions())}
    out = io.BytesIO()
    pyarrow.parquet.write_table(table.replace_schema_metadata(facts), out)
    return out.getvalue()


def _dataset_card(name: str, tables: Mapping[str, Sequence[Row]]) -> str:
    lines = ["---", "tags: [headcount, interpretability, attention-heads]", "configs:"]
    for table in tables:
        lines += [f"- config_name: {table}", f"  data_files: data/{table}.parquet"]
    lines += ["---", "", f"# {_text(name)}: what attention heads carry", ""]
    lines += ["Written by headcount, version " + versions()["headcount"] + ".", ""]
    lines += [f"- `{table}`: {WHAT[table]}, {len(rows):,} rows" for table, rows in tables.items()]
    return "\n".join([*lines, ""])


def model_card(results: Sequence[Result], top: int = 10) -> str:
    """Markdown: for every score the first heads, for every role its heads, for every curve the units needed."""
    lines = ["## Attention heads", ""]
    for scores in (each for each in results if isinstance(each, HeadScores)):
        lines += [f"### {_text(scores.task)} ({_text(scores.method)})", ""]
        lines += [f"A positive score: keeping the head raises {_text(scores.metric)}.", ""]
        lines += ["| head | score |", "|---|---|"]
        lines += [f"| a{layer}.h{head} | {scores.values[layer, head]:+.4g} |" for layer, head in scores.order()[:top]]
        lines.append("")
    for roles in (each for each in results if isinstance(each, HeadRoles)):
        lines += [f"### {_text(roles.task)}: roles of heads", ""]
        shares = roles.shares()
        lines += [f"- {role}: {share['mean']:.0%} of the heads" for role, share in shares.items()] + [""]
    needed = [_needed(each) for each in results if isinstance(each, Curve)]
    if any(needed):
        lines += ["### How many are needed", "", *(f"- {words}" for words in needed if words), ""]
    return "\n".join(lines)


def _needed(curve: Curve) -> str:
    """A sentence, of curves that have an answer."""
    if curve.kind != "explained" or curve.order not in SCORE_ORDERS:
        return ""
    return f"{_text(curve.task)}, {_text(curve.method)} ({curve.order}, fill {curve.fill}): {curve.units_needed(0.9)}"


def _text(words: str) -> str:
    """A name that Markdown takes for text."""
    return plain(words).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
