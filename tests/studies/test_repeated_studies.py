"""Repeats of a study: the same steps with other seeds, found again in the cache, and one answer from all of them."""

import json
from dataclasses import replace

import pytest

import headcount as hc
from curves_by_hand import curve_of
from headcount.studies.bench import Bench
from headcount.studies.kept.figure import draw
from headcount.studies.runner import plan_study
from headcount.studies.study import read_study
from headcount.sweeps import Repeats

SMALL = {"n": 12, "points": 4, "draws": 2, "repeats": 1, "orders": ["absolute", "chance"], "method": "one-pass"}


def planned(folder, task="ioi", **more):
    """The steps of a study, by their keys; but for the prompts that its report shows, which are of the first alone."""
    study = read_study("heads-kept", models=[folder], tasks=[task], overrides={**SMALL, **more})
    steps = plan_study(study, Bench(names=study.models)).plan.steps
    return {step.key: step.label for step in steps if not step.label.endswith("prompts")}


def test_repeats_are_the_steps_of_the_seeds_that_follow(folder):
    together = planned(folder, repeats=3)
    alone = [planned(folder, seed=seed, orders=["absolute"]) for seed in (0, 1, 2)]
    assert [len(steps) for steps in alone] == [2, 2, 2]
    assert all(set(steps) <= set(together) for steps in alone), "so that each is found in the cache"
    left = [together[key] for key in set(together).difference(*alone)]
    assert sum(label.endswith("chance") for label in left) == 1, "which has draws, and is not repeated"
    assert sum(label.endswith("absolute · closer") for label in left) == 3
    assert sum(label.endswith("absolute · named") for label in left) == len(left) - 4 == 3
    assert sum("repeat 2" in label for label in together.values()) == 4


def test_orders_by_chance_alone_are_not_repeated(folder):
    assert planned(folder, repeats=3, orders=["chance"]) == planned(folder, orders=["chance"])


def test_examples_that_no_seed_changes_are_not_repeated(folder, tmp_path):
    line = {"corrupt": [1, 4, 3], "answer": [5], "wrong": [6]}
    lines = [{**line, "clean": [1, 5 + number, 3], "split": ("train", "test")[number % 2]} for number in range(8)]
    path = tmp_path / "fixed.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert planned(folder, str(path), repeats=3) == planned(folder, str(path))


@pytest.mark.usefixtures("no_figures")
def test_the_summary_speaks_of_all_repeats(folder, shared_cache, tmp_path):
    result = hc.run(
        "heads-kept", models=[folder], tasks=["ioi"], out=tmp_path, overrides={**SMALL, "repeats": 3}, quiet=True
    )
    (cell,), curve = result.cells, result.curves[0]
    found = cell.repeats(curve)
    assert [one.provenance["arguments"]["seed"] for one in found.curves] == [0, 1, 2]
    entry, chance = result.summary["curves"]
    reached, faithful = (found.units_needed(0.9, aim=aim) for aim in ("reached", "faithful"))
    assert (entry["reached"], entry["needed"], entry["stays"]) == (reached.value, faithful.value, faithful.stays)
    assert entry["closeness"]["distance"] == pytest.approx(found.pooled.closeness(faithful.value).distance, rel=1e-5)
    confirmed = found.by_prompt.confirmed(0.9)
    assert entry["confirmed"] == pytest.approx(confirmed.value, rel=1e-5)
    assert entry["confirmed_units"] == confirmed.k
    assert (entry["repeats"], entry["test_pairs"]) == (3, 3 * curve.pairs)
    assert (entry["needed_low"], entry["needed_high"]) == (faithful.low, faithful.high)
    assert entry["needed_range"] == list(faithful.span)
    assert (chance["order"], chance["repeats"]) == ("chance", 1)
    assert len(list((tmp_path / "scores").iterdir())) == 1


@pytest.mark.usefixtures("no_figures")
def test_all_repeats_are_measured_where_their_mean_crosses(folder, shared_cache, tmp_path):
    """A grid of two points alone, so that every sweep knows its own crossing and little else."""
    overrides = {**SMALL, "repeats": 3, "points": 2, "precision": 0.0}
    result = hc.run("heads-kept", models=[folder], tasks=["ioi"], out=tmp_path, overrides=overrides, quiet=True)
    found = result.cells[0].repeats(result.curves[0])
    reached = found.units_needed(0.9, aim="reached").value
    before = max(k for k in found.pooled.ks if k < reached)
    assert reached - before == 1
    assert len({curve.first_k(0.9, "reached") for curve in found.curves}) > 1, "else there is nothing to see"
    assert all({before, reached} <= set(curve.ks) for curve in found.curves)
    (alone,) = hc.run(
        "heads-kept", models=[folder], tasks=["ioi"], out=tmp_path, overrides={**overrides, "repeats": 1}, quiet=True
    ).cells
    assert not {before, reached} <= set(alone.curves[0].ks), "of its own accord it was not measured there"


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("mode", ["keep", "mask"])
def test_the_heads_that_are_named_are_measured_as_a_set(folder, shared_cache, tmp_path, mode):
    """By another way: cut by their names, on the prompts of every repeat."""
    overrides = {**SMALL, "repeats": 3, "mode": mode}
    study = read_study("heads-kept", models=[folder], tasks=["ioi"], overrides=overrides)
    result = hc.run("heads-kept", models=[folder], tasks=["ioi"], out=tmp_path, overrides=overrides, quiet=True)
    entry, model = result.summary["curves"][0], hc.load(folder)
    assert any(set(entry["which"]) != set(one.ranking[: entry["needed"]]) for one in
               result.cells[0].repeats(result.curves[0]).curves), "else every repeat has measured them"  # fmt: skip
    heads = [f"a{layer}.h{head}" for layer in range(model.n_layers) for head in range(model.n_heads)]
    cut = [head for head in heads if head not in entry["which"]] if mode == "keep" else entry["which"]
    kept, none, whole = [], [], []
    for seed in range(3):
        task = study.panels[0].changed(seed=seed).examples(model)
        for found, removed in ((kept, cut), (none, heads), (whole, [])):
            measured = hc.measure(model, task, removed, fill="counterfactual")
            found.append(measured.values(task.metric).mean())
    (kept, none, whole) = (sum(found) / 3 for found in (kept, none, whole))
    assert entry["which_explained"] == pytest.approx((kept - none) / (whole - none), rel=1e-4)
    assert entry["which_low"] <= entry["which_explained"] <= entry["which_high"]
    share = entry["which_explained"] if mode == "keep" else 1 - entry["which_explained"]
    said = f"these {entry['needed']} {'explain' if mode == 'keep' else 'take away'} {share:.2f} of it"
    assert said in entry["words"]


def test_the_figure_shows_the_pooled_curve_and_the_caption_says_so():
    first, *others = (curve_of([[0, *[5] * k, *[10] * (20 - k)]] * 4, range(21)) for k in (3, 9, 6))
    figure = draw([("IOI", [first])], threshold=0.9, repeats={first: Repeats((first, *others))})
    assert [text.get_text() for ax in figure.axes for text in ax.texts] == ["10"]
    said = figure.get_supxlabel().replace("\n", " ")
    assert (
        "zero fill; 4 test prompts in each of 3 repeats, pooled; bands: 90 % intervals; bars: range of repeats" in said
    )
    alone = draw([("IOI", [first])], threshold=0.9)
    assert [text.get_text() for ax in alone.axes for text in ax.texts] == ["4"]
    assert "repeats" not in alone.get_supxlabel()


def test_a_ring_shows_where_an_order_reaches_the_threshold_and_goes_beyond():
    rings = []
    for values in ([0, 5, 14, 12, 10.5, 10], [0, 5, 9.5, 9.7, 9.9, 10]):
        (ax,) = draw([("IOI", [curve_of([values] * 4, range(6))])], threshold=0.9).axes
        rings.append([line.get_xdata().tolist() for line in ax.lines if line.get_fillstyle() == "none"])
    assert rings == [[[2]], []]


def test_models_are_compared_over_all_repeats():
    curves = {name: [curve_of([[0, *[5] * k, *[10] * (20 - k)]] * 4, range(21), model=name) for k in ks]
              for name, ks in {"dense": (9, 9, 9), "sparse": (4, 4, 4)}.items()}  # fmt: skip
    shown = [replace(found[0]) for found in curves.values()]
    repeats = {first: Repeats((first, *curves[first.model][1:])) for first in shown}
    (words,) = (text.get_text() for text in draw([("IOI", shown)], threshold=0.9, repeats=repeats).axes[0].texts)
    assert words.startswith("dense needs 2.0x the heads\nof sparse (")
    assert words.endswith("\n10 against 5")
