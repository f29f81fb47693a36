"""What is finished can be looked at before the whole study is: figure, tables and summary after each panel."""

import csv
import json

import pytest

import headcount as hc
from headcount.studies import runner

SMALL = {
    "heads-kept": ({"n": 8, "points": 3, "draws": 2, "repeats": 1, "method": "one-pass"}, ["ioi", "greater-than"]),
    "head-roles": ({"n": 8, "seeds": 1, "updates": 2, "batch": 2, "ks": [1], "draws": 1}, ["ioi", "greater-than"]),
}


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize("study", SMALL)
def test_finished_panels_are_written_while_others_run(study, folder, own_cache, tmp_path, monkeypatch):
    overrides, tasks = SMALL[study]
    seen, write = [], runner._write

    def watched(place, *arguments):
        found = write(place, *arguments)
        tasks = [row["task"] for row in csv.DictReader((place / "curves.csv").read_text().splitlines())]
        both = (place / "figure.png").is_file(), (place / "report.html").is_file()
        seen.append((list(dict.fromkeys(tasks)), *both))
        return found

    monkeypatch.setattr(runner, "_write", watched)
    monkeypatch.setattr(runner, "BETWEEN_WRITES", -1)
    asked = {"models": [folder], "tasks": tasks, "overrides": overrides, "quiet": True}
    result = hc.run(study, out=tmp_path / "step-by-step", **asked)
    assert seen == [(tasks[: number + 1], True, True) for number in range(len(tasks))]
    assert result.computed == len({step["key"] for step in steps(tmp_path / "step-by-step")})
    monkeypatch.setattr(runner, "BETWEEN_WRITES", 1000)
    hc.run(study, out=tmp_path / "at-once", **asked)
    assert len(seen) == len(tasks) + 1
    for name in ("curves.csv", "summary.json", "study.toml"):
        assert (tmp_path / "step-by-step" / name).read_bytes() == (tmp_path / "at-once" / name).read_bytes()


def steps(folder):
    return json.loads((folder / "provenance.json").read_text())["steps"]


@pytest.mark.usefixtures("no_figures")
def test_the_folder_of_a_study_that_was_stopped_is_not_said_to_be_anothers(folder, own_cache, tmp_path, monkeypatch):
    overrides, tasks = SMALL["heads-kept"]
    monkeypatch.setattr(runner, "BETWEEN_WRITES", -1)
    asked = {"models": [folder], "tasks": tasks, "overrides": overrides, "out": tmp_path}
    write, count = runner._write, []

    def stopped(*arguments):
        write(*arguments)
        count.append(1)
        if len(count) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_write", stopped)
    with pytest.raises(KeyboardInterrupt):
        hc.run("heads-kept", **asked, quiet=True)
    said = []
    monkeypatch.setattr(runner, "say", said.append)
    monkeypatch.setattr(runner, "_write", write)
    assert len(hc.run("heads-kept", **asked).summary["curves"]) == 4
    assert not [words for words in said if "another study" in words]
