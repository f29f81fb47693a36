"""Reports in a real browser: what they show is what Python computes, by mouse and by keyboard."""

import csv
import io
import json
from itertools import pairwise

import numpy as np
import pytest

from headcount.sweeps import control
from results_by_hand import HEADS, LAYERS, ByHand

KINDS = ("heads-kept", "edges-kept", "attention-edges-kept", "head-roles", "masked-heads")

SCROLLED = """() => new Promise((done) => {
  const last = document.documentElement.scrollHeight - innerHeight;
  let frames = 0;
  const step = () => { scrollTo(0, 60 * ++frames); 60 * frames < last ? requestAnimationFrame(step) : done(frames); };
  requestAnimationFrame(step);
})"""  # from the top to the end, 60 pixels a frame; gives the frames


def saved(page, name):
    """What a button saves."""
    with page.expect_download() as caught:
        page.locator(name).click()
    return caught.value.path().read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_every_study_opens_from_disk_and_is_accessible_in_light_and_dark(kind, report, opened, accessible):
    path, _ = report(kind, models=("m", "n"))
    for scheme in ("light", "dark") if kind in ("heads-kept", "head-roles") else ("light",):  # two have all colours
        page = opened(path, color_scheme=scheme)
        assert page.locator("h1").inner_text()
        assert page.locator(".answer li").count() >= 1
        accessible(page)


def test_the_threshold_is_dragged_and_the_units_needed_follow(report, opened):
    path, cells = report("heads-kept", models=("m", "n"))
    curves = [curve for cell in cells[0] for curve in cell.curves]
    page = opened(path)

    def shown():
        rows = page.locator("table.needed tbody tr")
        return [tuple(row.locator(f"td.{name}").inner_text() for name in ("value", "interval")) for row in rows.all()]

    def wanted(threshold):
        found = [curve.units_needed(threshold) for curve in curves]
        ends = [[needed.total if end is None else end for end in (needed.low, needed.high)] for needed in found]
        return [
            ("never", "–") if needed.value is None else (str(needed.value), f"{low} to {high}")
            for needed, (low, high) in zip(found, ends, strict=True)
        ]

    assert shown() == wanted(0.9)
    page.fill("#threshold", "0.75")
    assert shown() == wanted(0.75)
    handle = page.locator(".threshold rect")
    box = handle.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] + 70, steps=4)
    page.mouse.up()
    dragged = float(page.input_value("#threshold"))
    assert dragged < 0.7
    assert shown() == wanted(dragged)
    page.locator(".threshold").focus()
    page.keyboard.press("ArrowUp")
    assert float(page.input_value("#threshold")) == pytest.approx(dragged + 0.01)
    assert shown() == wanted(round(dragged + 0.01, 2))


def test_a_point_says_k_value_interval_and_what_comes_in(report, opened):
    path, cells = report("heads-kept")
    curve = cells[0][0].curves[0]
    page = opened(path)
    page.locator("#curves-0").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    said = page.locator(".readout").first.inner_text()
    value, low, high = (each[4] for each in curve.band())
    names = ", ".join(curve.ranking[curve.ks[3] : curve.ks[4]])
    assert f"k = {curve.ks[4]}:" in said
    assert f"explained effect {value:.3g} ({low:.3g} to {high:.3g})" in said
    assert f"comes in: {names}" in said
    page.keyboard.press("Enter")
    assert f"k = {curve.ks[4]} of {curve.total}" in page.locator("#k-words").inner_text()


def test_lines_metrics_and_axes_are_switched_and_a_stretch_is_zoomed_into(report, opened):
    path, _ = report("heads-kept")
    page = opened(path)
    lines = page.locator("#curves-0 path[data-series]")
    assert lines.count() == 3
    page.locator("table.needed input").nth(2).click()
    assert lines.count() == 2
    page.locator("#metric button", has_text="accuracy").click()
    assert page.locator(".threshold").count() == 0
    before = lines.first.get_attribute("d")
    page.locator("#axis button", has_text="logarithmic").click()
    assert lines.first.get_attribute("d") != before
    box = page.locator("#curves-0").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 120, steps=3)
    page.mouse.up()
    page.get_by_role("button", name="Whole range").click()
    assert page.get_by_role("button", name="Whole range").count() == 0


def test_the_line_of_repeats_pools_them_and_prompts_are_those_of_the_first(report, opened):
    path, cells = report("heads-kept", hand=ByHand(repeats=3))
    cell = cells[0][0]
    first, pooled = cell.curves[0], cell.repeats(cell.curves[0]).pooled
    assert first.ks != pooled.ks
    page = opened(path)
    table = csv.DictReader(io.StringIO(saved(page, "section:has(#curves-0) .saves button:text('CSV')")))
    own = [row for row in table if row["order"] == "absolute"]
    assert [int(row["k"]) for row in own] == list(pooled.ks)
    for side, wanted in zip(("value", "low", "high"), pooled.band(), strict=True):
        np.testing.assert_allclose([float(row[side]) for row in own], wanted, rtol=1e-5, atol=1e-6)
    k = 5
    assert k in pooled.ks
    assert k not in first.ks
    page.locator("#k").fill(str(k))
    assert f"explained effect {pooled.band().value[pooled.ks.index(k)]:.3g}" in page.locator("#k-words").inner_text()
    values = first.values["logit_diff"][0]
    place = int(np.abs(np.array(first.ks) - k).argmin())
    shown = [float(text.replace("−", "-")) for text in page.locator("#prompts td.effect").all_inner_texts()]
    np.testing.assert_allclose(shown, (values[place] - values[0]) / (values[-1] - values[0]).mean(), atol=0.01)
    assert "the first of 3 repeats" in page.locator("section:has(#prompts)").inner_text()
    assert "pool all repeats" in page.locator("section.top").text_content()


def test_methods_are_lines_of_one_chart_and_controls_come_on_request(report, opened):
    asked = {"method": ["attribution", "direct"], "controls": ["nonsense", "shuffled"]}
    path, cells = report("heads-kept", models=("m", "n"), **asked)
    page = opened(path)
    lines = page.locator("#curves-0 path[data-series]")
    assert page.locator(".panel").count() == 0, "one panel"
    assert lines.count() == 10, "of two models, two methods in two orders, and chance"
    page.locator("[data-switch=nonsense]").click()
    assert lines.count() == 14
    table = csv.DictReader(io.StringIO(saved(page, "section:has(#curves-0) .saves button:text('CSV')")))
    own = [row for row in table if (row["model"], row["method"], row["control"]) == ("m", "direct", "nonsense")]
    cell = cells[1][0]
    wanted = [control(cell.controlled, cell.controls["nonsense"], int(row["k"])) for row in own]
    assert len(own) == len(cell.controls["nonsense"].ks)
    for end, side in enumerate(("value", "low", "high")):
        np.testing.assert_allclose([float(row[side]) for row in own], [each[end] for each in wanted], rtol=1e-4)
    page.locator("[data-switch=direct]").click()
    assert lines.count() == 8
    page.locator("#method button", has_text="direct").click()
    assert "score by direct" in page.locator("#map").get_attribute("aria-label")
    rows = [row.locator("td").all_inner_texts() for row in page.locator(".facts tbody tr").all()]
    first = cell.scores.order("absolute")[0]
    assert [row[3] for row in rows] == ["attribution", "direct"]
    assert [float(row[0].replace("−", "-")) for row in rows] == pytest.approx(
        [own[0].scores.values[first] for own in cells], rel=1e-3
    )


def test_views_are_saved_as_svg_and_csv(report, opened):
    path, cells = report("heads-kept")
    page = opened(path)
    card = "section:has(#curves-0) .saves button"
    table = list(csv.DictReader(io.StringIO(saved(page, f"{card}:text('CSV')"))))
    curve = cells[0][0].curves[0]
    own = [row for row in table if row["order"] == "absolute"]
    assert [int(row["k"]) for row in own] == list(curve.ks)
    np.testing.assert_allclose([float(row["value"]) for row in own], curve.band().value, atol=1e-5)
    drawing = saved(page, f"{card}:text('SVG')")
    assert drawing.startswith("<svg")
    assert "var(--" not in drawing, "colours are written out"
    assert drawing.count("data-series") == 3
    assert "<svg" in saved(page, "section:has(#map) .saves button:text('SVG')")


def test_the_slider_lights_the_first_heads_of_the_order(report, opened):
    path, cells = report("heads-kept")
    scores = cells[0][0].scores
    page = opened(path)

    def lit():
        return {cell.get_attribute("data-head") for cell in page.locator("#map .lit").all()}

    for order, button in (("absolute", "largest effect first"), ("signed", "most helpful first")):
        page.locator("#order button", has_text=button).click()
        for k in (0, 5, 17):
            page.locator("#k").fill(str(k))
            assert lit() == {f"{layer}.{head}" for layer, head in scores.order(order)[:k]}


def test_a_head_is_found_by_keyboard_and_says_its_scores_rank_and_error(report, opened):
    path, cells = report("heads-kept", tasks=("ioi", "greater-than"))
    page = opened(path)
    page.locator("#map [tabindex='0']").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    assert page.locator(".facts h3").inner_text().startswith("a2.h1")
    rows = page.locator(".facts tbody tr").all()
    assert len(rows) == 2, "of both tasks"
    for row, (cell,) in zip(rows, cells, strict=True):
        scores = cell.scores
        error = scores.by_pair.std(0, ddof=1)[2, 1] / np.sqrt(len(scores.by_pair))
        rank = scores.order("absolute").index((2, 1)) + 1
        said = [text.replace("−", "-") for text in row.locator("td").all_inner_texts()]
        assert float(said[0]) == pytest.approx(scores.values[2, 1], rel=1e-3)
        assert float(said[1]) == pytest.approx(error, rel=1e-2)
        assert said[2] == f"{rank} of {LAYERS * HEADS}"
    label = page.locator("#map [data-head='2.1']").get_attribute("aria-label")
    assert label.startswith("a2.h1: score")


def test_prompts_are_sorted_filtered_and_have_curves_of_their_own(report, opened):
    path, cells = report("heads-kept")
    curve, texts = cells[0][0].curves[0], cells[0][0].prompts
    page = opened(path)
    place = 5
    page.locator("#k").fill(str(curve.ks[place]))
    values = curve.values["logit_diff"][0]
    gap = (values[-1] - values[0]).mean()
    effects = (values[place] - values[0]) / gap
    rows = page.locator("#prompts tbody tr")
    first = rows.first.locator("td").all_inner_texts()
    assert first[1] == texts.texts[0]
    assert first[2] == texts.counterfactuals[0]
    assert first[5].startswith("yes0 (75 %")
    spoken, heard = curve.said["said"][place], curve.said["said_chance"][place]
    says = [curve.words[str(int(token))].strip() for token in spoken]
    assert page.locator("#prompts thead button", has_text=f"Says at k = {curve.ks[place]}").count() == 1
    for text, word, chance in zip(page.locator("#prompts td.now").all_inner_texts(), says, heard, strict=True):
        assert text == f"{word} ({float(f'{100 * chance:.3g}'):g} %)"
    shown = [float(text.replace("−", "-")) for text in page.locator("#prompts td.effect").all_inner_texts()]
    np.testing.assert_allclose(shown, effects, atol=0.01)
    page.locator("#prompts thead button", has_text="Effect").click()
    shown = [float(text.replace("−", "-")) for text in page.locator("#prompts td.effect").all_inner_texts()]
    assert all(a >= b for a, b in pairwise(shown))
    page.select_option("#prompt-only", "right")
    assert rows.count() == 6, "every second answer is what the model says"
    page.select_option("#prompt-only", "right-now")
    assert rows.count() == sum(word == answer.strip() for word, answer in zip(says, texts.answers, strict=True))
    page.select_option("#prompt-only", "right")
    page.fill("#prompt-filter", "w4")
    assert rows.count() == 1
    rows.first.locator("button").click()
    page.locator("#own-curve").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    words = page.locator("section:has(#prompts) .readout").inner_text().replace("−", "-")
    assert float(words.rsplit(" ", 1)[1]) == pytest.approx(values[1, 4], rel=2e-3)


def test_markup_in_any_field_is_shown_as_text(report, opened):
    from results_by_hand import MARKUP

    for kind in KINDS:
        path, _ = report(kind, hand=ByHand(mark=MARKUP, prompts=4))
        page = opened(path)
        assert "hacked" not in page.title() or MARKUP in page.title()
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 2, "the data, and the one script of the page"
        assert MARKUP in page.locator("body").inner_text()


def test_a_report_of_many_heads_models_and_prompts_opens(report, opened, record_property):
    path, _ = report(
        "heads-kept", models=[f"m{i}" for i in range(5)], tasks=("ioi", "greater-than", "docstring", "ioi-long"),
        hand=ByHand(shape=(32, 32), prompts=100),
    )  # fmt: skip
    assert path.stat().st_size < 3e6
    page = opened(path)
    line = page.context.new_cdp_session(page)
    line.send("Performance.enable", {"timeDomain": "threadTicks"})
    busy = lambda: {one["name"]: one["value"] for one in line.send("Performance.getMetrics")["metrics"]}["TaskDuration"]
    assert page.locator("#map [role='gridcell']").count() == 1024
    assert page.locator("#prompts tbody tr").count() == 100
    before = busy()
    frames = page.evaluate(SCROLLED)
    told = {"bytes": path.stat().st_size, "frame": (busy() - before) / frames}
    for name, value in told.items():
        record_property(name, value)
    print("{bytes:,} bytes; {frame:.4f} s of CPU a frame to scroll".format(**told))


@pytest.mark.parametrize("kind", ["edges-kept", "masked-heads"])
def test_tab_goes_to_everything_that_can_be_used_in_the_order_of_the_page_and_out_again(
    kind, report, opened, tabbed_through
):
    path, _ = report(kind, hand=ByHand(prompts=4))
    tabbed_through(opened(path))


def test_it_can_be_read_on_a_phone(report, opened):
    path, _ = report("heads-kept", models=("m", "n"), hand=ByHand(shape=(25, 40), prompts=4))
    page = opened(path, width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    chart = page.locator("#curves-0").bounding_box()
    last = page.locator("#curves-0 .axes text", has_text="1,000").bounding_box()
    assert last["x"] + last["width"] <= chart["x"] + chart["width"], "the last number stands whole on the axis"


def test_the_json_beside_the_page_is_the_one_inside_it(report, opened):
    path, _ = report("heads-kept")
    page = opened(path)
    inside = json.loads(page.locator("#data").text_content())
    assert inside == json.loads(path.with_name("report.json").read_text())
