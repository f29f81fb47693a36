"""Keys: a result is found again where nothing that it depends on has changed, and nowhere else."""

import importlib
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import headcount as hc
from families import CONFIGS
from headcount.core.cache import Store
from headcount.rank import METHODS
from headcount.studies.bench import Bench
from headcount.studies.runner import plan_study
from headcount.studies.study import read_study
from tokenizers_for_tests import make_tokenizer

SMALL = {"n": 8, "points": 3, "draws": 2, "repeats": 1, "orders": ["absolute"], "method": "one-pass"}
STEPS = 3  # scores, one sweep, and the prompts for the report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small Llama whose heads matter, so that another setting gives other numbers."""
    place = tmp_path_factory.mktemp("models") / "plain"
    tokenizer, config = make_tokenizer("digits"), CONFIGS["llama-gqa"]()
    config.vocab_size, config.max_position_embeddings = len(tokenizer), 512
    torch.manual_seed(0)
    hf = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in hf.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    hf.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.fixture
def run(own_cache, no_figures, tmp_path):
    """The study of a model folder in the cache of the test."""

    def call(place, loader=hc.load, **arguments):
        return hc.run(
            "heads-kept", models=[str(place)], tasks=["ioi"], out=tmp_path / "out", loader=loader, quiet=True,
            **{"overrides": SMALL, **arguments},
        )  # fmt: skip

    return call


def step_keys(place, loader=hc.load):
    study = read_study("heads-kept", models=[str(place)], tasks=["ioi"], overrides=SMALL)
    return {step.key for step in plan_study(study, Bench(loader, study.models)).plan.steps}


def counts(result):
    return result.computed, result.cached


def values(result):
    return result.curves[0].values["logit_diff"]


# ---------------------------------------------------------------------------------------------------------------------
# Models


def with_setting(folder, place, setting, value):
    """The same weights with another line in config.json."""
    shutil.copytree(folder, place)
    config = json.loads((place / "config.json").read_text())
    if setting == "rope_theta":
        assert config["rope_parameters"][setting] != value
        config["rope_parameters"][setting] = value
    else:
        assert config[setting] != value
        config[setting] = value
    (place / "config.json").write_text(json.dumps(config))
    return place


@pytest.mark.parametrize(("setting", "value"), [("rope_theta", 100.0), ("hidden_act", "gelu"), ("rms_norm_eps", 1e-2)])
def test_the_same_weights_with_another_setting_are_another_model(folder, run, tmp_path, setting, value):
    other = with_setting(folder, tmp_path / "other", setting, value)
    models = [hc.load(place) for place in (folder, other)]
    assert models[0].weights_hash == models[1].weights_hash
    assert models[0].fingerprint != models[1].fingerprint
    assert not step_keys(folder) & step_keys(other)
    first, second = run(folder), run(other)
    assert counts(first) == counts(second) == (STEPS, 0)
    assert np.abs(values(first)[0, -1] - values(second)[0, -1]).max() > 1e-3, "the setting changes no number"
    assert counts(run(folder)) == counts(run(other)) == (0, STEPS)


def test_another_attention_implementation_does_not_find_the_results_of_the_first(folder, run):
    """Its numbers are the same but for rounding, and rounding may decide an order."""

    def eager(name):
        return hc.load(name, attn_implementation="eager")

    def identity(model):
        return {key: fact for key, fact in model.facts().items() if key != "name"}

    plain, other = hc.load(folder), eager(folder)
    assert (identity(plain)["attention"], identity(other)["attention"]) == ("sdpa", "eager")
    assert not step_keys(folder) & step_keys(folder, eager)
    first, second = run(folder), run(folder, eager)
    assert counts(first) == counts(second) == (STEPS, 0)
    np.testing.assert_allclose(values(first)[0, [0, -1]], values(second)[0, [0, -1]], atol=1e-4)
    assert counts(run(folder, eager)) == (0, STEPS)


def test_another_precision_does_not_find_the_results_of_the_first(folder, run):
    def doubled(name):
        return hc.load(name, dtype=torch.float64)

    assert hc.load(folder).fingerprint != doubled(folder).fingerprint
    assert counts(run(folder)) == counts(run(folder, doubled)) == (STEPS, 0)


def test_the_same_model_under_another_name_finds_everything(folder, run, tmp_path):
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert hc.load(folder).fingerprint == hc.load(moved).fingerprint
    assert step_keys(folder) == step_keys(moved)
    first, second = run(folder), run(moved)
    assert (counts(first), counts(second)) == ((STEPS, 0), (0, STEPS))
    assert [curve.model for curve in (*first.curves, *second.curves)] == ["plain", "moved"]
    np.testing.assert_array_equal(values(first), values(second))


def test_what_is_only_measured_otherwise_keeps_the_scores(folder, run):
    assert counts(run(folder)) == (STEPS, 0)
    assert counts(run(folder, overrides={**SMALL, "points": 5})) == (1, STEPS - 1)


# ---------------------------------------------------------------------------------------------------------------------
# Code

METHOD = """
import torch
import headcount as hc

@hc.register_method("of-my-own", summary="Heads in their order, or against it.", cost="1")
def score(model, examples, request):
    request.advance(len(examples))
    heads = torch.arange(model.head_count, dtype=torch.float32).view(model.n_layers, model.n_heads)
    return {sign}(1 + heads).expand(len(examples), -1, -1)
"""


def test_a_method_of_ones_own_is_computed_anew_when_its_source_changes(folder, run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions in one second have the same time stamp
    monkeypatch.setattr(METHODS, "_own", dict(METHODS._own))
    source = tmp_path / "method_of_my_own.py"
    overrides = {**SMALL, "method": "of-my-own", "orders": ["signed"]}

    def run_with(sign):
        source.write_text(METHOD.format(sign=sign))
        importlib.invalidate_caches()
        module = sys.modules.get(source.stem)
        importlib.reload(module) if module else importlib.import_module(source.stem)
        return run(folder, overrides=overrides)

    try:
        first, same, other, back = (run_with(sign) for sign in ("+", "+", "-", "+"))
    finally:
        sys.modules.pop(source.stem, None)
    assert [counts(result) for result in (first, same, other, back)] == [
        (STEPS, 0),
        (0, STEPS),
        (STEPS - 1, 1),
        (0, STEPS),
    ]
    assert first.curves[0].ranking == other.curves[0].ranking[::-1]
    assert back.curves[0].ranking == first.curves[0].ranking


def test_another_version_of_the_package_computes_every_step_anew(folder, run, monkeypatch):
    assert counts(run(folder)) == (STEPS, 0)
    before = step_keys(folder)
    for room in ("plan", "executors.errand"):
        monkeypatch.setattr(f"headcount.studies.{room}.package_source", lambda: "another version")
    assert not step_keys(folder) & before
    assert counts(run(folder)) == (STEPS, 0)
    assert counts(run(folder)) == (0, STEPS)


# ---------------------------------------------------------------------------------------------------------------------
# The cache itself


def test_without_the_cache_everything_is_computed_and_nothing_is_kept(folder, run, own_cache):
    assert counts(run(folder, cache=False)) == counts(run(folder, cache=False)) == (STEPS, 0)
    assert not own_cache.exists() or not any(path.is_file() for path in own_cache.rglob("*"))
    kept = run(folder)
    written = {path: path.stat().st_mtime_ns for path in own_cache.rglob("*")}
    assert counts(kept) == counts(run(folder, cache=False)) == (STEPS, 0)
    assert {path: path.stat().st_mtime_ns for path in own_cache.rglob("*")} == written


LABELS = ("plain · ioi · attribution-ig", "plain · ioi · absolute", "plain · ioi · prompts")


def test_the_cache_is_listed_sized_and_cleaned(folder, run, headcount, own_cache, monkeypatch):
    run(folder)
    code, listed, _ = headcount("cache", "list")
    assert code == 0
    assert all(label in listed for label in LABELS)
    assert all(key[:12] in listed for key in step_keys(folder))

    code, sized, _ = headcount("cache", "size")
    assert code == 0
    assert str(own_cache) in sized
    assert "steps" in sized

    assert headcount("cache", "clean", "--older-than", "1")[:2] == (0, "0 steps removed, 0 kB.\n")
    assert len(list(Store().entries())) == STEPS
    code, _, refused = headcount("cache", "clean")
    assert (code, len(list(Store().entries()))) == (2, STEPS), "a script that does not say --yes removes nothing"
    assert "nobody can be asked here. To agree, add --yes." in refused
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: "n\n"))
    monkeypatch.setattr("builtins.input", lambda *asked: "n")
    code, asked, _ = headcount("cache", "clean")
    assert f"{STEPS} finished steps" in asked
    assert asked.endswith("0 steps removed, 0 kB.\n")
    code, cleaned, _ = headcount("cache", "clean", "--yes")
    assert code == 0
    assert cleaned.startswith(f"{STEPS} steps removed")
    assert list(Store().entries()) == []
    assert not any(label in headcount("cache", "list")[1] for label in LABELS)
    assert counts(run(folder)) == (STEPS, 0)


def test_a_key_shows_all_that_its_step_depends_on(folder, run, headcount):
    run(folder)
    scoring, sweep, _ = sorted(Store().entries(), key=lambda entry: LABELS.index(entry.label))
    code, shown, _ = headcount("cache", "show", scoring.key[:12])
    assert code == 0
    facts = json.loads(shown)
    assert facts["label"] == LABELS[0]
    assert facts["settings"]["score"]["method"] == "attribution-ig"
    known = {key: fact for key, fact in hc.load(folder).facts().items() if key != "name"}
    assert known.items() <= facts["subject"]["model"].items()
    assert {"torch", "transformers", "headcount"} <= set(facts["versions"])
    assert facts["source"]
    code, shown, _ = headcount("cache", "show", sweep.key)
    assert json.loads(shown)["needs"] == [scoring.key]

    code, _, told = headcount("cache", "show", "0" * 24)
    assert code != 0
    assert "No finished steps have a key that begins with" in told


def test_an_output_folder_shows_its_steps_and_whether_they_are_still_there(folder, run, headcount, tmp_path):
    result = run(folder)
    code, shown, _ = headcount("cache", "show", result.folder)
    assert code == 0
    assert all(label in shown for label in LABELS)
    assert shown.count("in the cache") == STEPS
    headcount("cache", "clean", "--yes")
    assert headcount("cache", "show", result.folder)[1].count("not in the cache") == STEPS

    code, _, told = headcount("cache", "show", Path(tmp_path))
    assert code != 0
    assert "is not the output folder of a study" in told
