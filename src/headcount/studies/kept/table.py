"""A study of what is kept in the terminal."""

from collections.abc import Sequence
from typing import cast

from ...core.words import in_words
from ...view.tables import number, print_table
from ..runner import StudyResult
from ..table import print_end
from .summary import KeptEntry, KeptSummary


def show(result: StudyResult) -> None:
    """One table: a row a curve, with what is the same in all rows said above it."""
    summary = cast(KeptSummary, result.summary)
    entries = summary["curves"]
    models = dict.fromkeys(f"{entry['model']} ({entry['total']} {in_words(entry['units'])})" for entry in entries)
    methods = dict.fromkeys(entry["method"] for entry in entries if entry["order"] != "chance")
    share, masked, unit = entries[0]["threshold"], entries[0]["mode"] == "mask", in_words(entries[0]["units"])
    print(f"\n{', '.join(models)}" + (f"; scored by {', '.join(methods)}." if methods else "."))
    verb = "to be masked until" if masked else "to be kept for"
    print(f"{unit.capitalize()} {verb} {share:.0%} of the effect{' is gone' * masked}, with a 90% interval:")
    rows: list[tuple[str, ...]] = [("task", "model", "order", "needed", "interval", f"no {unit} to all")]
    for entry in entries:
        needed = "never" if entry["needed"] is None else str(entry["needed"])
        low, high = (entry["total"] if end is None else end for end in (entry["needed_low"], entry["needed_high"]))
        interval = "" if entry["needed"] is None else f"{low} to {high}"
        none, whole = (number(m, ".2f") for m in (entry["metric_none"], entry["metric_all"]))
        effect = f"{entry['metric']} {none} to {whole}"
        rows.append((entry["task"], entry["model"], entry["order"], needed, interval, effect))
    shown = [0, *([1] if len(models) > 1 else []), 2, 3, 4, 5]
    header, *body = (tuple(row[column] for column in shown) for row in rows)
    print_table(header, body)
    if unit == "edges":
        _print_areas(entries)
    for ratio in summary["ratios"]:
        print(f"{ratio['task']}, {ratio['order']}: {ratio['words']}.")
    for warning in dict.fromkeys(f"{e['task']}, {e['model']}: {e['warning']}" for e in entries if e["warning"]):
        print(f"Warning: {warning}")
    print_end(result)


def _print_areas(entries: Sequence[KeptEntry]) -> None:
    """MIB's areas, each from the order that it is meant for."""
    wanted = {"CPR": "signed", "CMD": "absolute"}
    models = dict.fromkeys((entry["task"], entry["model"]) for entry in entries)
    found = []
    for task, model in models:
        own = [entry for entry in entries if (entry["task"], entry["model"]) == (task, model)]
        areas = [[e["areas"].get(kind) for e in own if e["order"] == order] for kind, order in wanted.items()]
        found.append((task, model, *("" if not area or area[0] is None else f"{area[0]:.2f}" for area in areas)))
    print("MIB's areas: CPR of the signed order (higher is better), CMD of the absolute order (0 is best):")
    print_table(("task", "model", "CPR", "CMD"), found)
