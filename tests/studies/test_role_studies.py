"""head-roles: what its folder holds, what is found again after a kill, and what a wrong setting is told."""

import csv
import math

import pytest
import torch

import headcount as hc
from headcount.meters.speed import fitted_tokens_a_second
from headcount.studies import forecast
from headcount.studies.plan import mean_length
from headcount.studies.report import read_report
from headcount.studies.study import read_study

FEW = {"n": 12, "seeds": 2, "updates": 3, "batch": 3, "ks": [1, 4]}


def run_roles(folder, out, tasks=("syntax", "math"), **arguments):
    return hc.run("head-roles", models=[folder], tasks=tasks, out=out, overrides=FEW, **arguments)


def test_head_roles_leaves_curves_roles_and_a_figure(folder, shared_cache, tmp_path):
    result = run_roles(folder, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"curves.csv", "roles.csv", "roles", "summary.json", "study.toml", "provenance.json", "figure.png"}
    assert {path.name for path in (tmp_path / "roles").iterdir()} == {"syntax-tiny-llama", "math-tiny-llama"}
    rows = list(csv.DictReader((tmp_path / "roles.csv").read_text().splitlines()))
    assert len(rows) == 2 * 2 * 12, "a row a task, seed and head"
    curves = list(csv.DictReader((tmp_path / "curves.csv").read_text().splitlines()))
    assert {row["order"] for row in curves} == {"facilitation", "irrelevance", "interference", "chance"}
    assert {row["k"] for row in curves} == {"0", "1", "4"}
    assert {"log_prob_change", "log_prob_per_token_change", "accuracy"} <= {row["metric"] for row in curves}
    assert all(float(row["value"]) == 0 for row in curves if row["k"] == "0" and row["metric"] == "log_prob_change")
    assert [curve.order for curve in result.curves[:4]] == ["facilitation", "irrelevance", "interference", "chance"]


@pytest.mark.usefixtures("no_figures")
def test_head_roles_says_what_it_found(folder, shared_cache, tmp_path):
    cell = run_roles(folder, tmp_path, tasks=["syntax"]).summary["cells"][0]
    assert (cell["task"], cell["heads"], cell["seeds"], cell["test_examples"]) == ("syntax", 12, 2, 6)
    assert set(cell["shares"]["irrelevance"]) == {"mean", "always", "any"}
    assert -1 <= cell["seed_agreement"]["facilitation"] <= 1
    assert set(cell["words"]) == {"facilitation", "irrelevance", "interference"}
    assert cell["whole_model"]["log_prob"] < 0


@pytest.mark.usefixtures("plain_figures")
def test_roles_note_what_the_model_says_without_the_first_heads_of_the_first_fit(folder, shared_cache, tmp_path):
    result = run_roles(folder, tmp_path, tasks=["syntax"])
    roles, model = result.cells[0].scores, hc.load(folder)
    assert [bool(curve.said) for curve in result.curves] == [True, True, True, False], "not by chance"
    task = hc.task("syntax", model, n=12)
    curve = hc.sweep_roles(model, task, roles, orders=["facilitation"], ks=[4], base="ones")[0]
    heads = [divmod(int(place), model.n_heads) for place in roles.order("facilitation", 0)[:4]]
    with hc.cut(model, heads, "zero"), torch.no_grad():
        rows = [model.hf(input_ids=torch.tensor([one.prompt])).logits[0, -1].softmax(-1) for one in task.test]
    assert curve.said["said"][1].tolist() == [int(row.argmax()) for row in rows]
    assert curve.said["said_chance"][1] == pytest.approx([float(row.max()) for row in rows], rel=1e-4)
    shown = read_report(tmp_path).curves[0].said
    assert shown.ks == [0, 1, 4]
    assert set(shown.words) <= set(result.curves[0].words.values())


def test_head_roles_is_found_again_and_its_toml_runs(folder, own_cache, tmp_path):
    first = run_roles(folder, tmp_path / "first")
    again = hc.run(tmp_path / "first" / "study.toml", out=tmp_path / "again")
    assert (first.computed, again.computed, again.cached) == (12, 0, 12)
    for name in ("curves.csv", "roles.csv", "figure.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


@pytest.mark.usefixtures("no_figures")
def test_a_fit_that_was_killed_in_the_middle_goes_on_in_the_next_run(folder, own_cache, tmp_path, monkeypatch):
    from headcount.core.progress import Bar
    from headcount.rank import descent

    monkeypatch.setattr(descent, "SAVE_EVERY", 0.0)
    whole = run_roles(folder, tmp_path / "whole", tasks=["syntax"])
    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path / "other"))
    noted = []

    def note(self, words):
        noted.append(words)
        if len(noted) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Bar, "note", note)
    with pytest.raises(KeyboardInterrupt):
        run_roles(folder, tmp_path / "out", tasks=["syntax"])
    assert len(list((tmp_path / "other" / "fits").iterdir())) == 1
    again = run_roles(folder, tmp_path / "out", tasks=["syntax"])
    assert len(noted) == 9, "nine updates in all, none of them twice"
    assert (again.scores[0].plus == whole.scores[0].plus).all()
    assert not list((tmp_path / "other" / "fits").iterdir())


def test_any_number_of_models_are_columns(folder, own_cache, tmp_path):
    result = hc.run(
        "head-roles", models=["one", "two", "three"], tasks=["syntax"], out=tmp_path, overrides=FEW,
        loader=lambda name: hc.load(folder, name=name),
    )  # fmt: skip
    assert [roles.model for roles in result.scores] == ["one", "two", "three"]
    assert result.computed == 6, "the same weights are fitted once, whatever they are called"


@pytest.mark.usefixtures("no_figures")
def test_roles_of_pairs(folder, shared_cache, tmp_path):
    result = run_roles(folder, tmp_path, tasks=["ioi"])
    assert result.curves[0].metric == "log_prob_change"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"pull": -0.1}, "pull must be above 0"),
        ({"free_rate": [0.1]}, "free_rate must be two learning rates"),
        ({"base": "minus"}, "base cannot be 'minus'"),
        ({"threshold": 0.9}, "unknown key 'threshold'"),
        ({"fill": "nothing"}, "no fill 'nothing'"),
        ({"metric": "logit_diff"}, "metric cannot be 'logit_diff'.*Known: log_prob, log_prob_per_token"),
        ({"ks": "log"}, "ks cannot be 'log'.*Known: halves"),
    ],
)
def test_a_wrong_setting_of_roles_is_said_before_a_model_is_loaded(tmp_path, overrides, words):
    def loader(name):
        raise AssertionError("loaded")

    with pytest.raises(hc.HeadcountError, match=words):
        hc.run("head-roles", out=tmp_path, overrides=overrides, loader=loader)


def test_an_unknown_kind_of_study_is_refused(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('kind = "rolls"\n[[panel]]\ntask = "ioi"\n')
    with pytest.raises(hc.HeadcountError, match="no kind 'rolls'.*Did you mean 'head-roles'"):
        hc.run(file, out=tmp_path)


def test_the_forecast_of_a_fit_times_updates_as_the_fit_makes_them(folder, own_cache, monkeypatch):
    """Small batches, forward and backward: plain passes of many prompts say little about them."""
    asked = []

    def timed(model, rows, length):
        asked.append((rows, length))
        return 10.0

    monkeypatch.setattr(forecast, "fitted_tokens_a_second", timed)
    monkeypatch.setattr(forecast, "tokens_a_second", lambda model: 1000.0)
    study = read_study("head-roles", quick=True, models=[str(folder)], tasks=["ioi"], overrides={"n": 20})
    _, fitting, *sweeps, _ = forecast.plan_facts(study, None)
    task = hc.task("ioi", hc.load(folder), n=20)
    length = mean_length(task.train)
    assert asked == [(2 * 4, round(length))], "two seeds, four prompts each"
    assert fitting["seconds"] == pytest.approx(fitting["forwards"] * length / 10)
    assert all(step["seconds"] < step["forwards"] for step in sweeps if step["forwards"])


def test_an_update_is_timed_and_leaves_nothing_behind(folder):
    model = hc.load(folder)
    before = [weight.requires_grad for weight in model.hf.parameters()]
    assert 0 < fitted_tokens_a_second(model, 2, 5) < math.inf
    assert all(weight.grad is None for weight in model.hf.parameters())
    assert [weight.requires_grad for weight in model.hf.parameters()] == before
