"""Several fills in one study: a panel and a row of the figure for each, and files that do not overwrite each other."""

import csv
import json
import tomllib
from dataclasses import replace

import pytest
from test_figures import curves

import headcount as hc
from headcount.studies import STUDIES
from headcount.studies.kept.figure import draw
from headcount.studies.study import read_study, study_schema

SMALL = {"n": 8, "points": 3, "draws": 1, "repeats": 1, "orders": ["absolute"], "precision": 0.5}
PASS = {"method": "one-pass"}
FILLS = ["counterfactual", "mean", "zero"]


def run(study, folder, out, fill, **more):
    overrides = {**SMALL, "fill": fill, **({} if study.startswith("attention") else PASS), **more}
    return hc.run(study, models=[folder], tasks=["ioi"], out=out, overrides=overrides, quiet=True)


@pytest.mark.parametrize("study", ["heads-kept", "edges-kept", "attention-edges-kept"])
def test_a_list_of_fills_is_a_panel_for_each_and_all_tasks_come_before_the_next_fill(study):
    panels = read_study(study, tasks=["ioi", "docstring"], models=["m"], overrides={"fill": FILLS}).panels
    assert [(panel.fill, panel.task) for panel in panels] == [(f, t) for f in FILLS for t in ("ioi", "docstring")]
    (one,) = read_study(study, tasks=["ioi"], models=["m"], overrides={"fill": ["zero", "zero"]}).panels
    assert one == read_study(study, tasks=["ioi"], models=["m"], overrides={"fill": "zero"}).panels[0]


def test_panels_may_have_fills_of_their_own(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('[[panel]]\ntask = "ioi"\nfill = ["zero", "mean"]\n[[panel]]\ntask = "docstring"\n')
    found = [(panel.task, panel.fill) for panel in read_study(path).panels]
    assert found == [("ioi", "zero"), ("docstring", ""), ("ioi", "mean")]
    one_pass = read_study(path, overrides=PASS).panels
    assert [panel.method for panel in one_pass] == ["attribution", "one-pass", "attribution"]


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        ([], "fill must be a text or a list of texts"),
        (3, "fill must be"),
        (["zero", "naught"], "There is no fill 'naught'"),
    ],
)
def test_what_is_no_fill_is_said_before_a_model_is_loaded(fill, words, tmp_path):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.run("heads-kept", models=["nowhere"], tasks=["ioi"], out=tmp_path, overrides={"fill": fill})


def test_other_studies_take_one_fill():
    with pytest.raises(hc.HeadcountError, match="fill must be a text"):
        read_study("head-roles", overrides={"fill": ["zero", "mean"]})


@pytest.mark.usefixtures("no_figures")
def test_heads_with_three_fills(folder, own_cache, tmp_path, capsys):
    result = run("heads-kept", folder, tmp_path / "out", FILLS)
    assert [curve.fill for curve in result.curves] == FILLS
    model = result.curves[0].model
    names = sorted(path.name for path in (tmp_path / "out" / "scores").iterdir())
    endings = ["attribution-ig-counterfactual", "attribution-mean", "attribution-zero"]
    assert names == [f"ioi-{model}-{ending}" for ending in endings]
    for name in ("curves.csv", "scores.csv"):
        with (tmp_path / "out" / name).open() as file:
            rows = list(csv.DictReader(file))
        assert list(dict.fromkeys(row["fill"] for row in rows)) == FILLS, name
    alone = run("heads-kept", folder, tmp_path / "alone", "zero")
    assert (alone.computed, alone.cached) == (0, 3)
    assert [path.name for path in (tmp_path / "alone" / "scores").iterdir()] == [f"ioi-{model}-attribution"]
    written = tomllib.loads((tmp_path / "out" / "study.toml").read_text())
    assert [panel["fill"] for panel in written["panel"]] == FILLS
    assert read_study(tmp_path / "out" / "study.toml").panels == result.study.panels
    result.study.kind.part("table").show(result)
    out = capsys.readouterr().out
    assert "Zero fill asks what of the behaviour is left when the other units are silent." in out
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("IOI  ")]
    assert [row[:3] for row in rows] == [["IOI", "absolute", fill] for fill in FILLS]


def test_edges_with_two_fills_share_their_scores_and_have_a_circuit_each(folder, own_cache, tmp_path):
    result = run("edges-kept", folder, tmp_path, ["counterfactual", "zero"], readers="components")
    assert result.computed == 4  # the scores, two sweeps, and the prompts for the report
    places = sorted(path.name for path in (tmp_path / "edges").iterdir())
    model = result.curves[0].model
    assert places == [f"ioi-{model}-counterfactual", f"ioi-{model}-zero"]
    for place, entry in zip(places, result.summary["curves"], strict=True):
        scores = hc.EdgeScores.load(tmp_path / "edges" / place)
        assert scores.graph.whole
        found = json.loads((tmp_path / "edges" / place / "circuit.json").read_text())
        kept = sum(edge["in_graph"] for edge in found["edges"].values())
        assert kept == len(scores.circuit(entry["needed"]).split())


def test_attention_edges_have_fills_too(folder, own_cache, tmp_path):
    result = run("attention-edges-kept", folder, tmp_path, ["zero", "mean"])
    assert [curve.fill for curve in result.curves] == ["zero", "mean"]
    zero, mean = (curve.values["logit_diff"][0] for curve in result.curves)
    assert zero[-1].tolist() == mean[-1].tolist()
    assert zero[0].tolist() != mean[0].tolist()


def test_the_command_takes_fills_one_by_one(headcount, folder, tmp_path):
    asked = [
        "run",
        "heads-kept",
        "--model",
        folder,
        "--task",
        "ioi",
        "-n",
        8,
        "--order",
        "absolute",
        "--repeats",
        1,
        "--plan",
    ]
    code, out, err = headcount(*asked, "--fill", "zero", "--fill", "mean")
    assert code == 0, err
    steps = [line for line in out.splitlines() if " · ioi · " in line]
    wanted = ("zero", "zero", "prompts", "mean", "mean")
    assert [words in line for words, line in zip(wanted, steps, strict=True)] == [True] * 5
    code, _, err = headcount("run", "heads-kept", "--model", "nowhere", "--fill", "naught", "--out", tmp_path)
    assert code == 2
    assert "There is no fill 'naught'" in err


def test_the_schema_allows_one_or_several():
    fill = study_schema(STUDIES["heads-kept"])["properties"]["panel"]["items"]["properties"]["fill"]
    assert {option["type"] for option in fill["anyOf"]} == {"string", "array"}


def test_every_fill_has_a_row_of_its_own_in_the_figure():
    def panel(name, fill):
        return name, [replace(curve, fill=fill) for curve in curves("a", "b")]

    figure = draw([panel(name, fill) for fill in ("zero", "mean") for name in ("One", "Two", "Three")], threshold=0.9)
    places = {ax.get_title(loc="left"): (spec.rowspan.start, spec.colspan.start)
              for ax in figure.axes if (spec := ax.get_subplotspec())}  # fmt: skip
    assert places == {
        f"{name}: {fill} fill": (row, column)
        for row, fill in enumerate(("zero", "mean"))
        for column, name in enumerate(("One", "Two", "Three"))
    }
    caption = " ".join(figure.get_supxlabel().split())
    assert "zero and mean fill" in caption


def test_with_one_fill_titles_are_as_they_were():
    figure = draw([(name, curves("a")) for name in ("One", "Two")], threshold=0.9)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["One", "Two"]


def test_plotted_curves_of_several_fills_do_not_share_a_panel():
    figure = hc.plot([replace(curve, fill=fill) for fill in ("zero", "mean") for curve in curves("a")])
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["T: zero fill", "T: mean fill"]
