"""What a study leaves for the next step: a run that opens again, several methods in one panel, a fill that the task
allows, models in the precision that was asked for, and warnings where numbers mean little."""

import csv
import json

import numpy as np
import pytest

import headcount as hc
from headcount.studies.report import write_report
from headcount.studies.study import read_study
from headcount.sweeps.guessing import words_of_guessing

SMALL = {"n": 8, "points": 3, "draws": 2, "repeats": 1, "orders": ["absolute", "chance"]}


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """A task without counterfactuals."""
    path = tmp_path_factory.mktemp("tasks") / "targets.jsonl"
    names = ("Mary", "John", "Tom", "Anna", "Paul", "Laura", "Kate", "Mark")
    path.write_text("\n".join(json.dumps({"prompt": f"We saw {name} and", "target": f" {name}"}) for name in names))
    return str(path)


@pytest.fixture(scope="module")
def result(folder, tmp_path_factory):
    """Two methods, repeated."""
    overrides = {**SMALL, "method": ["attribution", "patching"], "repeats": 2}
    out = tmp_path_factory.mktemp("run")
    return hc.run("heads-kept", models=[folder], tasks=["ioi"], out=out, overrides=overrides, cache=False, quiet=True)


def test_a_folder_opens_as_the_run_that_made_it(result):
    run = hc.open(result.folder)
    written = json.loads((result.folder / "summary.json").read_text())
    assert {**run.summary, "sha256": written["sha256"]} == written
    assert len(run.curves) == len(result.curves)
    for mine, theirs in zip(run.curves, result.curves, strict=True):
        assert (mine.method, mine.order, mine.ks, mine.ranking) == (
            theirs.method, theirs.order, theirs.ks, theirs.ranking
        )  # fmt: skip
        assert all(np.array_equal(mine.values[name], theirs.values[name]) for name in theirs.values)
    assert [scores.method for scores in run.scores] == ["attribution", "patching"]
    assert np.array_equal(run.scores[1].values, result.scores[1].values)
    assert len(run.again) == 2
    assert run.repeats(run.curves[0]).stability(3).rankings == 2
    assert run.study.panels == result.study.panels


def test_scores_of_an_earlier_run_in_the_folder_are_not_taken_for_its_own(result, tmp_path):
    import shutil

    folder = shutil.copytree(result.folder, tmp_path / "again")
    stale = hc.HeadScores("m", "other", "patching", "logit_diff", np.zeros((1, 3, 4)), provenance={"of": "old"})
    stale.save(folder / "scores" / "other")
    assert len(hc.open(folder).scores) == 2


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(hc.HeadcountError, match="not the output folder of a finished study"):
        hc.open(tmp_path)


def test_several_methods_share_a_panel_and_one_order_by_chance(result):
    assert [(curve.method, curve.order) for curve in result.curves] == [
        ("attribution", "absolute"), ("chance", "chance"), ("patching", "absolute")
    ]  # fmt: skip
    figure = hc.plot(result.curves)
    assert len(figure.axes) == 1
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][:2] == ["attribution", "random order"]
    colours = {line.get_color() for line in figure.axes[0].get_lines() if len(line.get_xdata()) > 2}
    assert len(colours) == 3


def test_tasks_can_share_a_panel(result):
    from dataclasses import replace

    first = result.curves[0]
    figure = hc.plot([first, replace(first, task="other", title="Other")], one_panel=True)
    assert len(figure.axes) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [first.title, "Other"]


def test_a_line_that_leaves_its_panel_is_marked_with_how_far_it_goes():
    from curves_by_hand import curve_of

    curve = curve_of(None, [0, 5, 10], draws=np.array([[[0.0], [4.33], [1.0]]]))
    assert "▲ 4.3" in [text.get_text() for text in hc.plot(curve, threshold=None).axes[0].texts]


def test_the_summary_says_how_steady_the_first_heads_are(result):
    entries = result.summary["curves"]
    steady = entries[0]["stability"]
    assert 0 <= steady["jaccard"] <= 1
    assert set(steady["shares"].values()) <= {0.5, 1.0}
    assert entries[0]["which"] == list(hc.open(result.folder).repeats(result.curves[0]).ranking[: steady["k"]])
    assert steady["words"] in entries[0]["words"]
    page = json.loads((result.folder / "report.json").read_text())
    assert f"{', '.join(entries[0]['which'][:10])}" in page["sentences"][0]
    assert steady["words"] in page["sentences"][0]
    together = f"ogether these {steady['k']} explain {entries[0]['which_explained']:.2f} of it"
    assert together in entries[0]["words"]
    assert together in page["sentences"][0]
    assert entries[1]["stability"] is None, "chance has no ranking"


def test_the_table_has_the_pooled_curve_and_every_repeat(result):
    """What the figure draws is there to be drawn again, and so is what it was pooled from."""
    rows = list(csv.DictReader((result.folder / "curves.csv").read_text().splitlines()))
    run = hc.open(result.folder)
    for curve in run.curves:
        own = [row for row in rows if (row["method"], row["order"]) == (curve.method, curve.order)]
        repeats, explained = run.repeats(curve), [row for row in own if row["metric"] == "explained_effect"]
        told = {"all": repeats.pooled}
        if len(repeats.curves) > 1:
            told |= {str(number): one for number, one in enumerate(repeats.curves, start=1)}
        assert {row["repeat"] for row in own} == set(told)
        for name, one in told.items():
            drawn = [row for row in explained if row["repeat"] == name]
            assert tuple(int(row["k"]) for row in drawn) == one.ks
            for side in ("value", "low", "high"):
                wanted = getattr(one.band(), side)
                assert np.allclose([float(row[side]) for row in drawn], wanted, rtol=1e-5, atol=1e-9)
    page = json.loads((result.folder / "report.json").read_text())["curves"][0]
    assert page["ranking"] == list(run.repeats(run.curves[0]).ranking)


def test_a_page_made_again_from_the_tables_draws_the_pooled_curve(result, tmp_path):
    import shutil

    folder = shutil.copytree(result.folder, tmp_path / "again")
    (folder / "report.json").unlink()
    write_report(folder)
    again, first = (json.loads((place / "report.json").read_text()) for place in (folder, result.folder))
    assert [c["ks"] for c in again["curves"]] == [c["ks"] for c in first["curves"]]
    assert [c["bands"] for c in again["curves"]] == [c["bands"] for c in first["curves"]]
    assert [said.lower() for said in again["sentences"]] == [said.lower() for said in first["sentences"]]


def test_studies_take_the_fill_that_a_task_allows(folder, targets, own_cache, tmp_path):
    overrides = {"n": 8, "points": 3, "draws": 2, "repeats": 1, "method": "one-pass"}
    found = hc.run("heads-kept", models=[folder], tasks=[targets], out=tmp_path, overrides=overrides, quiet=True)
    assert {curve.fill for curve in found.curves} == {"zero"}
    assert (found.study.panels[0].fill, found.study.panels[0].method) == ("zero", "attribution")
    assert 'fill = "zero"' in (tmp_path / "study.toml").read_text()
    pairs = read_study("heads-kept", tasks=["ioi"], overrides={**SMALL, "method": "one-pass"}).panels[0]
    assert (pairs.fill, pairs.method) == ("", "one-pass"), "decided when the task is known"


def test_a_model_that_cannot_do_the_task_is_named_in_every_study(folder, targets, own_cache, tmp_path):
    overrides = {"n": 8, "points": 3, "draws": 2, "repeats": 1, "orders": ["absolute"], "method": "one-pass"}
    found = hc.run("heads-kept", models=[folder], tasks=[targets], out=tmp_path, overrides=overrides, quiet=True)
    of_curve, warning = found.summary["warnings"]
    assert of_curve.startswith("targets, tiny-llama: log_prob is")
    assert "cannot do this task, roles and circuits mean little" in warning


def test_a_guess_is_warned_of_once_with_the_accuracy_of_the_answer(folder, own_cache, no_figures, tmp_path):
    """That of all repeats, though the orders by chance have the prompts of the first alone."""
    overrides = {**SMALL, "repeats": 3, "orders": ["signed", "chance"], "method": "attribution"}
    found = hc.run("heads-kept", models=[folder], tasks=["ioi"], out=tmp_path, overrides=overrides, quiet=True)
    (warning,) = [words for words in found.summary["warnings"] if "guessing on" in words]
    words = found.summary["curves"][0]["words"]
    assert words.partition("The whole model is right on ")[2].split(" of ")[0] in warning
    assert "of 12 test prompts" in warning


@pytest.mark.parametrize(
    ("right", "n", "chance", "warned"),
    [(0.5, 100, 0.5, True), (0.55, 100, 0.5, True), (0.7, 100, 0.5, False), (1.0, 2, 0.5, False), (0.0, 8, 0.0, True),
     (0.1, 50, 0.0, False), (0.3, 40, 0.25, True)],
)  # fmt: skip
def test_chance_is_told_from_skill(right, n, chance, warned):
    assert (words_of_guessing("m", "t", right, n, chance) is not None) == warned


def test_precision_is_a_key_of_a_study_and_half_of_it_is_warned_of(folder, own_cache, tmp_path):
    overrides = {**SMALL, "orders": ["absolute"], "dtype": "bfloat16", "device": "cpu", "method": "one-pass"}
    found = hc.run("heads-kept", models=[folder], tasks=["ioi"], out=tmp_path, overrides=overrides, quiet=True)
    assert found.curves[0].provenance["model"]["dtype"] == "bfloat16"
    assert any("runs in bfloat16, in which its logits" in warning for warning in found.summary["warnings"])
    with pytest.raises(hc.HeadcountError, match="dtype cannot be 'half'"):
        read_study("heads-kept", overrides={"dtype": "half"})


def test_a_model_that_cannot_read_the_questions_says_so_before_anything_runs(own_cache, tmp_path):
    with pytest.raises(hc.HeadcountError, match="questions of up to .* tokens and answers of 12 .* tiny takes 256"):
        hc.run("masked-heads", models=["tiny"], tasks=["retrieval"], quick=True, out=tmp_path, quiet=True)
    assert not list(own_cache.glob("steps/*/step.json"))
