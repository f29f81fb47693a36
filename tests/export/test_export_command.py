"""`headcount export`: every kind, from folders of scores, of studies, and circuits; and what it refuses."""

import json

import numpy as np
import pytest

import headcount as hc
from families import random_task, tiny
from headcount.core.export_options import CutChoice
from headcount.core.exports import EXPORTS
from headcount.export.cuts import cut_of

ON = ("--model", "FOLDER")


@pytest.fixture
def saved(tmp_path):
    """Head scores of the model in the fixture `folder`."""
    values = np.random.default_rng(0).normal(size=(4, 3, 4))
    return hc.HeadScores("tiny-llama", "ioi", "patching", "logit_diff", values).save(tmp_path / "scores")


@pytest.fixture(scope="module")
def edges():
    return hc.score(tiny("gpt2"), random_task(), "eap")


def test_all_kinds_are_listed_with_what_they_take(headcount):
    code, out, _ = headcount("export")
    assert code == 0
    for name, kind in EXPORTS.items():
        assert name in out
        assert kind.summary.split(":")[0] in " ".join(out.split())


def test_a_checkpoint_from_scores(headcount, folder, saved, tmp_path):
    code, out, err = headcount("export", "checkpoint", saved, "--model", folder, "--top", 3, "--out", tmp_path / "cut")
    assert code == 0, err
    assert str(tmp_path / "cut") in out
    facts = json.loads((tmp_path / "cut" / "headcount.json").read_text())
    assert facts["heads"] == list(hc.HeadScores.load(saved).top(3))


def test_the_weakest_groups_of_every_layer(headcount, folder, saved, tmp_path):
    asked = ("--model", folder, "--groups", 1, "--shrink", "--out", tmp_path / "cut", "--fill", "mean-global", "-n", 4)
    code, _, err = headcount("export", "checkpoint", saved, *asked)
    assert code == 0, err
    facts = json.loads((tmp_path / "cut" / "headcount.json").read_text())
    strength = np.abs(hc.HeadScores.load(saved).values).reshape(3, 2, 2).max(-1)
    wanted = [f"a{layer}.h{2 * group + place}" for layer, group in enumerate(strength.argmin(1)) for place in (0, 1)]
    assert facts["heads"] == wanted
    assert json.loads((tmp_path / "cut" / "config.json").read_text())["num_key_value_heads"] == 1


def test_named_heads_need_no_result(headcount, folder, tmp_path):
    asked = ("--model", folder, "--heads", "a0.h1,a2.h3", "--out", tmp_path / "new" / "cut.py", "--tool", "nnsight")
    code, _, err = headcount("export", "hooks", *asked)
    assert code == 0, err
    assert "HEADS = {0: [1], 2: [3]}" in (tmp_path / "new" / "cut.py").read_text()


def test_circuits_from_scores_of_edges_and_from_a_circuits_file(headcount, edges, tmp_path):
    place = edges.save(tmp_path / "edges")
    code, _, err = headcount("export", "mib", place, "--top", 20, "--out", tmp_path / "circuit.json")
    assert code == 0, err
    code, _, err = headcount("export", "graphml", tmp_path / "circuit.json", "--out", tmp_path / "circuit.graphml")
    assert code == 0, err
    hc.export_result("mib", tmp_path / "circuit.json", tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "circuit.json").read_text()
    assert edges.circuit(20).export("graphml", tmp_path / "own.graphml").read_text().count("<edge ") == 20
    assert (tmp_path / "circuit.graphml").read_text().count("<edge ") == 20


def test_a_study_is_exported_whole_and_its_only_scores_are_found(headcount, folder, tmp_path, no_figures):
    study = ("--model", folder, "--task", "ioi", "-n", 8, "--points", 3, "--draws", 1, "--repeats", 1)
    code, _, err = headcount("run", "heads-kept", *study, "--out", tmp_path / "study")
    assert code == 0, err
    code, _, err = headcount("export", "dataset", tmp_path / "study", "--out", tmp_path / "set")
    assert code == 0, err
    assert {path.name for path in (tmp_path / "set" / "data").iterdir()} == {"heads.parquet", "curves.parquet"}
    asked = ("--model", folder, "--top", 2, "--out", tmp_path / "cut.py")
    code, _, err = headcount("export", "hooks", tmp_path / "study", *asked)
    assert code == 0, err
    assert "the first 2 by" in " ".join((tmp_path / "cut.py").read_text().split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing", "SAVED", "--out", "x"), "No such command"),
        (("checkpoint", "SAVED", *ON, "--top", "3"), "Say where to write the folder"),
        (("checkpoint", "SAVED", *ON, "--out", "x"), "Say once which heads to remove"),
        (("checkpoint", "SAVED", *ON, "--top", "3", "--weakest", "3", "--out", "x"), "--top and --weakest"),
        (("checkpoint", "SAVED", *ON, "--top", "12", "--out", "x"), "of which one at least must stay; 12"),
        (("checkpoint", "SAVED", *ON, "--groups", "2", "--out", "x"), "has 2 KV groups in a layer"),
        (("checkpoint", "SAVED", *ON, "--top", "0", "--out", "x"), "top must be"),
        (("checkpoint", "SAVED", "--top", "3", "--out", "x"), "tiny-llama"),
        (("checkpoint", "--top", "3", *ON, "--out", "x"), "goes by scores of heads, and there are none"),
        (("checkpoint", "--heads", "a9.h9", *ON, "--out", "x"), "there is no head (9, 9)"),
        (("checkpoint", "--heads", "a0.h0", "--out", "x"), "A cut needs a model"),
        (("checkpoint", "SAVED", "--model", "tiny", "--top", "3", "--out", "x"), "The scores are of 3 x 4 heads"),
        (("checkpoint", "SAVED", *ON, "--top", "3", "--out", "FOLDER"), "is there already"),
        (("hooks", "SAVED", *ON, "--top", "3", "--out", "FOLDER"), "writes a file"),
        (("hooks", "SAVED", *ON, "--top", "3", "--tool", "jax", "--out", "x"), "tool cannot be"),
        (("hooks", "SAVED", *ON, "--top", "3", "--fill", "mean", "--out", "x"), "the same at every position"),
        (("hooks", "--heads", "a0.h0", *ON, "--fill", "mean-global", "--out", "x"), "Give --task"),
        (("mib", "SAVED", "--out", "x"), "is not the output folder of a finished study"),
        (("mib", "SAVED", "--top", "3", "--out", "x"), "Scores of edges are wanted"),
        (("svg", "CONFIG", "--out", "x"), "is no circuit as MIB writes them"),
        (("kv-cache", "gone", "--out", "x"), "There is no folder of results at gone"),
        (("dataset", "gone", "--out", "x"), "There are no results at gone"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(headcount, folder, saved, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    names = {"SAVED": str(saved), "FOLDER": folder, "CONFIG": f"{folder}/config.json"}
    code, _, err = headcount("export", *(names.get(word, word) for word in arguments))
    assert code == 2, err
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert len(err) <= 330
    assert not (tmp_path / "x").exists()


def test_a_circuit_cannot_be_a_checkpoint(edges, tmp_path):
    with pytest.raises(hc.HeadcountError, match="The export checkpoint takes scores of heads"):
        edges.circuit(5).export("checkpoint", tmp_path / "x")


def test_an_export_of_ones_own(headcount, saved, tmp_path, monkeypatch):
    class Options(hc.Settings):
        sign: str = "+"
        """In front of a score."""

    def write(scores, options, folder):
        (folder / "scores.txt").write_text("\n".join(f"{options.sign}{value:.3f}" for value in scores.values.ravel()))

    monkeypatch.setattr(EXPORTS, "_own", dict(EXPORTS._own))
    hc.register_export("mine", hc.Export("my format", takes="scores", target=write, writes="folder", options=Options))
    code, _, err = headcount("export", "mine", saved, "--sign", "~", "--out", tmp_path / "mine")
    assert code == 0, err
    assert (tmp_path / "mine" / "scores.txt").read_text().startswith("~")


def test_a_revision_goes_to_whoever_loads_the_model(monkeypatch):
    told = {}
    monkeypatch.setattr("headcount.export.cuts.load", lambda name, **options: told.update(options) or tiny("llama-gqa"))
    cut_of(None, CutChoice(model="me/mine", heads=["a0.h0"], revision="v2"))
    assert told["revision"] == "v2"
    told.clear()
    cut_of(None, CutChoice(model="me/mine", heads=["a0.h0"]))
    assert "revision" not in told


def test_a_cache_is_for_the_model_that_was_scored(headcount, saved, folder, tmp_path):
    asked = ["export", "kv-cache", saved, "--out", tmp_path / "kv"]
    code, _, said = headcount(*asked, "--model", "tiny")
    assert (code, "The scores are of 3 x 4 heads, and 'tiny' has 6 x 8" in said) == (2, True), said
    code, _, said = headcount(*asked, "--model", folder)
    assert code == 0
    assert ("only the config of" in said) == (not str(folder).endswith("tiny-llama"))


def test_gates_cannot_be_held_by_a_plain_checkpoint(headcount, tmp_path):
    asked = ["--model", "tiny-sparse", "--heads", "a0.h0", "--out", tmp_path / "cut"]
    code, _, said = headcount("export", "checkpoint", *asked)
    assert (code, "'tiny-sparse' has gates on its attention edges" in said) == (2, True), said
