"""What the study leaves behind beside what all studies do: scores.csv, the figure, and a summary in numbers."""

from headcount.core.files import write_file
from headcount.core.saving import csv_text
from headcount.studies.outputs import SUMMARY_VERSION, rounded
from headcount.view.style import save_figure

from .figure import draw


def write(folder, study, cells):
    """Write everything into the folder and return the summary."""
    flat = [cell for row in cells for cell in row]
    write_file(folder / "scores.csv", csv_text([row for cell in flat for row in cell.scores.rows()]))
    save_figure(draw([[cell.scores for cell in row] for row in cells], study.title), folder)
    entries = [_entry(cell) for cell in flat]
    return {"version": SUMMARY_VERSION, "kind": study.kind.name, "title": study.title, "cells": entries}


def _entry(cell):
    values, curve, few = cell.scores.values, cell.curves[0], cell.panel.together
    metric = curve.band(curve.metric).value
    return {
        "task": curve.task,
        "model": curve.model,
        "metric": curve.metric,
        "whole": rounded(metric[0]),
        "first": cell.scores.top(1, by="signed")[0],
        "first_fall": rounded(values.max()),
        "harmful": int((values < 0).sum()),
        "heads": values.size,
        "together": min(few, values.size),
        "left_together": rounded(metric[curve.ks.index(min(few, values.size))]),
    }
