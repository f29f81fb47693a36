"""Studies: what the output folder holds, what is found again after a kill, and what is refused before anything runs."""

import csv
import json
import signal
import time
import tomllib

import pytest

import headcount as hc
from forked import ended, start
from headcount.studies import STUDIES

SMALL = {
    "n": 8,
    "points": 4,
    "draws": 3,
    "repeats": 1,
    "method": "one-pass",
    "orders": ["absolute", "signed", "chance"],
}


def run(folder, out, **arguments):
    return hc.run("heads-kept", models=[folder], tasks=["ioi", "docstring"], out=out, overrides=SMALL, **arguments)


@pytest.fixture(scope="module")
def out(folder, shared_steps, tmp_path_factory):
    """The folder of one study, for all tests that only read it."""
    place = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCOUNT_CACHE", str(shared_steps))
        run(folder, place)
    return place


def test_the_output_folder(out):
    names = {path.name for path in out.iterdir()}
    assert names == {
        "curves.csv", "curves", "scores.csv", "scores", "summary.json", "study.toml", "provenance.json",
        "figure.png", "figure.svg", "figure.pdf", "heads.png", "heads.svg", "heads.pdf",
        "report.html", "report.json",
    }  # fmt: skip


def test_curves_csv_has_a_row_a_point(out):
    rows = list(csv.DictReader((out / "curves.csv").read_text().splitlines()))
    names = "model,task,units,method,order,mode,fill,repeat,k,metric,value,low,high".split(",")
    assert list(rows[0]) == names
    assert {row["order"] for row in rows} == {"absolute", "signed", "chance"}
    assert {row["metric"] for row in rows} == {
        "explained_effect",
        "logit_diff",
        "prob_diff",
        "log_prob",
        "accuracy",
        "kl",
    }
    ends = [row for row in rows if row["metric"] == "explained_effect" and row["k"] in ("0", "12")]
    assert {(row["k"], row["value"]) for row in ends} == {("0", "0"), ("12", "1")}


def test_the_summary_says_how_many_and_which(out):
    summary = json.loads((out / "summary.json").read_text())
    assert len(summary["curves"]) == 6
    entry = summary["curves"][0]
    assert (entry["task"], entry["order"], entry["total"]) == ("ioi", "absolute", 12)
    assert len(entry["which"]) == entry["needed"]
    assert entry["needed_low"] <= entry["needed_high"]


def test_the_resolved_study_runs_again_to_the_same_curves(out, shared_cache, tmp_path):
    again = hc.run(out / "study.toml", out=tmp_path / "again")
    assert (again.computed, again.cached) == (0, 10)
    for name in ("curves.csv", "scores.csv", "figure.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


def test_provenance_names_versions_hashes_and_arguments(out):
    facts = json.loads((out / "provenance.json").read_text())
    assert set(facts["versions"]) == {"python", "headcount", "torch", "transformers", "tokenizers", "numpy"}
    curve = facts["curves"][0]
    assert len(curve["model"]["sha256"]) == len(curve["task"]["sha256"]) == 16
    assert curve["arguments"]["seed"] == 0


@pytest.mark.usefixtures("no_figures")
def test_two_models_get_ratios_with_their_direction(folder, own_cache, tmp_path):
    import torch

    def loader(name):
        model = hc.load(folder, name=name)
        with torch.no_grad():
            for parameter in model.hf.parameters():
                parameter.mul_(1.5 if name == "loud" else 1)
        return model

    result = hc.run("heads-kept", models=["plain", "loud"], tasks=["ioi"], out=tmp_path, overrides=SMALL, loader=loader)
    assert [curve.model for curve in result.curves] == ["plain"] * 3 + ["loud"] * 3
    for ratio in result.summary["ratios"]:
        assert ratio["words"] == f"{ratio['more']} needs {ratio['ratio']:.1f}x the heads of {ratio['fewer']}"
        assert ratio["ratio"] >= 1


@pytest.mark.usefixtures("no_figures")
def test_changed_weights_are_not_mistaken_for_a_finished_job(folder, own_cache, tmp_path):
    import torch

    first = run(folder, tmp_path / "first")

    def changed(name):
        model = hc.load(name)
        with torch.no_grad():
            model.hf.lm_head.weight[0] += 1
        return model

    second = run(folder, tmp_path / "second", loader=changed)
    assert (first.computed, second.computed) == (10, 10)


@pytest.mark.usefixtures("no_figures")
def test_a_damaged_result_is_computed_anew(folder, own_cache, tmp_path):
    run(folder, tmp_path / "first")
    for job in (own_cache / "steps").iterdir():
        next(job.glob("*.safetensors")).write_bytes(b"broken")
    assert run(folder, tmp_path / "second").computed == 10
    assert (tmp_path / "first" / "curves.csv").read_bytes() == (tmp_path / "second" / "curves.csv").read_bytes()


@pytest.mark.usefixtures("no_figures")
def test_a_killed_run_goes_on_and_ends_in_the_same_bytes(folder, tmp_path):
    """kill -9 as soon as some jobs are finished, then the same command again, against an undisturbed run."""

    def begin(place):
        names = ["--model", folder, "--task", "ioi", "--task", "ioi-long", "-n", "16"]
        names += ["--points", "6", "--draws", "4", "--repeats", "1", "--method", "one-pass"]
        return start("run", "heads-kept", *names, "--out", place / "out", cache=place)

    broken, whole = tmp_path / "broken", tmp_path / "whole"
    process = begin(broken)
    jobs = broken / "steps"
    while process.is_alive() and not (jobs.is_dir() and len(finished(jobs)) >= 3):
        time.sleep(0.01)
    process.kill()
    assert ended(process) == -signal.SIGKILL, "the run ended before it could be killed"
    assert not (broken / "out" / "curves.csv").exists()
    done = finished(jobs)
    written = {job: (jobs / job).stat().st_mtime_ns for job in done}

    assert [ended(begin(place)) for place in (broken, whole)] == [0, 0]
    assert {job: (jobs / job).stat().st_mtime_ns for job in done} == written, "a finished job was computed again"
    assert (broken / "out" / "curves.csv").read_bytes() == (whole / "out" / "curves.csv").read_bytes()


def finished(jobs):
    return [path.name for path in jobs.iterdir() if not path.name.startswith(".")]


# ---------------------------------------------------------------------------------------------------------------------
# The TOML


def test_wrong_names_are_found_before_anything_runs(folder, own_cache, tmp_path):
    for overrides, words in (
        ({"method": "x"}, "no scoring method"),
        ({"metric": "x"}, "no metric"),
        ({"fill": "x"}, "no fill"),
        ({"method": "eap"}, "'eap' scores edges, and heads are wanted"),
    ):
        with pytest.raises(hc.HeadcountError, match=words):
            hc.run("heads-kept", models=["not loaded"], out=tmp_path / "out", overrides=overrides)


@pytest.mark.parametrize("study", ["heads-kept", "edges-kept", "attention-edges-kept", "head-roles"])
@pytest.mark.parametrize(
    ("task", "words"), [("iio", "no task 'iio'. Did you mean 'ioi'"), ("gone.jsonl", "gone.jsonl .*No such file")]
)
def test_a_task_that_is_not_there_is_told_before_a_model_is_fetched(study, task, words, own_cache, tmp_path):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.run(study, models=["not loaded"], tasks=[task], out=tmp_path / "out")


@pytest.mark.parametrize(
    ("study", "method", "words"),
    [
        ("heads-kept", "atribution", "There is no scoring method 'atribution' for heads. Did you mean 'attribution'?"),
        (
            "edges-kept",
            "atribution",
            "There is no scoring method 'atribution' for edges. Known: eap, eap-attnlrp, ",
        ),
        ("edges-kept", "patchin", "There is no scoring method 'patchin' for edges. Did you mean 'edge-patching'?"),
        ("edges-kept", "mean:eap,patchin", "There is no scoring method 'patchin' for edges. Did you mean 'edge-patch"),
    ],
)
def test_an_unknown_method_is_met_with_those_of_the_same_units(study, method, words, own_cache, tmp_path):
    with pytest.raises(hc.HeadcountError) as refusal:
        hc.run(study, models=["not loaded"], out=tmp_path, overrides={"method": method})
    assert words in str(refusal.value)
    assert str(refusal.value).endswith("See 'headcount methods'.")


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({}, "one-pass"),
        ({"fill": "zero"}, "attribution"),
        ({"method": "learned"}, "learned"),
        ({"fill": "resample"}, "attribution"),
        ({"mode": "mask", "fill": "counterfactual"}, "attribution-ig"),
        ({"method": "one-pass", "fill": "counterfactual"}, "attribution-ig"),
        ({"method": "one-pass", "fill": "zero"}, "attribution"),
        ({"method": "patching"}, "patching"),
        ({"units": "edges"}, "edge-learned"),
        ({"units": "edges", "method": "one-pass", "fill": "zero"}, "eap-ig"),
    ],
)
def test_the_method_that_fits_units_and_fill_is_chosen_unless_one_is_named(settings, method):
    kind = STUDIES[f"{settings.get('units', 'heads')}-kept"]
    assert kind.settings(task="ioi", models=("m",), **settings).method == method


KEPT = ("heads-kept", "edges-kept")


def test_units_are_kept_in_an_order_that_the_scores_have():
    """Learned scores have no sign, and one order."""
    one_pass = {kind: STUDIES[kind].settings(task="ioi", method="one-pass").orders for kind in KEPT}
    assert one_pass == dict.fromkeys(KEPT, ("best", "chance"))
    learned = {"heads-kept": "learned", "edges-kept": "edge-learned"}
    found = {STUDIES[kind].settings(task="ioi", method=method).orders for kind, method in learned.items()}
    assert found == {("absolute", "chance")}
    with pytest.raises(
        hc.HeadcountError, match="The order 'signed' goes by the sign of scores, and those of learned have none"
    ):
        STUDIES["heads-kept"].settings(task="ioi", method="learned", orders=["signed"])


@pytest.mark.usefixtures("no_figures")
def test_a_study_learns_its_ranking(folder, own_cache, tmp_path):
    few = {"n": 8, "points": 3, "updates": 3, "draws": 1, "repeats": 1}
    for study, method in (("heads-kept", "learned"), ("edges-kept", "edge-learned")):
        few["method"] = method
        result = hc.run(study, models=[folder], tasks=["ioi"], out=tmp_path / study, overrides=few, quiet=True)
        ranked, chance = result.summary["curves"]
        assert (ranked["method"], ranked["order"], chance["order"]) == (method, "absolute", "chance")


EDGES = {
    "n": 6,
    "points": 4,
    "draws": 2,
    "repeats": 1,
    "method": "one-pass",
    "orders": ["absolute", "signed", "chance"],
}


def run_edges(folder, out, **arguments):
    return hc.run("edges-kept", models=[folder], tasks=["ioi"], out=out, overrides=EDGES, quiet=True, **arguments)


def test_a_study_of_edges_leaves_scores_and_circuits(folder, own_cache, tmp_path):
    result = run_edges(folder, tmp_path / "out")
    (place,) = (tmp_path / "out" / "edges").iterdir()
    assert {path.name for path in place.iterdir()} == {
        "edge-scores.safetensors", "edge-scores.json", "circuit.json", "circuit.graphml", "circuit.svg",
    }  # fmt: skip
    assert not (tmp_path / "out" / "scores.csv").exists()
    by_order = {entry["order"]: entry for entry in result.summary["curves"]}
    needed = by_order["absolute"]["needed"]
    found = json.loads((place / "circuit.json").read_text())
    assert sum(edge["in_graph"] for edge in found["edges"].values()) >= needed
    assert set(by_order["signed"]["areas"]) == {"CPR", "CMD"}
    assert by_order["absolute"]["units"] == "edges"
    assert by_order["absolute"]["which"] == []
    loaded = hc.EdgeScores.load(place)
    assert by_order["absolute"]["total"] == loaded.graph.n_edges
    again = run_edges(folder, tmp_path / "again")
    assert (again.computed, again.cached) == (0, 5)
    assert (tmp_path / "again" / "curves.csv").read_bytes() == (tmp_path / "out" / "curves.csv").read_bytes()


@pytest.mark.usefixtures("no_figures")
def test_edges_by_query_head_and_with_another_fill(folder, own_cache, tmp_path):
    wide = hc.run(
        "edges-kept", models=[folder], tasks=["ioi"], out=tmp_path / "wide", quiet=True,
        overrides={**EDGES, "readers": "query-heads", "fill": "mean", "orders": ["absolute"], "prune": True},
    )  # fmt: skip
    entry = wide.summary["curves"][0]
    assert entry["fill"] == "mean"
    assert wide.scores[0].graph.n_kv_heads == wide.scores[0].graph.n_heads
    assert wide.curves[0].provenance["arguments"]["prune"] is True
    written = (tmp_path / "wide" / "study.toml").read_text()
    assert tomllib.loads(written)["panel"][0]["prune"] is True
    with pytest.raises(hc.HeadcountError, match="prune must be true or false; got 'yes'"):
        hc.run("edges-kept", out=tmp_path, overrides={"prune": "yes"})


def test_a_method_of_the_wrong_units_is_refused_before_a_model_is_loaded(own_cache, tmp_path):
    with pytest.raises(hc.HeadcountError, match="'attribution' scores heads, and edges are wanted. Use one of"):
        hc.run("edges-kept", models=["nowhere"], out=tmp_path, overrides={"method": "attribution"})


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"fill": "resample"}, "Edges can be filled with"), ({"positions": "last"}, "unknown key 'positions'")],
)
def test_cuts_that_edges_do_not_know_are_refused_before_a_model_is_loaded(own_cache, tmp_path, wrong, sentence):
    with pytest.raises(hc.HeadcountError, match=sentence):
        hc.run("edges-kept", models=["nowhere"], out=tmp_path, overrides=wrong)


def test_too_little_memory_is_said_before_anything_runs(folder, own_cache, tmp_path):
    with pytest.raises(hc.HeadcountError, match="One prompt of .* tokens needs .* are allowed"):
        run_edges(folder, tmp_path / "out", memory=1000)
    assert list((own_cache / "steps").iterdir()) == []
