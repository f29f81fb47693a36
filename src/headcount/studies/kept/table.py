"""A study of what is kept in the terminal."""

from collections.abc import Sequence

from ...core.words import in_words
from ...edit import Fill
from ...view.tables import number, print_table
from ..runner import StudyResult
from ..table import print_end
from .outputs import KeptEntry, KeptSummary


def show(result: StudyResult[KeptSummary]) -> None:
    """One table: a row a curve, with what is the same in all rows said above it."""
    entries = result.summary["curves"]
    models = dict.fromkeys(f"{entry['model']} ({entry['total']} {in_words(entry['units'])})" for entry in entries)
    methods = dict.fromkeys(entry["method"] for entry in entries if entry["order"] != "chance")
    unit, repeats = in_words(entries[0]["units"]), max(entry["repeats"] for entry in entries)
    print(f"\n{', '.join(models)}" + (f"; scored by {', '.join(methods)}." if methods else "."))
    print(_question(entries[0], repeats))
    fills = list(dict.fromkeys(entry["fill"] for entry in entries))
    named = ("task", *["model"] * (len(models) > 1), "order", *["fill"] * (len(fills) > 1))
    rows = [(*(str(dict(entry)[name]) for name in named), *_numbers(entry, repeats > 1)) for entry in entries]
    spans = ("range",) * (repeats > 1)
    print_table((*named, "needed", "interval", *spans, "reached", "stays", "confirmed", f"no {unit} to all"), rows)
    print("Confirmed: explained effect on one half of the test prompts, with as many as the other half needs.")
    if entries[0]["mode"] == "keep":
        for fill in fills:
            print(f"{fill.capitalize()} fill asks {Fill.parse(fill).asks}.")
    if unit == "edges":
        for fill in fills:
            _print_areas([e for e in entries if e["fill"] == fill], f", {fill} fill" * (len(fills) > 1))
    for entry in (entry for entry in entries if entry["mix"] is not None):
        words = f"{entry['mix']:.0%} of the first {unit} by what they help, the others by size"
        print(f"{entry['task']}, {entry['model']}, best: {words}; chosen on train.")
    for search in result.summary["searches"]:
        print(f"{search['task']}, {search['model']}: {search['words']}.")
    for control in result.summary["controls"]:
        of = f"{control['task']}, {control['model']}, {control['order']}, {control['control']}"
        low, high = (number(control[end], ".2f") for end in ("explained_low", "explained_high"))
        share = f"{number(control['explained'], '.2f')} of the effect ({low} to {high})"
        print(f"{of}: {control['k']} {unit} explain {share}; 0 is nothing.")
    for ratio in result.summary["ratios"]:
        with_fill = f", {ratio['fill']} fill" * (len(fills) > 1)
        print(f"{ratio['task']}, {ratio['order']}{with_fill}: {ratio['words']}.")
    for warning in dict.fromkeys(f"{e['task']}, {e['model']}: {e['warning']}" for e in entries if e["warning"]):
        print(f"Warning: {warning}")
    print_end(result)


def _question(entry: KeptEntry, repeats: int) -> str:
    """What is counted, and what its interval holds."""
    share, masked = entry["threshold"], entry["mode"] == "mask"
    verb, end = ("masked", 0) if masked else ("kept", 1)
    enough = f"at most {1 - share:.2g}" if masked else f"at least {share:.2g}"
    over = (
        "test prompts" if repeats == 1 else f"prompts, names and rankings ({repeats} repeats: needed is their median)"
    )
    return (
        f"{in_words(entry['units']).capitalize()} to be {verb} until explained effect is within {1 - share:.2g} of"
        f" {end} (needed), or {enough} (reached); {entry['interval']:.0%} intervals over {over}:"
    )


def _numbers(entry: KeptEntry, with_range: bool) -> tuple[str, ...]:
    """The row of a curve, but for its names."""
    low, high = (entry["total"] if end is None else end for end in (entry["needed_low"], entry["needed_high"]))
    found = ("never", "") if entry["needed_median"] is None else (str(entry["needed_median"]), f"{low} to {high}")
    span = (" to ".join(map(str, dict.fromkeys(entry["needed_range"]))),) * with_range
    reached, stays = ("never" if k is None else str(k) for k in (entry["reached"], entry["stays"]))
    confirmed = ""
    if entry["confirmed"] is not None:
        ends = (number(end, ".2f") for end in (entry["confirmed_low"], entry["confirmed_high"]))
        confirmed = f"{entry['confirmed']:.2f} ({' to '.join(ends)}) with {entry['confirmed_units']}"
    none, whole = (number(m, ".2f") for m in (entry["metric_none"], entry["metric_all"]))
    return *found, *span, reached, stays, confirmed, f"{entry['metric']} {none} to {whole}"


def _print_areas(entries: Sequence[KeptEntry], of_fill: str) -> None:
    """MIB's areas, which it takes of two orders."""
    found = []
    for entry in (entry for entry in entries if entry["areas"]):
        areas = (entry["areas"].get(kind) for kind in ("CPR", "CMD"))
        found.append((entry["task"], entry["model"], entry["order"], *(number(area, ".2f") for area in areas)))
    print(f"MIB's areas{of_fill}: CPR (higher is better; MIB's order is signed), CMD (0 is best; MIB's is absolute):")
    print_table(("task", "model", "order", "CPR", "CMD"), found)
