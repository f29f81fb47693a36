"""Figures: every line with its band, one legend, the threshold, and a ratio that says its direction."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import headcount as hc
from curves_by_hand import curve_of
from headcount.studies.head_roles.figure import draw_roles
from headcount.studies.kept.figure import draw
from headcount.view.style import STYLE, save_figure


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
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["largest effect first", "random order"]
    needed = [str(curve.units_needed(0.9).value) for curve in curves("m")]
    assert sorted(texts(figure)) == sorted(needed)
    assert ax.get_title(loc="left") == "T"
    assert ax.get_xlabel() == "Number of heads kept"


def test_two_models_get_the_ratio_in_words():
    dense, sparse = curves("dense", "sparse", orders=("absolute",))
    (words,) = texts(hc.plot([dense, sparse], threshold=0.9))
    assert words == "dense needs as many heads as sparse (1.0 to 1.0)\n100 each"
    (words,) = texts(hc.plot([dense, sparse], threshold=0.6))
    needed = sorted((curve.units_needed(0.6).value for curve in (dense, sparse)), reverse=True)
    assert needed[0] > needed[1]
    assert f"needs {needed[0] / needed[1]:.1f}x the heads\nof" in words
    assert words.endswith(f"\n{needed[0]} against {needed[1]}")


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


def test_letters_in_a_pdf_stay_letters(tmp_path, light_fonts, monkeypatch):
    """Journals refuse Type 3 fonts, and TrueType can be searched and copied."""
    monkeypatch.setitem(STYLE, "pdf.fonttype", light_fonts)
    save_figure(hc.plot(curves("m")), tmp_path)
    written = (tmp_path / "figure.pdf").read_bytes()
    assert b"/CIDFontType2" in written
    assert b"/Type3" not in written


def test_nothing_to_plot():
    with pytest.raises(hc.HeadcountError, match="no curves"):
        hc.plot([])


# ---------------------------------------------------------------------------------------------------------------------
# Roles


def role_cell(model="m", task="Syntax", seeds=3):
    """Roles of 12 heads and the four curves that go with them."""
    gates = np.random.default_rng(0).random((2, seeds, 3, 4))
    roles = hc.HeadRoles(model, task, "zero", gates[0], gates[0], gates[1], np.zeros((3, 1, seeds)))
    slopes = {"facilitation": -1.0, "irrelevance": 0.0, "interference": 0.5, "chance": -0.3}
    curves = [
        hc.Curve(
            model, task, task, "heads", "gating", order, "mask", "zero", "log_prob_change", (0, 2, 5), 12, (),
            {"log_prob_change": slope * np.array([0, 2, 5.0])[None, :, None] * np.ones((seeds, 1, 4))},
            base="plus", kind="change",
        )
        for order, slope in slopes.items()
    ]  # fmt: skip
    return roles, curves


def test_roles_have_a_row_a_task_and_beside_each_curve_a_map():
    rows = [[role_cell("a", task), role_cell("b", task)] for task in ("Syntax", "Math")]
    axes = draw_roles(rows, "Title").axes
    assert len(axes) == 2 * 2 * 2
    assert [ax.get_title(loc="left") for ax in axes[:4]] == ["a", "b", "a: roles", "b: roles"]
    assert axes[4].get_ylabel().startswith("Math")
    assert axes[4].get_xlabel() == "Number of ablated heads"


def test_roles_have_the_colours_of_the_seed_figure():
    ax = draw_roles([[role_cell()]]).axes[0]
    colours = [line.get_color() for line in ax.get_lines()[1:]]  # the first is the line at zero
    red, green, blue = 0, 1, 2
    for colour, strongest in zip(colours, (green, blue, red), strict=False):
        channels = mpl.colors.to_rgb(colour)
        assert max(range(3), key=channels.__getitem__) == strongest


def test_models_of_a_row_share_a_scale_and_rows_do_not():
    def scaled(cell, factor):
        roles, curves = cell
        return roles, [replace(c, values={n: v * factor for n, v in c.values.items()}) for c in curves]

    rows = [[role_cell("a"), scaled(role_cell("b"), 2)], [scaled(role_cell("a", "Math"), 30), role_cell("b", "Math")]]
    axes = draw_roles(rows).axes
    assert axes[0].get_ylim() == axes[1].get_ylim() != axes[4].get_ylim()
    assert axes[0].get_ylim()[0] < -10


def test_plot_draws_curves_by_role_without_maps():
    _, curves = role_cell()
    assert len(hc.plot(curves).axes) == 1
    with pytest.raises(hc.HeadcountError, match="cannot share a figure"):
        hc.plot([*curves, replace(curves[0], kind="explained")])


@pytest.mark.parametrize(("width", "inches", "rows"), [("column", 3.3, 4), ("page", 6.9, 2), ("", 12.7, 1)])
def test_figures_have_the_width_of_a_column_or_a_page(width, inches, rows):
    panels = [(name, curves("m")) for name in ("One", "Two", "Three", "Four")]
    figure = draw(panels, threshold=0.9, title="Explained effect against heads", width=width)
    assert figure.get_figwidth() == pytest.approx(inches)
    assert figure.axes[0].get_subplotspec().get_gridspec().nrows == rows
    assert figure.get_supxlabel().count("\n") <= 1, "a caption of two lines at most"


def test_learned_scores_are_no_effects():
    learned = [replace(curve, method="learned") for curve in curves("m")]
    assert [text.get_text() for text in hc.plot(learned).legends[0].get_texts()] == [
        "highest score first",
        "random order",
    ]


@pytest.mark.parametrize(
    ("mixes", "orders", "words"),
    [
        ((0.0, 0.0), (), "largest effect first"),
        ((1.0, 1.0), (), "most helpful first"),
        ((0.0, 0.5), (), "mix of most helpful and largest"),
        ((0.0, 1.0), (), "mix of most helpful and largest"),
        ((0.0, 0.0), ("absolute",), "largest effect first (the best mix)"),
    ],
)
def test_a_mix_is_called_by_the_order_that_it_is(mixes, orders, words):
    best, *others = curves("m", orders=("best", *orders, "chance"))
    mixed = tuple(replace(best, provenance={"mix": mix}) for mix in mixes)
    figure = draw([("T", [mixed[0], *others])], threshold=0.9, repeats={mixed[0]: hc.Repeats(mixed)})
    assert figure.legends[0].get_texts()[0].get_text() == words


def test_a_width_that_is_none_is_refused():
    with pytest.raises(hc.HeadcountError, match="column"):
        hc.plot(curves("m"), width="wide")


def beyond(*values):
    """A curve whose explained effect has these values between none and all."""
    return curve_of([[0, *values, 1]] * 8, range(0, 20 * (len(values) + 2), 20))


def test_axes_grow_to_where_a_line_goes_and_only_then():
    panels = {name: [(name, [curve])] for name, curve in (("near", beyond(0.5)), ("far", beyond(2.33, -0.6)))}
    near, far = (draw(panel, threshold=0.9) for panel in panels.values())
    assert near.axes[0].get_ylim() == pytest.approx((-0.3, 1.55), abs=0.01)
    assert far.axes[0].get_ylim()[0] < -0.6
    assert far.axes[0].get_ylim()[1] > 2.33
    assert not any("▲" in text or "▼" in text for text in texts(far)), "nothing leaves the panel"
    assert {-0.5, 0, 1, 2} <= set(far.axes[0].get_yticks())
    assert far.get_figheight() > near.get_figheight(), "what lies between 0 and 1 stays readable"


def test_panels_of_a_row_share_a_scale():
    figure = draw([("near", [beyond(0.5)]), ("far", [beyond(2.33)])], threshold=0.9)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_a_line_beyond_what_axes_grow_to_is_marked():
    figure = draw([("T", [beyond(40.0, -7.0)])], threshold=0.9)
    assert {"▲ 40", "▼ -7"} <= set(texts(figure))
    assert figure.axes[0].get_ylim()[1] < 5


def test_numbers_stand_above_the_lines():
    (ax,) = draw([("T", [beyond(2.33, 1.0)])], threshold=0.9).axes
    assert min(text.get_position()[1] for text in ax.texts) > 2.33


@pytest.mark.parametrize("width", ["column", "page", ""])
def test_titles_are_never_cut(width):
    """On whatever lines it takes, titles stay within the figure."""
    name = "A task of my own whose name goes on for much longer than any panel is wide"
    drawings = [
        draw([(name, curves("m"))] * 4, threshold=0.9, title=f"{name}; {name}", width=width),
        draw_roles([[role_cell(name), role_cell("b")]], title=name, width=width),
    ]
    for figure in drawings:
        canvas, whole = FigureCanvasAgg(figure), figure.bbox
        canvas.draw()
        renderer = canvas.get_renderer()
        written = [*(ax.title for ax in figure.axes), *(ax._left_title for ax in figure.axes)]
        for text in [*written, figure.legends[0].get_title()]:
            if text.get_text():
                box = text.get_window_extent(renderer)
                assert whole.x0 <= box.x0, text
                assert box.x1 <= whole.x1, text
                assert box.y1 <= whole.y1, text
