"""A study of what is kept in the terminal."""

from collections.abc import Sequence

from ...core.words import in_words
from ...view.tables import number, print_table
from ..runner import StudyResult
from ..table import print_end
from .outputs import KeptEntry, KeptSummary


def show(result: StudyResult[KeptSummary]) -> None:
    """One table: a row a curve, with what is the same in all rows said above it."""
    entries = result.summary["curves"]
    models = dict.fromkeys(f"{entry['model']} ({entry['total']} {in_words(entry['units'])})" for entry in entries)
    methods = dict.fromkeys(entry["method"] for entry in entries if entry["order"] != "chance")
    share, masked, unit = entries[0]["threshold"], entries[0]["mode"] == "mask", in_words(entries[0]["units"])
    print(f"\n{', '.join(models)}" + (f"; scored by {', '.join(methods)}." if methods else "."))
    verb = "to be masked until" if masked else "to be kept for"
    print(f"{unit.capitalize()} {verb} {share:.0%} of the effect{' is gone' * masked}, with a 90% interval:")
    named = ("task", "model", "order") if len(models) > 1 else ("task", "order")
    rows = []
    for entry in entries:
        low, high = (entry["total"] if end is None else end for end in (entry["needed_low"], entry["needed_high"]))
        needed = ("never", "") if entry["needed"] is None else (str(entry["needed"]), f"{low} to {high}")
        none, whole = (number(m, ".2f") for m in (entry["metric_none"], entry["metric_all"]))
        rows.append((*(str(dict(entry)[name]) for name in named), *needed, f"{entry['metric']} {none} to {whole}"))
    print_table((*named, "needed", "interval", f"no {unit} to all"), rows)
    if unit == "edges":
        _print_areas(entries)
    for entry in (entry for entry in entries if entry["mix"] is not None):
        words = f"{entry['mix']:.0%} of the first {unit} by what they help, the others by size"
        print(f"{entry['task']}, {entry['model']}, best: {words}; chosen on train.")
    for ratio in result.summary["ratios"]:
        print(f"{ratio['task']}, {ratio['order']}: {ratio['words']}.")
    for warning in dict.fromkeys(f"{e['task']}, {e['model']}: {e['warning']}" for e in entries if e["warning"]):
        print(f"Warning: {warning}")
    print_end(result)


def _print_areas(entries: Sequence[KeptEntry]) -> None:
    """MIB's areas, each from the order that it is meant for."""
    wanted = {"CPR": "signed", "CMD": "absolute"}
    found = []
    for task, model in dict.fromkeys((entry["task"], entry["model"]) for entry in entries):
        by_order = {e["order"]: e["areas"] for e in reversed(entries) if (e["task"], e["model"]) == (task, model)}
        areas = [by_order.get(order, {}).get(kind) for kind, order in wanted.items()]
        found.append((task, model, *("" if area is None else f"{area:.2f}" for area in areas)))
    print("MIB's areas: CPR of the signed order (higher is better), CMD of the absolute order (0 is best):")
    print_table(("task", "model", *wanted), found)
