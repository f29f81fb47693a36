"""What a study of masked heads leaves behind: answers, scores of heads, figures, and what the curves say in words."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..cache import write_file
from ..curves import Curve
from ..cuts import head_name
from ..figures import draw_functions, draw_masked, draw_steering, save_figure, shown_similarity
from ..masking import masked_ks
from ..probing.probe import METHODS, Probe, elbow
from ..results import csv_text
from ..steering import Steering
from ..text_metrics import accepted
from .jobs import PanelResult
from .masked import MaskedCell
from .outputs import file_name, rounded, write_common
from .spec import Study

FEW_QUESTIONS = 10


def write_masked(folder: Path, study: Study, panels: Sequence[Sequence[PanelResult]]) -> dict[str, Any]:
    """Write everything into the folder and return the summary."""
    results = list(chain.from_iterable(panels))
    cells: list[MaskedCell] = [result.scores for result in results]
    curves = [curve for result in results for curve in result.curves]
    probes = {cell.model: cell.probe for cell in cells}
    summary = {
        "title": study.title, "similarity": shown_similarity(curves),
        "cells": [_cell(result.scores, result.curves) for result in results],
        "probes": [_probe(probe) for probe in probes.values()],
        "baseline": {cell.model: {f: rounded(v) for f, v in cell.baseline.items()} for cell in cells},
        "notes": _notes(cells, probes.values()),
    }  # fmt: skip
    for cell in cells:
        cell.scores.save(folder / "scores" / file_name(f"{cell.function}-{cell.model}"))
    for name, probe in probes.items():
        probe.save(folder / "probes" / file_name(name))
        top = max(masked_ks(probe.by_head[0].size))
        method = cells[0].scores.method if cells[0].scores.method in METHODS else "probe"
        maps = np.stack([probe.scores(function, method).values for function in probe.functions])
        words = f"{name}: heads by function ({method})"
        figure = draw_functions(maps, probe.functions, probe.overlap(top, method), top, words)
        save_figure(figure, folder, "heads" if len(probes) == 1 else file_name(f"heads-{name}"))
    write_file(folder / "heads.csv", csv_text([row for probe in probes.values() for row in _head_rows(probe)]))
    write_file(folder / "masked.csv", csv_text([row for cell in cells for row in _masked_rows(cell)]))
    write_file(folder / "answers.csv", csv_text([row for cell in cells for row in _answer_rows(cell)]))
    write_common(folder, study, curves, [cell.scores.provenance for cell in cells], summary)
    by_model = [[result.curves for result in results if result.scores.model == name] for name in probes]
    save_figure(draw_masked(by_model, title=study.title), folder)
    _write_steering(folder, [cell.steering for cell in cells if cell.steering is not None])
    return summary


def _write_steering(folder: Path, found: Sequence[Steering]) -> None:
    for entry in found:
        entry.save(folder / "steering" / file_name(f"{entry.function}-{entry.model}"))
    for name in dict.fromkeys(entry.model for entry in found):
        own = [entry for entry in found if entry.model == name]
        many = len({entry.model for entry in found}) > 1
        figure = draw_steering(own, f"{name}: heads pushed toward right answers")
        save_figure(figure, folder, file_name(f"steering-{name}") if many else "steering")


def _cell(cell: MaskedCell, curves: Sequence[Curve]) -> dict[str, Any]:
    first, similarity = curves[0], shown_similarity(curves)
    return {
        "function": cell.function, "model": cell.model, "heads": first.total, "method": cell.scores.method,
        "metric": first.metric, "similarity": similarity, "test_questions": first.pairs, "fill": first.fill,
        "ks": list(first.ks), "draws": max(curve.draws for curve in curves),
        "unmasked": {name: rounded(value) for name, value in first.whole.items()},
        "curves": {
            curve.order: {m: [rounded(v) for v in curve.band(m).value] for m in curve.values} for curve in curves
        },
        "words": words_of(curves, first.metric), "elbow": elbow(cell.scores),
        "top_heads": list(cell.scores.top(10)), "seed_agreement": rounded(cell.probe.seed_agreement(cell.function)),
        "steering": _steering(cell), "skipped": cell.skipped, "empty_answers": cell.empty, "missing": cell.missing,
    }  # fmt: skip


def words_of(curves: Sequence[Curve], metric: str) -> dict[str, str]:
    """At the largest k, where the top heads lie among the draws of each control."""
    by_order = {curve.order: curve.values[metric].mean(2)[:, -1] for curve in curves}
    top, k = float(by_order["top"][0]), curves[0].ks[-1]
    words = {}
    for order, draws in by_order.items():
        if order == "top":
            continue
        above = int((draws > top).sum())
        place = (
            "below every draw" if above == len(draws) else "above every draw" if (draws < top).all()
            else f"below {above} of {len(draws)} draws"
        )  # fmt: skip
        words[order] = f"k = {k}: {top:.2f}, {place} ({draws.min():.2f} to {draws.max():.2f})"
    return words


def _steering(cell: MaskedCell) -> dict[str, Any]:
    found = cell.steering
    if found is None:
        return {"reason": cell.no_steering}
    gain, low, high = found.gain()
    return {
        "heads": found.heads, "alpha": found.alphas[found.chosen], "unpushed": rounded(found.test[0].mean()),
        "gain": rounded(gain), "low": rounded(low), "high": rounded(high),
        "control_alpha": found.provenance["control_alpha"],
        "control_gain": rounded(float(found.control.mean() - found.test[0].mean())),
        "alphas": list(found.alphas),
        "test": [rounded(v) for v in found.test.mean(1)], "validation": [rounded(v) for v in found.validation.mean(1)],
    }  # fmt: skip


def _probe(probe: Probe) -> dict[str, Any]:
    return {
        "model": probe.model, "questions": probe.questions, "choose": probe.choose, "chance": rounded(probe.chance),
        "joint_accuracy": [rounded(v) for v in probe.joint_accuracy],
        "joint_control": rounded(probe.joint_control.mean()), "head_control": rounded(probe.head_control.mean()),
        "head_accuracy_mean": rounded(probe.head_accuracy.mean()),
        "head_accuracy_best": rounded(probe.head_accuracy.max()),
        "seed_agreement": {f: rounded(probe.seed_agreement(f)) for f in probe.functions},
        "skipped": probe.skipped,
    }  # fmt: skip


def _notes(cells: Sequence[MaskedCell], probes: Any) -> list[str]:
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


def _head_rows(probe: Probe) -> list[dict[str, Any]]:
    return [
        {
            "model": probe.model,
            "function": function,
            "method": method,
            **{k: row[k] for k in ("layer", "head", "score")},
        }
        for function in probe.functions
        for method in METHODS
        for row in probe.scores(function, method).rows()
    ]  # fmt: skip


def _masked_rows(cell: MaskedCell) -> list[dict[str, Any]]:
    """Which heads were masked, a row a kind of mask, draw and k."""
    heads = cell.scores.values.shape[1]
    return [
        {
            "model": cell.model, "function": cell.function, "order": order, "draw": draw, "k": k,
            "heads": " ".join(head_name(divmod(place, heads)) for place in masked.heads[draw][row]),
        }
        for order, masked in cell.masked.items()
        for draw in range(len(masked.heads))
        for row, k in enumerate(masked.ks)
    ]  # fmt: skip


def _answer_rows(cell: MaskedCell) -> list[dict[str, Any]]:
    """Every answer, and whether it is accepted."""
    rows = _rows(cell, "unmasked", 0, 0, cell.whole)
    for order, masked in cell.masked.items():
        for draw, by_k in enumerate(masked.texts):
            for k, texts in zip(masked.ks, by_k, strict=True):
                rows += _rows(cell, order, k, draw, texts)
    return rows


def _rows(cell: MaskedCell, order: str, k: int, draw: int, texts: Sequence[str]) -> list[dict[str, Any]]:
    right = accepted(texts, texts, cell.asked)
    return [
        {
            "model": cell.model, "function": cell.function, "order": order, "k": k, "draw": draw,
            "template": question.template, "question": question.text, "right_answer": question.answer, "answer": text,
            "accepted": int(was_right),
        }
        for question, text, was_right in zip(cell.asked, texts, right, strict=True)
    ]  # fmt: skip
