"""A study of what is kept in the terminal."""

from collections.abc import Sequence

from ...core.words import in_words
from ...edit import Fill
from ...sweeps.needed import count_of
from ...view.tables import number, print_table, say
from ..runner import StudyResult
from ..table import print_end, print_warnings
from .outputs import KeptEntry, KeptSummary
from .tasks import words as words_of_tasks


def show(result: StudyResult[KeptSummary]) -> None:
    """One table: one row per curve, with what is the same in all rows said above it."""
    entries = result.summary["curves"]
    models = dict.fromkeys(f"{entry['model']} ({entry['total']:,} {in_words(entry['units'])})" for entry in entries)
    methods = dict.fromkeys(entry["method"] for entry in entries if entry["order"] != "chance")
    unit, repeats = in_words(entries[0]["units"]), max(entry["repeats"] for entry in entries)
    fills = list(dict.fromkeys(entry["fill"] for entry in entries))
    titles = {(entry["task"], entry["model"]): entry["title"] for entry in reversed(entries)}  # as the figure has them
    say()
    answered = _answered(entries)
    for entry in answered:
        say(_in_full(entry))
    print_warnings(result)
    say(f"\n{', '.join(models)}" + (f"; scored by {', '.join(methods)}." if methods else "."))
    say(_question(entries[0], repeats, len({entry["threshold"] for entry in entries}) == 1))
    named = ("title", *["model"] * (len(models) > 1), *["method"] * _several_methods(entries), "order")
    named += ("fill",) * (len(fills) > 1)
    rows = [(*(str(dict(entry)[name]) for name in named), *_numbers(entry, repeats > 1)) for entry in entries]
    spans = ("range",) * (repeats > 1)
    print_table(("task", *named[1:], "needed", "interval", *spans, "reached", "stays", "accuracy"), rows)
    say("Stays: the number from which every larger one is enough too. Accuracy: of the whole model.")
    if entries[0]["mode"] == "keep":
        for fill in fills:
            say(f"{fill.capitalize()} fill asks {Fill.parse(fill).asks}.")
    if unit == "edges":
        for fill in fills:
            _print_areas([e for e in entries if e["fill"] == fill], f", {fill} fill" * (len(fills) > 1))
    for entry in (entry for entry in entries if entry["mixes"]):
        say(f"{_line(entry, entries)}: {_mixed(entry['mixes'], unit)}.")
    for entry in (entry for entry in entries if entry not in answered):
        if stable := entry["stability"]:
            say(f"{_line(entry, entries)}: {stable['words']}.")
    for tasks in result.summary["tasks"]:
        for sentence in words_of_tasks(tasks):
            say(sentence)
    for search in result.summary["searches"]:
        say(f"{titles[search['task'], search['model']]}, {search['model']}: {search['words']}.")
    for control in result.summary["controls"]:
        title = titles[control["task"], control["model"]]
        of = f"{title}, {control['model']}, {control['order']}, {control['control']}"
        low, high = (number(control[end], ".2f") for end in ("explained_low", "explained_high"))
        share = f"{number(control['explained'], '.2f')} of the effect ({low} to {high})"
        say(f"{of}: {control['k']:,} {unit} explain {share}; 0 is nothing.")
    for ratio in result.summary["ratios"]:
        with_fill = f", {ratio['fill']} fill" * (len(fills) > 1)
        say(f"{titles[ratio['task'], ratio['more']]}, {ratio['order']}{with_fill}: {ratio['words']}.")
    print_end(result)


def _answered(entries: Sequence[KeptEntry]) -> list[KeptEntry]:
    """Of every panel, model, method and fill, the first of its orders: those whose answers are printed in full."""
    found = dict[tuple[str, ...], KeptEntry]()
    for entry in (entry for entry in entries if entry["words"]):
        found.setdefault((entry["title"], entry["model"], entry["method"], entry["fill"]), entry)
    return list(found.values())


def _in_full(entry: KeptEntry) -> str:
    """The answer, and how its number held on other prompts."""
    if entry["confirmed"] is None:
        return entry["words"]
    ends = " to ".join(number(entry[end], ".2f") for end in ("confirmed_low", "confirmed_high"))
    one, verb = entry["confirmed_units"] == 1, "explain" if entry["mode"] == "keep" else "leave"
    count = count_of(entry["confirmed_units"] or 0, entry["units"])
    held = f"{count} chosen on half of the prompts {verb}{'s' * one} {entry['confirmed']:.2f} of it on the other half"
    return f"{entry['words']} {held} ({ends})."


def _mixed(mixes: Sequence[float], unit: str) -> str:
    """What the order `best` is, repeat by repeat."""
    shares = list(dict.fromkeys(mixes))
    chosen = "chosen on the train prompts" + " of each repeat" * (len(mixes) > 1)
    if shares in ([0.0], [1.0]):
        return f"all {unit} by {'how much they help' if shares[0] else 'the size of their effect'}; {chosen}"
    times = [f" ({mixes.count(share)} of {len(mixes)} repeats)" * (len(shares) > 1) for share in shares]
    told = ", ".join(f"{100 * share:.0f} %{of}" for share, of in zip(shares, times, strict=True))
    return f"{told} of the first {unit} by how much they help, the others by the size of their effect; {chosen}"


def _line(entry: KeptEntry, entries: Sequence[KeptEntry]) -> str:
    """What sets a curve apart, in words."""
    method = [entry["method"]] * _several_methods(entries)
    return ", ".join([entry["title"], entry["model"], *method, entry["order"]])


def _several_methods(entries: Sequence[KeptEntry]) -> bool:
    """Whether a task was ranked by more than one, under one fill."""
    asked: dict[tuple[str, ...], set[str]] = {}
    for entry in entries:
        if not entry["order"].startswith("chance"):
            asked.setdefault((entry["task"], entry["model"], entry["fill"]), set()).add(entry["method"])
    return any(len(methods) > 1 for methods in asked.values())


def _question(entry: KeptEntry, repeats: int, one_threshold: bool) -> str:
    """What is counted, and what its interval holds."""
    masked = entry["mode"] == "mask"
    share, rest = (f"{entry['threshold']:.2g}", f"{1 - entry['threshold']:.2g}")
    if not one_threshold:
        share, rest = "the threshold", "1 - threshold"
    verb, end = ("masked", 0) if masked else ("kept", 1)
    enough = f"at most {rest}" if masked else f"at least {share}"
    over = "test prompts" if repeats == 1 else f"prompts and rankings ({repeats} repeats, pooled)"
    return (
        f"{in_words(entry['units']).capitalize()} to be {verb} until explained effect is within {rest} of"
        f" {end} (needed), or {enough} (reached); {100 * entry['interval']:.0f} % intervals over {over}:"
    )


def _numbers(entry: KeptEntry, with_range: bool) -> tuple[str, ...]:
    """The row of a curve, but for its names."""
    low, high = (entry["total"] if end is None else end for end in (entry["needed_low"], entry["needed_high"]))
    found = ("never", "") if entry["needed"] is None else (f"{entry['needed']:,}", f"{low:,} to {high:,}")
    ends = dict.fromkeys(entry["needed_range"] if entry["repeats"] > 1 else ())  # random orders have no repeats
    span = (" to ".join(f"{k:,}" for k in ends),) * with_range
    reached, stays = ("never" if k is None else f"{k:,}" for k in (entry["reached"], entry["stays"]))
    return *found, *span, reached, stays, number(entry["accuracy_all"], ".2f")


def _print_areas(entries: Sequence[KeptEntry], of_fill: str) -> None:
    """MIB's areas, which it takes of two orders."""
    found = []
    for entry in (entry for entry in entries if entry["areas"]):
        areas = (entry["areas"].get(kind) for kind in ("CPR", "CMD"))
        found.append((entry["title"], entry["model"], entry["order"], *(number(area, ".2f") for area in areas)))
    say(f"MIB's areas{of_fill}: CPR (higher is better; MIB's order is signed), CMD (0 is best; MIB's is absolute):")
    print_table(("task", "model", "order", "CPR", "CMD"), found)
