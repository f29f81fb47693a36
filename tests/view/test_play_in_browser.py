"""The switchboard in a real browser: what it shows is what Python says, and what is planted stays text."""

import pytest
import torch

import headcount as hc
from headcount.rank.patterns import attention_weights

NAME = "<b>tiny</b>"
PLANTED = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def model():
    return hc.load("tiny", name=NAME)


@pytest.fixture(scope="module")
def pair(model):
    return hc.task("ioi", model, n=16).test[0]


@pytest.fixture(scope="module")
def board(model, pair, tmp_path_factory):
    """Its model, its saved results and its prompts carry markup in their names."""
    folder = tmp_path_factory.mktemp("results")
    task = hc.Task("<i>task</i>", "T", "logit_diff", (pair,), (pair,))
    hc.score(model, task, "attribution").save(folder / "<u>scores<" / "u>")
    words = {"prompt": model.decode(pair.clean), "other": model.decode(pair.corrupt)}
    answers = {"answer": model.decode(pair.answers[:1]), "wrong": model.decode(pair.wrongs[:1])}
    made = hc.play(model, **words, **answers, results=folder, studies=folder / "studies", source="tiny")
    yield made
    made.stop()


def settled(page):
    """All that was asked for has come."""
    page.wait_for_selector("main[aria-busy=false]")


def values(page, selector):
    return {
        int(row.get_attribute("data-token")): [
            float(cell.get_attribute("data-value")) for cell in row.query_selector_all("[data-value]")
        ]
        for row in page.query_selector_all(f"{selector} tr[data-token]")
    }


def cut_names(page):
    cells = page.query_selector_all("#heads [aria-selected=true]")
    return [f"a{layer}.h{head}" for layer, head in (cell.get_attribute("data-head").split(".") for cell in cells)]


def python_says(model, pair, cut, fill):
    ids, other = torch.tensor([pair.clean]), torch.tensor([pair.corrupt])
    with torch.no_grad(), hc.cut(model, cut, fill, other=other):
        return model.last_logits(ids, torch.tensor([ids.shape[1] - 1]))[0].double(), attention_weights(model, ids)


def test_heads_are_cut_by_click_drag_and_key_and_the_page_shows_what_python_says(opened, board, model, pair):
    page = opened(board.url)
    page.wait_for_selector("#next-tokens")
    page.click('[data-head="1.2"]')
    page.wait_for_selector("#cut-count:text-is('1')")
    start, end = (page.locator(f'[data-head="2.{head}"]').bounding_box() for head in (0, 3))
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(end["x"] + 5, end["y"] + 5, steps=12)
    page.mouse.up()
    page.wait_for_selector("#cut-count:text-is('5')")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_selector("#cut-count:text-is('6')")
    page.select_option("#fill", "counterfactual")
    settled(page)
    cut = cut_names(page)
    assert {"a1.h2", "a2.h0", "a2.h1", "a2.h2", "a2.h3"} < set(cut)

    whole, _ = python_says(model, pair, [], "zero")
    logits, weights = python_says(model, pair, cut, "counterfactual")
    shown = values(page, "#next-tokens")
    assert len(shown) >= 10
    for token, (before, after) in shown.items():
        assert before == pytest.approx(float(whole.softmax(-1)[token]), abs=1e-6)
        assert after == pytest.approx(float(logits.softmax(-1)[token]), abs=1e-6)
        seen = page.text_content(f"#next-tokens tr[data-token='{token}'] td:last-child")
        assert f"{100 * after:.2f} %" in seen
    difference = float(logits[pair.answers[0]] - logits[pair.wrongs[0]])
    assert float(page.get_attribute("#metric-cut", "data-value")) == pytest.approx(difference, abs=1e-6)

    page.hover('[data-head="3.4"]')
    page.wait_for_selector("#looked-at:text-is('a3.h4')")
    page.select_option("#query", "5")
    keys = page.query_selector_all(".keys[data-run=cut] .key")
    found = [float(key.get_attribute("data-weight")) for key in keys]
    assert found == pytest.approx(weights[3][0, 4, 5, :6].tolist(), abs=1e-5)

    # The address alone brings all of it back; so do undo and redo.
    page.reload()
    page.wait_for_selector("#cut-count:text-is('6')")
    settled(page)
    assert cut_names(page) == cut
    assert page.input_value("#fill") == "counterfactual"
    assert values(page, "#next-tokens") == shown
    page.click("#cut-all")
    page.wait_for_selector(f"#cut-count:text-is('{model.head_count}')")
    settled(page)
    assert values(page, "#next-tokens") != shown
    page.click("#undo")
    page.wait_for_selector("#cut-count:text-is('6')")
    settled(page)
    assert values(page, "#next-tokens") == shown
    page.click("#redo")
    page.wait_for_selector(f"#cut-count:text-is('{model.head_count}')")
    settled(page)


def test_fills_of_a_task_and_prompts_that_cannot_be_answered(opened, board, model, pair):
    page = opened(board.url)
    page.click('[data-head="1.2"]')
    page.wait_for_selector("#cut-count:text-is('1')")
    reference, ids = hc.task("ioi", model, n=64).train, torch.tensor([pair.clean])
    for fill in ("mean", "resample"):
        page.select_option("#fill", fill)
        page.wait_for_selector("#reference")
        settled(page)
        with torch.no_grad(), hc.cut(model, ["a1.h2"], fill, reference=reference):
            shares = model.last_logits(ids, torch.tensor([ids.shape[1] - 1]))[0].double().softmax(-1)
        for token, (_, after) in values(page, "#next-tokens").items():
            assert after == float(shares[token])
    page.select_option("#fill", "zero")
    page.fill("#wrongs", " two words")  # the console stays silent, which the fixture sees to
    page.wait_for_selector("#error:has-text('one token')")
    page.fill("#wrongs", model.decode(pair.wrongs[:1]))
    page.wait_for_selector("#next-tokens")
    settled(page)
    assert page.text_content("#error") == ""
    page.hover('[data-head="2.3"]')
    page.wait_for_selector("#looked-at:text-is('a2.h3')")
    other = torch.tensor([pair.corrupt])
    both = [attention_weights(model, each)[2][0, 3, -1] for each in (ids, other)]
    shown = [
        float(key.get_attribute("data-weight")) for key in page.query_selector_all(".keys[data-run=difference] .key")
    ]
    assert shown == pytest.approx((both[0] - both[1]).tolist(), abs=1e-5)


def test_a_saved_ranking_keeps_its_first_heads_and_a_pasted_list_is_cut(opened, board, model, pair):
    page = opened(board.url)
    page.click("#presets summary")
    page.select_option("#ranking", "<u>scores</u>")
    page.click("#load-ranking")
    page.wait_for_selector("#keep-top")
    page.locator("#k-slider").fill("7")
    page.click("#keep-top")
    page.wait_for_selector(f"#cut-count:text-is('{model.head_count - 7}')")
    task = hc.Task("t", "T", "logit_diff", (pair,), (pair,))
    kept = set(hc.score(model, task, "attribution").top(7))
    assert not kept & set(cut_names(page))
    page.click("#paste-list summary")
    page.fill("#pasted", "a0.h1, (3, 2)")
    page.click("#cut-pasted")
    page.wait_for_selector("#cut-count:text-is('2')")
    assert set(cut_names(page)) == {"a0.h1", "a3.h2"}
    settled(page)
    page.click("#copy-python")
    page.wait_for_selector("#python")
    made = {}
    exec(page.text_content("#python"), made)
    for token, (_, after) in values(page, "#next-tokens").items():
        assert after == float(made["probabilities"][token])


def test_tab_goes_to_everything_that_can_be_used(opened, board, tabbed_through):
    page = opened(board.url)
    page.wait_for_selector("#next-tokens")
    settled(page)
    tabbed_through(page)


def test_markup_in_every_field_is_shown_as_text_and_nothing_serious_bars_the_way(opened, board, accessible):
    page = opened(board.url)
    page.wait_for_selector("#next-tokens")
    page.fill("#prompt", PLANTED)
    page.wait_for_selector("#next-tokens tr")
    page.fill("#study-name", PLANTED[:60])
    page.click("#paste-list summary")
    page.fill("#pasted", PLANTED)
    page.click("#shelve")
    page.click("#tasks summary")
    page.click("#draw")
    page.wait_for_selector(".example")
    page.hover('[data-head="3.4"]')
    page.wait_for_selector("#toward")
    page.click("#copy-python")
    page.wait_for_selector("#python")
    settled(page)
    text = page.text_content("body")
    assert NAME in text
    assert PLANTED in text
    assert "<u>scores</u>" in page.text_content("#ranking")
    for element in ("b", "i", "u", "img", "main script"):
        assert page.locator(element).count() == 0
    accessible(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_runs_over_the_edge(opened, board, accessible, scheme):
    page = opened(board.url, width=390, height=844, color_scheme=scheme, has_touch=True)
    page.tap('[data-head="1.2"]')
    page.wait_for_selector("#cut-count:text-is('1')")
    page.wait_for_selector("#toward")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    settled(page)
    accessible(page)


def test_a_sparse_model_shows_which_keys_are_open(opened):
    sparse = hc.load("tiny-sparse")
    board = hc.play(sparse, "When Mary and John went to the store, John gave a book to", results=None)
    try:
        page = opened(board.url)
        page.hover('[data-head="2.3"]')
        page.wait_for_selector("#looked-at:text-is('a2.h3')")
        weights = attention_weights(sparse, torch.tensor([sparse.encode(page.input_value("#prompt"))]))[2][0, 3, -1]
        shut = page.locator(".keys[data-run=whole] .key.shut").count()
        assert shut == int((weights == 0).sum()) > 0
        assert f"{len(weights) - shut} of {len(weights)} keys open" in page.text_content(".keys[data-run=whole]")
        page.select_option("#colour", "open")
        page.wait_for_selector("#heads [aria-label*='of its keys open']")
        settled(page)
    finally:
        board.stop()
