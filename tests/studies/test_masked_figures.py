"""Figures of masked heads: which line is which, the axis, what stands in for COMET, and what the caption says."""

import numpy as np
import pytest

import headcount as hc
from headcount.studies.masked_heads.figure import (
    ACCURACY_COLOUR,
    SIMILARITY_COLOUR,
    draw_functions,
    draw_masked,
    draw_steering,
    shown_similarity,
)
from headcount.sweeps.resampling import resamplings, widening
from headcount.sweeps.steering import Steering
from headcount.tasks.questions import FUNCTIONS

KS = (16, 32, 64, 128)


def curve(
    order: str, title: str = "Retrieval", model: str = "m", metrics=("accepted", "similarity", "chrf")
) -> hc.Curve:
    draws = 1 if order == "absolute" else 10
    rng = np.random.default_rng(len(title))
    return hc.Curve(
        model=model, task="retrieval", title=title, units="heads", method="probe", order=order, mode="mask",
        fill="scale(0.001)", metric="accepted", ks=KS, total=1024, ranking=(),
        values={name: rng.random((draws, 4, 6)) for name in metrics}, kind="answers",
        whole=dict.fromkeys(metrics, 0.8), groups=("a", "a", "b", "b", "c", "c"),
        provenance={"positions": "generated"},
    )  # fmt: skip


def cell(**settings) -> list[hc.Curve]:
    return [curve(order, **settings) for order in ("absolute", "chance", "chance-matched")]


def caption(figure) -> str:
    return " ".join(figure.get_supxlabel().split())


def labels(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_panel_a_function_with_top_solid_and_random_dashed_accuracy_blue_and_similarity_red():
    figure = draw_masked([[cell(title=name) for name in ("Retrieval", "Inference")]])
    assert [ax.get_title() for ax in figure.axes] == ["Retrieval", "Inference", "", ""]
    assert [ax.get_ylabel() for ax in figure.axes[::2]] == ["Accuracy", "MiniLM similarity"], (
        "two quantities share no axis"
    )
    for ax, colour in zip(figure.axes[::2], (ACCURACY_COLOUR, SIMILARITY_COLOUR), strict=True):
        curves = [line for line in ax.lines if len(line.get_xdata()) == 4]
        looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in curves}
        assert {(colour, "-", "o"), (colour, "--", "o")} <= looks
        assert len(curves) == 3
        assert len(ax.collections) == 2, "a band for top and random"
        level = [line for line in ax.lines if len(line.get_xdata()) == 2]
        assert [line.get_ydata()[0] for line in level] == [0.8], "the unmasked value"


def test_k_is_on_a_base_2_axis_with_its_numbers_and_scores_go_from_0_to_1():
    first, ax = draw_masked([[cell()]]).axes
    assert first.get_xlabel() == ""
    assert ax.get_xscale() == "log"
    assert ax.xaxis.get_transform().base == 2
    assert [label.get_text() for label in ax.get_xticklabels()] == ["16", "32", "64", "128"]
    assert ax.get_xlabel() == "Number of heads masked"
    assert ax.get_ylim() == (-0.03, 1.03)


@pytest.mark.parametrize(
    ("metrics", "shown", "word", "said"),
    [
        (("accepted", "comet", "similarity", "chrf"), "comet", "COMET", "COMET: masked answer against"),
        (("accepted", "similarity", "chrf"), "similarity", "MiniLM similarity", "similarity: cosine with the"),
        (("accepted", "chrf"), "chrf", "chrF similarity", "similarity: chrF against"),
        (("accepted",), "", None, "no similarity could be computed"),
    ],
)  # fmt: skip
def test_the_figure_says_which_similarity_it_shows(metrics, shown, word, said):
    curves = cell(metrics=metrics)
    figure = draw_masked([[curves] * 4])
    assert shown_similarity(curves) == shown
    assert said in caption(figure)
    assert labels(figure) == ["top k", "random k", "random k of the same layers", "no head masked"]
    assert [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel()] == ["Accuracy", *([word] if word else [])]


def test_the_caption_says_how_many_draws_questions_and_heads():
    words = caption(draw_masked([[cell()]]))
    assert "m (1,024 heads)" in words
    assert "mean of 10 draws outside the top k" in words
    assert "6 test questions per function" in words
    assert "from the last prompt token on" in words


def test_the_caption_says_where_heads_were_masked_and_speaks_of_draws_only_where_there_are_some():
    all_over = [hc.Curve(**{**vars(made), "provenance": {"positions": "all"}}) for made in cell()]
    assert "at every position" in caption(draw_masked([[all_over]]))
    assert "random k" not in caption(hc.plot(curve("absolute")))


def test_models_are_rows():
    figure = draw_masked([[cell(model="one")], [cell(model="two")]])
    assert [ax.get_ylabel() for ax in figure.axes] == [
        f"{model}\n{what}" for model in ("one", "two") for what in ("Accuracy", "MiniLM similarity")
    ]


def test_masked_curves_can_be_plotted_by_themselves_but_not_with_others():
    figure = hc.plot([*cell(), *cell(title="Inference")])
    assert [ax.get_title() for ax in figure.axes[:2]] == ["Retrieval", "Inference"]
    other = hc.Curve(**{**vars(curve("absolute")), "kind": "explained"})
    with pytest.raises(hc.HeadcountError, match="cannot share a figure"):
        hc.plot([curve("absolute"), other])


def test_intervals_resample_whole_templates():
    """With one value a template, only means over drawn templates can come out, moved away from the mean of all as far
    as so few of them ask for."""
    values = np.repeat([0.0, 3.0, 3.0], 8).reshape(1, 1, 24)
    groups = tuple(np.repeat(["a", "b", "c"], 8))
    made = hc.Curve(**{**vars(curve("absolute")), "ks": (16,), "values": {"accepted": values}, "groups": groups})
    loose = hc.Curve(**{**vars(made), "groups": ()})
    weights = resamplings(groups)
    np.testing.assert_allclose(weights.sum(1), 1)
    assert (weights[:, 0] == weights[:, 1]).all()
    possible = 2 + widening(3, 0.9) * (np.array([0, 1, 2, 3]) - 2)
    assert set(np.round(weights @ values[0, 0], 6)) <= set(np.round(possible, 6))
    wide, narrow = (np.subtract(*c.band("accepted")[:0:-1])[0] for c in (made, loose))
    assert wide > narrow


def test_maps_of_all_functions_and_their_overlap():
    rng = np.random.default_rng(0)
    figure = draw_functions(rng.normal(size=(8, 5, 4)), FUNCTIONS, np.eye(8), 3, "m")
    titles = [ax.get_title() or ax.get_title(loc="left") for sub in figure.subfigs for ax in sub.axes]
    assert titles[0] == "Retrieval"
    assert titles[-1] == "Overlap of the top 3 (Jaccard)"
    assert len(list(filter(None, titles))) == 9


def test_pushes_show_both_splits_the_control_and_the_alpha_chosen():
    rng = np.random.default_rng(0)
    made = Steering("m", "inference", 12, (0.0, 1.0, 5.0), np.array([[0, 0], [1, 1], [0, 1.0]]), rng.random((3, 4)),
                    rng.random((5, 4)), ("a",) * 4, {"control_alpha": 1.0})  # fmt: skip
    figure = draw_steering([made, made], "pushed")
    assert [ax.get_title() for ax in figure.axes] == ["Inference\n12 heads"] * 2
    assert labels(figure) == ["validation questions", "test questions", "random directions, test"]
    assert "5 random directions" in caption(figure)
