"""Controls of a study: steps beside the sweeps, an entry of the summary each, and a line in the figure."""

import numpy as np
import pytest

import headcount as hc
from curves_by_hand import curve_of
from headcount.studies.kept.controls import control_entries
from headcount.studies.kept.figure import draw

SMALL = {"n": 16, "points": 6, "repeats": 1, "orders": ["chance", "absolute"], "draws": 2, "method": "one-pass"}


@pytest.fixture(scope="module")
def result(shared_steps, tmp_path_factory):
    asked = {**SMALL, "controls": ["nonsense", "shuffled"], "repeats": 2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCOUNT_CACHE", str(shared_steps))
        place = tmp_path_factory.mktemp("controls")
        return hc.run("heads-kept", models=["tiny"], tasks=["ioi"], out=place, overrides=asked, quiet=True)


def test_the_summary_says_what_is_explained_of_nothing(result):
    """By hand: nonsense ranked anew, and shuffled scores, both measured with as many heads as the task needs."""
    model, scores = hc.load("tiny"), result.cells[0].scores
    real = next(curve for curve in result.curves if curve.order == "absolute")
    k, task = real.first_k(0.9), hc.task("ioi", model, n=16)
    for entry, (asked, by) in zip(
        result.summary["controls"],
        [(hc.nonsense(task), hc.score(model, hc.nonsense(task), scores.method)), (task, scores.shuffled(0))],
        strict=True,
    ):
        share = hc.control(real, hc.sweep(model, asked, by, ks=[k], threshold=0), k)
        assert (entry["k"], entry["order"]) == (k, "absolute")
        np.testing.assert_allclose(
            [entry[f"explained{end}"] for end in ("", "_low", "_high")], share, rtol=1e-4, atol=1e-5
        )
    assert [entry["control"] for entry in result.summary["controls"]] == ["nonsense", "shuffled"]


def test_it_is_measured_along_the_curve_for_the_figure(result):
    (cell,) = result.cells
    real = cell.controlled
    for curve in cell.controls.values():
        assert set(curve.ks) <= set(real.ks)
        assert {0, real.first_k(0.9), real.total} <= set(curve.ks)
    (figure_line,) = (line for line in drawn(cell).axes[0].lines if line.get_linestyle() != "-" and near(line, cell))
    assert figure_line.get_xdata().tolist() == list(cell.controls["nonsense"].ks)


def drawn(cell):
    return draw([("IOI", cell.curves)], threshold=0.9, controls={cell.controlled: cell.controls})


def near(line, cell):
    shares = [hc.control(cell.controlled, cell.controls["nonsense"], k).value for k in cell.controls["nonsense"].ks]
    return len(line.get_ydata()) == len(shares) and np.allclose(line.get_ydata(), shares)


def test_the_legend_names_controls(result):
    (legend,) = drawn(result.cells[0]).legends
    assert {"nonsense", "shuffled scores"} <= {text.get_text() for text in legend.get_texts()}


def test_where_the_task_never_has_enough_units_there_is_nothing_to_compare():
    no_effect = curve_of([[0, 1, 0]] * 4, range(3))
    assert no_effect.first_k(0.9) is None
    assert control_entries(no_effect, {"nonsense": no_effect}, 0.9) == []


def test_a_control_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(hc.HeadcountError, match="nonsense"):
        hc.run("heads-kept", models=["tiny"], tasks=["ioi"], out=tmp_path, overrides={"controls": ["nosense"]})
