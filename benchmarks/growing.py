"""A page that grows from day to day: a JSON line for each run, and what is there already is not run again."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def grow(
    page: Path,
    wanted: Iterable[Sequence[Any]],
    names: Sequence[str],
    measure: Callable[..., Row],
    report: Callable[[list[Row]], str],
) -> None:
    """Measure what is wanted, one value for each of `names`, and add it to the lines beside the page, which is written
    anew after each."""
    found = page.with_name(f"{page.stem.lower()}.jsonl")
    rows: list[Row] = [json.loads(line) for line in found.read_text().splitlines()] if found.exists() else []
    known = {tuple(row[name] for name in names) for row in rows}
    for asked in wanted:
        if tuple(asked) in known:
            continue
        rows.append({**dict(zip(names, asked, strict=True)), **measure(*asked)})
        with found.open("a") as file:
            print(json.dumps(rows[-1]), file=file)
        print(rows[-1], flush=True)
        page.write_text(report(rows))
    page.write_text(report(rows))
