"""Dense models, a control and sparse twins in one study and one figure; attention edges as a study of their own."""

import csv

import pytest
from test_figures import curves, texts

import headcount as hc
from headcount.studies import STUDIES
from headcount.studies.study import read_study

SMALL = {"n": 8, "points": 4, "draws": 2, "repeats": 1}


def test_attention_edges_are_a_study(folder, own_cache, tmp_path):
    result = hc.run("attention-edges-kept", models=[folder], tasks=["ioi"], out=tmp_path, overrides=SMALL, quiet=True)
    assert [curve.order for curve in result.curves] == ["absolute", "chance"]
    with (tmp_path / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["units"] for row in rows} == {"attention-edges"}
    assert not (tmp_path / "scores").exists()
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    again = hc.run("attention-edges-kept", models=[folder], tasks=["ioi"], out=tmp_path, overrides=SMALL, quiet=True)
    assert (again.computed, again.cached) == (0, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fill": "resample"}, "Attention edges can be filled with counterfactual, mean, mean-global, zero"),
        ({"mode": "mask"}, "unknown key 'mode'"),
        ({"orders": ["chance-matched"]}, "orders cannot be 'chance-matched'"),
    ],
)
def test_what_attention_edges_cannot_do_is_said_before_a_model_is_loaded(settings, message, tmp_path):
    with pytest.raises(hc.HeadcountError, match=message):
        hc.run("attention-edges-kept", models=["none"], tasks=["ioi"], out=tmp_path, overrides=settings)


@pytest.mark.parametrize("study", ["heads-kept", "edges-kept", "attention-edges-kept"])
def test_the_bundled_studies_have_both_families_and_the_command_takes_their_place(study):
    both = read_study(study)
    assert both.models == ("tiny", "tiny-sparse", "smollm2", "smollm2-control", "smollm2-sparse")
    assert len(both.panels) == 8
    own = read_study(study, models=["mine"])
    assert [panel.task for panel in own.panels] == ["greater-than", "ioi", "docstring", "ioi-long"]
    assert {panel.models for panel in own.panels} == {("mine",)}
    assert {panel.title for panel in own.panels} == {""}
    assert len(read_study(study, tasks=["ioi"]).panels) == 2


def test_the_studies_for_larger_models_can_be_read():
    examples = STUDIES["heads-kept"].toml.parents[4] / "studies"
    found = [read_study(path) for path in sorted(examples.glob("*.toml"))]
    assert len(found) == 7
    assert all(len(study.models) == 2 for study in found if study.kind.name != "head-roles")


def test_three_models_get_the_ratio_of_the_first_and_the_last():
    figure = hc.plot(curves("dense", "control", "sparse", orders=("absolute",)))
    (words,) = texts(figure)
    assert "dense" in words
    assert "sparse" in words
    assert "control" not in words


def test_many_models_and_orders_share_a_short_legend():
    figure = hc.plot(curves("dense", "sparse", orders=("absolute", "signed", "chance")))
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["dense", "sparse", "largest effect first", "random order"]
    assert len(figure.axes[0].collections) == 4  # the signed order is in the tables
