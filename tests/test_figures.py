"""Figures: every line with its band, one legend, the threshold, and a ratio that says its direction."""

import numpy as np
import pytest

import headcount as hc
from headcount.figures import draw, save_figure
from test_sweeps import curve_of


def curves(*models, orders=("absolute", "chance")):
    made = []
    for index, model in enumerate(models):
        for order in orders:
            rng = np.random.default_rng(index)
            ks = [0, 20, 40, 60, 80, 100]
            draws = np.cumsum(rng.random((3 if order == "chance" else 1, 6, 8)) * (1 + index), axis=1)
            curve = curve_of(None, ks, model=model, draws=draws)
            made.append(hc.Curve(**{**vars(curve), "order": order}))
    return made


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def test_one_model_gets_a_line_and_a_band_an_order_and_its_numbers():
    figure = hc.plot(curves("m"))
    (ax,) = figure.axes
    assert len(ax.collections) == 2, "a band for each line"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["largest effect first", "by chance"]
    needed = [str(curve.units_needed(0.9).value) for curve in curves("m")]
    assert sorted(texts(figure)) == sorted(needed)
    assert ax.get_title(loc="left") == "T"
    assert ax.get_xlabel() == "Number of heads kept"


def test_two_models_get_the_ratio_in_words():
    pair = curves("dense", "sparse", orders=("absolute",))
    (words,) = texts(hc.plot(pair))
    assert "needs" in words
    assert "x the heads" in words


def test_panels_stand_side_by_side_and_share_one_legend():
    figure = draw([(name, curves("a", "b")) for name in ("One", "Two", "Three", "Four", "Five")], threshold=0.9)
    assert len(figure.axes) == 5
    assert len(figure.legends) == 1


def test_files_are_the_same_bytes_every_time(tmp_path):
    names = []
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        names = [path.name for path in save_figure(hc.plot(curves("m"), title="T"), tmp_path / folder)]
    assert names == ["figure.png", "figure.svg", "figure.pdf"]
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_nothing_to_plot():
    with pytest.raises(hc.HeadcountError, match="no curves"):
        hc.plot([])
