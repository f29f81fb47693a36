"""A study of masked heads in the terminal."""

from collections.abc import Sequence

from ...view.tables import number, print_table, say
from ..runner import StudyResult
from ..table import print_end, print_warnings
from .outputs import MaskedEntry, MaskedSummary, ProbeEntry


def show(result: StudyResult[MaskedSummary]) -> None:
    """How good the model and the probes are, what masking does at every k, and what pushes gain."""
    summary, cells = result.summary, result.summary["cells"]
    say()
    print_warnings(result)
    if result.summary["warnings"]:
        say()
    for probe in summary["probes"]:
        _print_probe(probe)
    say(f"Accuracy ({cells[0]['metric']}) of the whole model on test questions, by function:")
    baseline = summary["baseline"]
    functions = list(dict.fromkeys(function for by in baseline.values() for function in by))
    right = [(f, *(number(by.get(f), ".2f") for by in baseline.values())) for f in functions]
    print_table(("function", *baseline), right)
    _print_masks(cells, summary["similarity"])
    _print_pushes(cells)
    for note in summary["notes"]:
        say(f"Note: {note}")
    print_end(result)


def _print_probe(probe: ProbeEntry) -> None:
    joint = sum(value or 0.0 for value in probe["joint_accuracy"]) / len(probe["joint_accuracy"])
    mean, best = probe["head_accuracy_mean"], probe["head_accuracy_best"]
    say(
        f"{probe['model']}: the joint probe names the function of {joint:.0%} of unseen questions, a probe of one head"
        f" {mean:.0%} ({best:.0%} at best), guessing {probe['chance']:.0%}; with shuffled labels they are"
        f" {probe['joint_control']:+.1%} and {probe['head_control']:+.1%} from guessing."
    )


def _print_masks(cells: Sequence[MaskedEntry], second: str) -> None:
    first = cells[0]
    say(f"Masked by {first['method']}, {first['fill']}; {first['metric']}" + (f" / {second}" if second else "") + ":")
    header = ("function", "model")[: min(len({cell["model"] for cell in cells}), 2)]
    same = all(cell["ks"] == first["ks"] for cell in cells)
    table, told = [], []
    for cell in cells:
        name = [cell["function"], cell["model"]][: len(header)]
        told.append((*name, *cell["words"].values()))
        for order, by_metric in cell["curves"].items():
            shown = [by_metric[metric] for metric in (cell["metric"], second) if metric]
            points = [" / ".join(number(value, ".2f") for value in values) for values in zip(*shown, strict=True)]
            if not same:
                points = [f"k = {k}: {point}" for k, point in zip(cell["ks"], points, strict=True)]
            table.append((*name, order, *points))
    print_table((*header, "heads", *(f"k = {k}" if same else "" for k in first["ks"])), table)
    say(f"Top heads at the largest k against {first['draws']} draws of as many others:")
    print_table((*header, *first["words"]), told)


def _print_pushes(cells: Sequence[MaskedEntry]) -> None:
    """What adding the direction of right answers gains on test questions."""
    rows = []
    for cell in cells:
        push = cell["steering"]
        if "gain" in push:
            gain = f"{push['gain']:+.2f} ({push['low']:+.2f} to {push['high']:+.2f})"
            control = f"{push['control_gain']:+.2f} (alpha {push['control_alpha']:g})"
            unpushed = number(push["unpushed"], ".2f")
            rows.append((cell["function"], str(push["heads"]), f"{push['alpha']:g}", unpushed, gain, control))
    if rows:
        print("Heads pushed toward right answers; alpha chosen on validation, gain in accuracy on test:")
        print_table(("function", "heads", "alpha", "unpushed", "gain", "random directions"), rows)
