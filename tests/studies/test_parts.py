"""Long sweeps are done in parts: steps of their own, that change no number."""

import json

import numpy as np
import pytest

import headcount as hc
from headcount.meters.meter import own_passes
from headcount.studies import plan
from headcount.sweeps.sweep import sweep


@pytest.mark.parametrize(("passes", "of"), [([10], 3), ([4, 1, 7], 3), ([1, 1], 5), ([3, 0, 2], 2)])
def test_every_pass_is_in_one_part(passes, of):
    parts = [own_passes(passes, (number, of)) for number in range(of)]
    for batch, count in enumerate(passes):
        assert [turn for part in parts for turn in part[batch]] == list(range(count))
    sizes = [sum(map(len, part)) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_only_long_steps_have_parts_and_the_plan_alone_says_how_many():
    assert plan.parts_of(1.9 * plan.PART, 100) == []
    assert plan.parts_of(3.5 * plan.PART, 100) == [(0, 3), (1, 3), (2, 3)]
    assert len(plan.parts_of(1e12, 5)) == 5


@pytest.mark.parametrize("units", ["heads", "edges"])
@pytest.mark.parametrize("order", ["absolute", "chance"])
def test_a_sweep_from_parts_is_the_whole_sweep_bit_for_bit(units, order, folder, monkeypatch):
    """With passes of two masks and more, and with the last one not full."""
    monkeypatch.setattr("headcount.meters.memory.CIRCUIT_TOKENS", 200)
    model = hc.load(folder)
    task = hc.task("ioi", model, n=100 if units == "heads" else 12)
    scores = hc.score(model, task, "attribution" if units == "heads" else "eap")
    asked = {"keep": order, "points": 7, "draws": 2, "units": units}
    whole = sweep(model, task, scores, **asked)
    parts = [sweep(model, task, scores, part=(number, 3), **asked) for number in range(3)]
    left = [np.isnan(part.values["logit_diff"]) for part in parts]
    assert sum(not some.all() for some in left) > 1, "more than one has something to do"
    found = sweep(model, task, scores, parts=parts, **asked)
    assert found.ks == whole.ks
    for name, values in whole.values.items():
        assert found.values[name].tobytes() == values.tobytes(), name


def test_a_sweep_of_roles_whose_parts_are_other_steps_leaves_the_same_bytes(
    folder, own_cache, no_figures, tmp_path, monkeypatch
):
    """The two sides of a change are in different parts."""
    asked = {"n": 20, "seeds": 2, "updates": 2, "batch": 3, "ks": [1, 2, 4, 7]}
    told = {"models": [folder], "tasks": ["syntax"], "overrides": asked, "quiet": True}
    whole = hc.run("head-roles", out=tmp_path / "whole", **told)
    monkeypatch.setattr(plan, "PART", 400)
    split = hc.run("head-roles", out=tmp_path / "split", **told)
    assert split.computed > 4, "there are parts, and the fit and the prompts were there"
    for name in ("curves.csv", "summary.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "split" / name).read_bytes()
    said = [[curve.said["said"].tolist() for curve in run.curves[:3]] for run in (whole, split)]
    assert said[0] == said[1]


def test_a_study_whose_sweeps_are_split_leaves_the_same_bytes(folder, own_cache, no_figures, tmp_path, monkeypatch):
    orders = ["absolute", "best", "chance"]
    asked = {"n": 40, "points": 6, "draws": 2, "repeats": 2, "orders": orders, "method": "one-pass"}
    told = {"models": [folder], "tasks": ["ioi"], "overrides": asked, "quiet": True}
    whole = hc.run("heads-kept", out=tmp_path / "whole", **told)
    monkeypatch.setattr(plan, "PART", 600)
    split = hc.run("heads-kept", out=tmp_path / "split", **told)
    assert split.computed > whole.computed, "there are parts"
    labels = {step["label"] for step in json.loads((tmp_path / "split" / "provenance.json").read_text())["steps"]}
    assert any(label.endswith("best · mix") for label in labels), "which is chosen once for all parts"
    for name in ("curves.csv", "summary.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "split" / name).read_bytes()
