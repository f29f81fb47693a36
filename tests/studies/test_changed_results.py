"""The output folder of a study in which somebody has changed something: one sentence, whatever it is."""

import json
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import headcount as hc
from headcount.studies.report import write_report
from results_by_hand import write_by_hand


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What nobody has changed yet."""
    place = tmp_path_factory.mktemp("written") / "out"
    with pytest.MonkeyPatch.context() as patch:
        write_by_hand("edges-kept", place, patch)
    return place


@pytest.fixture
def place(written, tmp_path):
    return shutil.copytree(written, tmp_path / "out")


def change(path, **fields):
    """On purpose, so that what is changed is looked at and not the hash that tells of it."""
    facts = json.loads(path.read_text())
    facts.pop("sha256", None)
    path.write_text(json.dumps({**facts, **fields}))


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("provenance.json", {"curve_folders": {"first": []}}),
        ("provenance.json", {"curve_folders": {"first": ["nowhere"], "again": []}}),
        ("provenance.json", {"curve_folders": {"first": [3], "again": []}}),
        ("provenance.json", {"curve_folders": 5}),
        ("provenance.json", {"scores": 7}),
        ("*/*/edge-scores.json", {"graph": {"n_layers": 10**9, "n_heads": 8, "n_kv_heads": 8}}),
        ("*/*/edge-scores.json", {"graph": {"n_layers": 4, "n_heads": 8, "n_kv_heads": 0}}),
        ("*/*/curve.json", {"ks": [3, 2, 1]}),
        ("*/*/curve.json", {"ks": []}),
        ("*/*/curve.json", {"metric": "another"}),
        ("*/*/curve.json", {"groups": ["a"]}),
        ("*/*/curve.json", {"provenance": {"mix": "half"}}),
    ],
)
def test_a_run_that_was_changed_does_not_open(place, file, fields):
    hc.open(place)
    change(sorted(place.glob(file))[0], **fields)
    with pytest.raises(hc.HeadcountError, match="finished study|not as a study left|holds no|before 0.7"):
        hc.open(place)


@pytest.mark.parametrize("shape", [(3, 7), (1, 7, 0), (1, 6, 12), ()])
def test_numbers_of_another_shape_are_no_curve(place, shape):
    path = sorted(place.glob("curves/*/curve.safetensors"))[0]
    save_file({name: np.zeros(shape) for name in load_file(path)}, path)
    change(path.with_suffix(".json"))
    with pytest.raises(hc.HeadcountError, match=r"has the shape .*, which does not fit \[draw, k, pair\]"):
        hc.open(place)


def test_texts_deep_down_are_no_scores(place):
    path = sorted(place.glob("*/*/edge-scores.json"))[0]
    path.write_text("[" * 100_000)
    with pytest.raises(hc.HeadcountError, match="holds no whole edge-scores.json"):
        hc.open(place)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "curves.csv",
            "model,task,units,method,order,fill,k,metric,value,low,high\nm,t,edges,eap,signed,zero,1,x,y,0,1\n",
        ),
        ("curves.csv", "model\nm\n"),
        ("curves.csv", "a\0b"),
        ("summary.json", '{"kind": "edges-kept", "curves": 5, "title": "t", "ratios": []}'),
        ("summary.json", '{"kind": "edges-kept"}'),
        ("summary.json", "[" * 100_000),
        ("provenance.json", '{"scores": [5]}'),
        ("study.toml", b"\xff"),
    ],
)
def test_a_report_cannot_be_made_of_what_was_changed(place, headcount, file, text):
    (place / "report.json").unlink()
    (place / file).write_bytes(text.encode() if isinstance(text, str) else text)
    for words in (("report", place), ("view", place, "--write")):
        code, _, said = headcount(*words)
        assert (code, len(said) < 320) == (2, True), said


@pytest.mark.parametrize("text", ["{}", "[]", "5", '{"steps": [5]}', '{"steps": [{"key": "a"}]}', "[" * 100_000])
def test_steps_cannot_be_shown_of_what_was_changed(place, headcount, text):
    (place / "provenance.json").write_text(text)
    code, _, said = headcount("cache", "show", place)
    assert (code, len(said) < 320) == (2, True), said


def test_half_of_a_surrogate_pair_makes_no_page(place):
    (place / "report.json").unlink(missing_ok=True)
    path = place / "summary.json"
    facts = json.loads(path.read_text())
    del facts["sha256"]
    facts["title"] = "\ud800"
    path.write_text(json.dumps(facts))
    with pytest.raises(hc.HeadcountError, match="summary.json is not as a study left it: .* half of a surrogate pair"):
        write_report(place)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"kind": ', "summary.json is not as a study left it: this is not JSON (Expecting value at column 10). Run"),
        ("[]", "summary.json is not as a study left it: it must hold a JSON object. Run the study again"),
        ('{"sha256": "0"}', "summary.json is not as it was written. Run the study again"),
        (b"\xff", "summary.json is not as a study left it: byte 0 is not UTF-8. Run the study again"),
        (None, "the page is made from report.json alone"),
    ],
)
def test_a_page_is_not_made_beside_a_damaged_summary(place, headcount, text, words):
    """report.json may be whole and say something else."""
    path = place / "summary.json"
    path.unlink()
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    code, _, said = headcount("report", place)
    assert (code, words in said) == (0 if text is None else 2, True), said


def test_what_is_missing_or_damaged_is_told_without_words_of_python(place, headcount):
    (place / "report.json").unlink()
    (place / "provenance.json").write_text("")
    said = [headcount("cache", "show", place)[2]]
    (place / "summary.json").write_text('{"title": 5}')
    said.append(headcount("report", place)[2])
    (place / "summary.json").unlink()
    said.append(headcount("report", place)[2])
    assert all(said)
    assert not re.findall(r"\w+Error|Errno|char 0", "".join(said)), said


def test_a_summary_that_was_edited_is_not_believed(place):
    path = place / "summary.json"
    path.write_text(path.read_text().replace('"title": "', '"title": "My '))
    with pytest.raises(hc.HeadcountError, match="summary.json is not as it was written. .*remove 'sha256' there"):
        hc.open(place)
    facts = json.loads(path.read_text())
    del facts["sha256"]
    path.write_text(json.dumps(facts))
    assert hc.open(place).summary["title"].startswith("My ")
