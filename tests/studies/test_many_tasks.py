"""Many tasks at once: a pattern becomes a panel for each part, and the heads that tasks share are shown."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import headcount as hc
from curves_by_hand import curve_of
from headcount.studies.forecast import print_plan
from headcount.studies.kept import tasks as together
from headcount.studies.kept.settings import HeadsKept
from headcount.studies.kept.steps import KeptCell
from headcount.studies.study import read_study
from headcount.sweeps.overlap import Overlap


@pytest.fixture
def parts(tmp_path):
    """Three parts of BLiMP's kind, in our own words."""
    place = tmp_path / "blimp"
    place.mkdir()
    for name, (good, bad) in {
        "sing_plural": ("sing", "sings"),
        "sing_past": ("sang", "sung"),
        "run": ("ran", "run"),
    }.items():
        lines = [
            {"sentence_good": f"The {n} girls {good} well.", "sentence_bad": f"The {n} girls {bad} well."}
            for n in ("two", "six", "ten", "old", "tall", "kind")
        ]
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (place / "README.md").write_text("no part")
    return place


def test_a_pattern_is_a_panel_for_each_file_of_a_folder(parts):
    study = read_study("heads-kept", tasks=[f"blimp:{parts}/*"])
    names = ("run", "sing_past", "sing_plural")
    assert [panel.task for panel in study.panels] == [f"blimp:{parts / name}.jsonl" for name in names]
    with pytest.raises(hc.HeadcountError, match="No file in .* matches 'x\\*'"):
        read_study("heads-kept", tasks=[f"blimp:{parts}/x*"])
    with pytest.raises(hc.HeadcountError, match="The set gsm8k has no parts"):
        read_study("heads-kept", tasks=["gsm8k:*"])


def test_all_parts_of_blimp_are_asked_of_the_hub(monkeypatch):
    import datasets

    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda hub: ["wh_island", "adjunct_island"])
    study = read_study("heads-kept", tasks=["blimp:*"])
    assert [panel.task for panel in study.panels] == ["blimp:adjunct_island", "blimp:wh_island"]

    def fail(hub):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "get_dataset_config_names", fail)
    with pytest.raises(hc.HeadcountError, match="give a folder that you have: 'blimp:FOLDER/\\*'"):
        read_study("heads-kept", tasks=["blimp:*"])


def test_a_study_of_several_tasks_says_which_heads_they_share(parts, folder, own_cache, no_figures, tmp_path):
    asked = {"n": 4, "points": 4, "method": "one-pass", "orders": ["absolute"]}
    result = hc.run(
        "heads-kept", models=[folder], tasks=[f"blimp:{parts}/*"], overrides=asked, out=tmp_path / "out", quiet=True
    )
    (entry,) = result.summary["tasks"]
    assert sorted([*entry["tasks"], *entry["left_out"]]) == ["run", "sing past", "sing plural"]
    rows = list(csv.DictReader((tmp_path / "out" / "tasks.csv").read_text().splitlines()))
    needed = {curve["title"]: curve["which"] for curve in result.summary["curves"] if curve["which"]}
    assert {task: [row["head"] for row in rows if row["task"] == task] for task in entry["tasks"]} == needed
    assert {row["head"]: int(row["tasks"]) for row in rows} == entry["heads"]


SETS = {"a": ("a0.h0", "a0.h1"), "b": ("a1.h0", "a1.h1"), "c": ("a0.h1", "a0.h0"), "d": ("a1.h1",)}


def test_tasks_that_share_their_heads_are_one_cluster():
    found = Overlap(SETS, 8)
    assert found.clusters() == [["a", "c"], ["b", "d"]]
    assert sorted(map(sorted, found.clusters(least=0.6))) == [["a", "c"], ["b"], ["d"]]
    assert sorted(found.clusters(least=0.0)[0]) == ["a", "b", "c", "d"]


def test_the_figure_has_a_row_a_task_and_a_column_a_head():
    cells = []
    for task, heads in {**SETS, "never": ("a0.h0", "a0.h1")}.items():
        curve = curve_of([[0, 1, 1], [0, 1, 1]], ks=[0, len(heads), 8])
        if task == "never":
            curve = replace(curve, values={"logit_diff": np.zeros((1, 3, 2))})
        curve = replace(curve, title=task, ranking=heads)
        cells.append(KeptCell(HeadsKept(task="ioi"), None, [curve]))
    found = together.served(cells)
    (entry,) = together.entries(found)
    assert entry["clusters"] == [["a", "c"], ["b", "d"]]
    assert entry["left_out"] == ["never"]
    assert entry["heads"] == {"a0.h0": 2, "a0.h1": 2, "a1.h1": 2, "a1.h0": 1}
    (ax,) = together.draw_tasks(found).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a (2)", "c (2)", "b (2)", "d (1)"]
    shown = dict(zip(entry["heads"], np.asarray(ax.get_images()[0].get_array()).T.tolist(), strict=True))
    assert shown == {"a0.h0": [1, 1, 0, 0], "a0.h1": [1, 1, 0, 0], "a1.h1": [0, 0, 1, 1], "a1.h0": [0, 0, 1, 0]}
    words = " ".join(together.words(entry))
    assert "4 of 8 heads serve one of 4 tasks or more" in words
    assert "Left out, as their threshold is never reached: never." in words
    assert together.served(cells[:2]) == {}, "two tasks have ratios and overlaps of their own"


def test_a_plan_from_shapes_says_gpu_hours_and_memory_without_the_models(own_cache, capsys):
    """2 operations a weight and token: of GPT-2's 124,439,808 weights."""
    study = read_study("heads-kept", models=["gpt2"], tasks=["ioi"], overrides={"n": 20, "method": "one-pass"})
    print_plan(study, None)
    out = capsys.readouterr().out
    (row,) = [line.split() for line in out.splitlines() if line.strip().startswith("gpt2")]
    tokens, hours = int(row[2].replace(",", "")), float(row[3])
    assert hours == pytest.approx(2 * 124_439_808 * tokens / 5e13 / 3600, rel=0.05)
    assert row[4:6] == ["249", "MB"]
    with pytest.raises(hc.HeadcountError, match="neither a named model"):
        print_plan(read_study("heads-kept", models=["somebody/else"], tasks=["ioi"]), None)
