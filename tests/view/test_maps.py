"""Maps of heads and attention patterns: a colour bar each, tokens and names that can be read, nothing cut."""

import numpy as np
import pytest

import headcount as hc


def scores(method="attribution", task="ioi", signed=True, shape=(5, 3, 4)):
    values = np.random.default_rng(len(method)).normal(size=shape)
    return hc.HeadScores("m", task, method, "logit_diff", values if signed else np.abs(values), signed=signed)


def fits(figure):
    """Whether all that is drawn, letters included, lies within the figure."""
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return min(box.x0, box.y0) >= -0.02 and box.x1 <= width + 0.02 and box.y1 <= height + 0.02


def test_scores_are_a_map_with_a_colour_bar_that_is_even_around_zero():
    figure = hc.plot(scores())
    ax, bar = figure.axes
    (image,) = ax.get_images()
    low, high = image.get_clim()
    assert low == -high
    assert high == pytest.approx(np.abs(scores().values).max())
    assert bar.get_ylabel() == "logit_diff"
    assert ax.get_title(loc="left") == "ioi · m · attribution"
    assert fits(figure)


def test_the_first_heads_are_numbered():
    made = scores()
    ax = hc.plot(made).axes[0]
    places = {int(text.get_text()): (text.get_position()[1], text.get_position()[0]) for text in ax.texts}
    assert [places[rank] for rank in range(1, 6)] == made.order()[:5]


def test_several_scores_have_a_map_each_named_by_what_differs():
    figure = hc.plot([scores(), scores("patching"), scores("induction", signed=False)], title="Three methods")
    maps = figure.axes[:3]
    assert [ax.get_title(loc="left") for ax in maps] == ["attribution", "patching", "induction"]
    assert maps[2].get_images()[0].get_clim()[0] == 0
    assert fits(figure)


@pytest.mark.parametrize("shape", [(3, 2, 2), (2, 30, 9), (2, 12, 64)])
def test_maps_of_any_size_fit(shape):
    assert fits(hc.plot(scores("a method with quite a long name that goes on and on", shape=shape)))


def pattern(heads, tokens):
    weights = np.tril(np.ones((len(tokens), len(tokens)))) / np.arange(1, len(tokens) + 1)[:, None]
    return hc.AttentionPattern("m", tuple(tokens), tuple(heads), np.stack([weights] * len(heads)))


def test_a_pattern_names_its_tokens_on_both_sides():
    figure = hc.plot(pattern(["a0.h1"], ["<s>", " Mary", "\n", " a very long token indeed"]))
    ax, bar = figure.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["<s>", "·Mary", "\\n", "·a·very·long·…"]
    assert [label.get_text() for label in ax.get_yticklabels()][1] == "·Mary"
    assert bar.get_ylabel() == "Attention weight"
    assert fits(figure)


@pytest.mark.parametrize(("heads", "length"), [(1, 2), (1, 120), (4, 16), (32, 16)])
def test_patterns_of_any_number_and_length_fit(heads, length):
    figure = hc.plot(pattern([f"a{place}.h0" for place in range(heads)], [f" t{place}" for place in range(length)]))
    assert sum(len(ax.get_images()) for ax in figure.axes) == heads
    assert fits(figure)


def test_things_that_cannot_share_a_figure():
    with pytest.raises(hc.HeadcountError, match="results of one kind"):
        hc.plot([scores(), pattern(["a0.h0"], ["a"])])
    with pytest.raises(hc.HeadcountError, match="one by one"):
        hc.plot([pattern(["a0.h0"], ["a"])] * 2)
