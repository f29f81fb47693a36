"""What a study of masked heads leaves behind: answers, scores of heads, figures, and what the curves say in words."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from ...core.files import write_file
from ...core.provenance import Facts
from ...core.saving import Row, csv_text
from ...edit import head_name
from ...meters.text_metrics import accepted
from ...rank.probes.probe import PROBES, Probe, elbow
from ...sweeps import Curve
from ...sweeps.guessing import words_of_guessing
from ...sweeps.masking import masked_ks
from ...sweeps.steering import Steering
from ...view.style import grouped, save_figure
from ..kind import Summary
from ..outputs import all_rounded, facts_of, file_names, rounded, summary_of
from ..study import Study
from .figure import draw_functions, draw_masked, draw_steering, shown_similarity
from .steps import MaskedCell

FEW_QUESTIONS = 10

Number = float | None  # none where JSON has no number for it


class PushEntry(TypedDict, total=False):
    """What pushes gain, or why there are none."""

    reason: str
    heads: int
    alpha: float
    unpushed: Number
    gain: Number
    low: Number
    high: Number
    control_alpha: float
    control_gain: Number
    alphas: list[float]
    test: list[Number]
    validation: list[Number]


class MaskedEntry(TypedDict):
    """One function and model."""

    function: str
    model: str
    heads: int
    method: str
    metric: str
    similarity: str
    test_questions: int
    fill: str
    ks: list[int]
    draws: int
    unmasked: dict[str, Number]
    curves: dict[str, dict[str, list[Number]]]  # order -> metric -> value at each k
    words: dict[str, str]
    elbow: int
    top_heads: list[str]
    seed_agreement: Number
    steering: PushEntry
    skipped: dict[str, int]
    empty_answers: dict[str, int]
    missing: dict[str, str]


class ProbeEntry(TypedDict):
    model: str
    questions: str
    choose: str
    chance: Number
    joint_accuracy: list[Number]
    joint_control: Number  # accuracy beyond chance with shuffled labels
    head_control: Number
    controls_by_chance: list[Number]  # how often chance alone is as far from 0, of the two
    head_accuracy_mean: Number
    head_accuracy_best: Number
    seed_agreement: dict[str, Number]
    skipped: dict[str, int]


class MaskedSummary(Summary):
    similarity: str  # the metric beside accuracy in the figure; empty where there is none
    cells: list[MaskedEntry]
    probes: list[ProbeEntry]
    baseline: dict[str, dict[str, Number]]
    notes: list[str]


def write(folder: Path, study: Study, cells: Sequence[Sequence[MaskedCell]]) -> MaskedSummary:
    """Write everything into the folder and return the summary."""
    flat = list(chain.from_iterable(cells))
    probes = {cell.model: cell.probe for cell in flat}
    for cell, file in zip(flat, file_names([(cell.function, cell.model) for cell in flat]), strict=True):
        cell.scores.save(folder / "scores" / file)
    for (name, probe), file in zip(probes.items(), file_names([(name,) for name in probes]), strict=True):
        probe.save(folder / "probes" / file)
        top = max(masked_ks(probe.by_head[0].size))
        method = flat[0].scores.method if flat[0].scores.method in PROBES else "probe"
        maps = np.stack([probe.scores(function, method).values for function in probe.functions])
        words = f"{name}: heads by function ({method})"
        figure = draw_functions(maps, probe.functions, probe.overlap(top, method), top, words)
        save_figure(figure, folder, "heads" if len(probes) == 1 else f"heads-{file}")
    write_file(folder / "heads.csv", csv_text([row for probe in probes.values() for row in _head_rows(probe)]))
    write_file(folder / "masked.csv", csv_text([row for cell in flat for row in _masked_rows(cell)]))
    write_file(folder / "answers.csv", csv_text([row for cell in flat for row in _answer_rows(cell)]))
    by_model = [[cell.curves for cell in flat if cell.model == name] for name in probes]
    save_figure(draw_masked(by_model, title=study.title, width=study.width), folder)
    _write_steering(folder, [cell.steering for cell in flat if cell.steering is not None])
    told = [
        words_of_guessing(cell.model, cell.function, cell.baseline[cell.function], len(cell.asked), 0.0)
        for cell in flat
    ]
    return summary_of(
        MaskedSummary,
        study,
        warnings=list(filter(None, told)),
        similarity=shown_similarity([curve for cell in flat for curve in cell.curves]),
        cells=[_entry(cell) for cell in flat],
        probes=[_probe(probe) for probe in probes.values()],
        baseline={cell.model: all_rounded(cell.baseline) for cell in flat},
        notes=_notes(flat, probes.values()),
    )


def _write_steering(folder: Path, found: Sequence[Steering]) -> None:
    for entry, file in zip(found, file_names([(entry.function, entry.model) for entry in found]), strict=True):
        entry.save(folder / "steering" / file)
    models = grouped(found, "model")
    for (name, own), file in zip(models.items(), file_names([(name,) for name in models]), strict=True):
        figure = draw_steering(own, f"{name}: heads pushed toward right answers")
        save_figure(figure, folder, f"steering-{file}" if len(models) > 1 else "steering")


def _entry(cell: MaskedCell) -> Facts:
    first, curves = cell.curves[0], cell.curves
    return {
        **facts_of(cell, "function", "model"),
        "heads": first.total,
        "method": cell.scores.method,
        "metric": first.metric,
        "similarity": shown_similarity(curves),
        "test_questions": first.pairs,
        "fill": first.fill,
        "ks": list(first.ks),
        "draws": max(curve.draws for curve in curves),
        "unmasked": all_rounded(first.whole),
        "curves": {curve.order: {m: list(map(rounded, curve.band(m).value)) for m in curve.values} for curve in curves},
        "words": words_of(curves, first.metric),
        "elbow": elbow(cell.scores),
        "top_heads": list(cell.scores.top(10)),
        "seed_agreement": rounded(cell.probe.seed_agreement(cell.function)),
        "steering": _pushes(cell),
        "skipped": cell.skipped,
        "empty_answers": cell.empty,
        "missing": cell.missing,
    }


def words_of(curves: Sequence[Curve], metric: str) -> dict[str, str]:
    """At the largest k, where the top heads lie among the draws of each control."""
    by_order = {curve.order: curve.values[metric].mean(2)[:, -1] for curve in curves}
    top, k = float(by_order.pop("absolute")[0]), curves[0].ks[-1]
    words = {}
    for order, draws in by_order.items():
        above = int((draws > top).sum())
        place = f"below {above} of {len(draws)} draws"
        if above == len(draws):
            place = "below every draw"
        elif (draws < top).all():
            place = "above every draw"
        words[order] = f"k = {k}: {top:.2f}, {place} ({draws.min():.2f} to {draws.max():.2f})"
    return words


def _pushes(cell: MaskedCell) -> Facts:
    """What they gain, or why there are none."""
    found = cell.steering
    if found is None:
        return {"reason": cell.no_steering}
    unpushed = found.test[0].mean()
    return {
        "heads": found.heads,
        "alpha": found.alphas[found.chosen],
        "unpushed": rounded(unpushed),
        **all_rounded(dict(zip(("gain", "low", "high"), found.gain(), strict=True))),
        "control_alpha": found.provenance["control_alpha"],
        "control_gain": rounded(float(found.control.mean() - unpushed)),
        "alphas": list(found.alphas),
        "test": list(map(rounded, found.test.mean(1))),
        "validation": list(map(rounded, found.validation.mean(1))),
    }


def _probe(probe: Probe) -> Facts:
    joint, head = probe.controls().values()
    return {
        **facts_of(probe, "model", "questions", "choose"),
        "chance": rounded(probe.chance),
        "joint_accuracy": list(map(rounded, probe.joint_accuracy)),
        "joint_control": rounded(joint.excess),
        "head_control": rounded(head.excess),
        "controls_by_chance": [rounded(joint.by_chance), rounded(head.by_chance)],
        "head_accuracy_mean": rounded(probe.head_accuracy.mean()),
        "head_accuracy_best": rounded(probe.head_accuracy.max()),
        "seed_agreement": {f: rounded(probe.seed_agreement(f)) for f in probe.functions},
        "skipped": probe.skipped,
    }


def _notes(cells: Sequence[MaskedCell], probes: Iterable[Probe]) -> list[str]:
    """What a reader has to know, once each."""
    notes = [sentence for probe in probes for sentence in probe.control_words()]
    notes += [f"{name} is missing: {reason}" for cell in cells for name, reason in cell.missing.items()]
    for cell in cells:
        if cell.skipped:
            listed = ", ".join(f"{reason} ({count})" for reason, count in cell.skipped.items())
            notes.append(f"Questions that were skipped: {listed}.")
        if len(cell.asked) < FEW_QUESTIONS:
            notes.append(f"{cell.function}: only {len(cell.asked)} test questions; read its curves with care.")
        if said := {order: count for order, count in cell.empty.items() if count}:
            listed = ", ".join(f"{count} ({order})" for order, count in said.items())
            notes.append(f"{cell.function}: answers without a word, which count as wrong: {listed}.")
        if cell.no_steering and cell.no_steering != "not asked for":
            notes.append(f"{cell.function}: no pushes. {cell.no_steering}")
    return list(dict.fromkeys(notes))


def _head_rows(probe: Probe) -> Iterator[Row]:
    for function in probe.functions:
        for method in PROBES:
            facts: Row = {"model": probe.model, "function": function, "method": method}
            for row in probe.scores(function, method).rows():
                yield {**facts, **{key: row[key] for key in ("layer", "head", "score")}}


def _masked_rows(cell: MaskedCell) -> Iterator[Row]:
    """Which heads were masked, one row per kind of mask, draw and k."""
    facts: Row = {"model": cell.model, "function": cell.function}
    heads = cell.scores.values.shape[1]
    for order, masked in cell.masked.items():
        for draw, by_k in enumerate(masked.heads):
            for k, places in zip(masked.ks, by_k, strict=True):
                names = " ".join(head_name(divmod(place, heads)) for place in places)
                yield {**facts, "order": order, "draw": draw, "k": k, "heads": names}


def _answer_rows(cell: MaskedCell) -> Iterator[Row]:
    """Every answer, and whether it is accepted."""
    said = [("unmasked", 0, 0, cell.whole)]
    for order, masked in cell.masked.items():
        for draw, by_k in enumerate(masked.texts):
            said += [(order, k, draw, texts) for k, texts in zip(masked.ks, by_k, strict=True)]
    for order, k, draw, texts in said:
        facts: Row = {"model": cell.model, "function": cell.function, "order": order, "k": k, "draw": draw}
        right = accepted(texts, texts, cell.asked)
        for question, text, was_right in zip(cell.asked, texts, right, strict=True):
            asked: Row = {"template": question.template, "question": question.text, "right_answer": question.answer}
            yield {**facts, **asked, "answer": text, "accepted": int(was_right)}
