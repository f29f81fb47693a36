"""Reports in a real browser: circuits, attention edges, roles and answers are those that Python has."""

import numpy as np
import pytest

from headcount.core.words import ROLES
from headcount.edit import head_name
from headcount.rank.roles import LABELS
from results_by_hand import HEADS, LAYERS


def test_the_circuit_has_the_first_edges_of_the_order_and_a_node_shows_its_own(report, opened):
    path, cells = report("edges-kept")
    scores = cells[0][0].scores
    page = opened(path)
    page.locator("#k").fill("4")  # the fifth of the measured k: 30 edges
    page.locator("#most button", has_text="160").click()
    order = scores.order("absolute")[:30]
    titles = set(page.locator("#circuit path title").all_text_contents())
    assert len(titles) == 30
    writers, readers = scores.graph.writers, scores.graph.readers
    reads = {"q": " (query)", "k": " (key)", "v": " (value)", "": ""}
    for writer, reader in order:
        node, _, role = readers[reader].partition("<")
        wanted = f"{writers[writer]} to {node}{reads[role.rstrip('>')]}: "
        assert any(title.startswith(wanted) for title in titles), wanted
    node = writers[order[0][0]]
    page.locator(f"#circuit [data-node='{node}']").focus()
    own = [(w, r) for w, r in order if writers[w] == node or readers[r].partition("<")[0] == node]
    assert page.locator("#circuit path.own").count() == len(own)


def test_attention_edges_stand_over_the_tokens_of_a_prompt(report, opened):
    path, cells = report("attention-edges-kept")
    curve = cells[0][0].curves[0]
    page = opened(path)
    page.locator("#k").fill("4")  # ten edges
    page.locator("#prompts tbody tr").nth(2).locator("button").click()
    edges = curve.own["2"][:10]
    titles = page.locator("#attention path title").all_text_contents()
    assert len(titles) == 10
    for (layer, head, query, key, score), title in zip(edges, titles, strict=True):
        assert title.startswith(f"{head_name((int(layer), int(head)))}: from ")
        assert f"({int(key)}) to " in title
        assert f"({int(query)}), " in title
        assert float(title.rsplit(" ", 1)[1]) == pytest.approx(score, rel=1e-2)
    name = head_name((int(edges[0][0]), int(edges[0][1])))
    page.select_option("#attention-head", name)
    assert page.locator("#attention path").count() == sum(title.startswith(f"{name}:") for title in titles)


def test_roles_are_those_of_most_fits_and_pale_where_fits_disagree(report, opened):
    path, cells = report("head-roles")
    roles = cells[0][0].scores
    page = opened(path)
    votes = np.stack([(roles.labels() == LABELS[role]).mean(0) for role in ROLES])
    verbs = {"facilitation": "helps", "irrelevance": "does neither", "interference": "hurts"}
    for layer, head in np.ndindex(LAYERS, HEADS):
        label = page.locator(f"#map [data-head='{layer}.{head}']").get_attribute("aria-label")
        own = dict(zip(ROLES, votes[:, layer, head], strict=True))
        most = [role for role, share in own.items() if share == max(own.values())]
        said = [f"{verbs[role]} in {100 * own[role]:.0f} %" for role in most] if max(own.values()) else ["unclear"]
        assert any(words in label for words in said)
    page.locator("#order button", has_text="interference").click()
    page.locator("#k").fill("3")
    mean = roles.aggregate("interference")
    least = min(
        mean[tuple(map(int, cell.get_attribute("data-head").split(".")))] for cell in page.locator("#map .lit").all()
    )
    assert page.locator("#map .lit").count() == 3
    assert (mean > least).sum() < 3


def test_answers_stand_side_by_side_with_what_each_metric_gave_them(report, opened):
    path, cells = report("masked-heads")
    cell = cells[0][0]
    page = opened(path)
    page.locator("#answers-k button", has_text="4").click()
    page.locator("#answers-draw button", has_text="2").click()
    for number, row in enumerate(page.locator("#answers tbody tr").all()):
        texts = [text.split("\n")[0] for text in row.locator("td").all_inner_texts()]
        assert texts[:2] == [cell.asked[number].text, cell.asked[number].answer]
        assert texts[2:] == [
            cell.whole[number], cell.masked["absolute"].texts[0][1][number], cell.masked["chance"].texts[1][1][number],
        ]  # fmt: skip
    page.locator("#answers tbody tr").first.locator("button").click()
    told = page.locator("#answers tbody tr").first.locator("td").nth(3).inner_text()
    for curve in (curve for curve in cell.curves if curve.order == "absolute"):
        for name, value in curve.values.items():
            assert f"{name.replace('_', ' ')} {float(f'{value[0, 1, 0]:.3g}'):g}" in told
    page.select_option("#answers-only", "changed")
    changed = sum(a != b for a, b in zip(cell.whole, cell.masked["absolute"].texts[0][1], strict=True))
    assert page.locator("#answers tbody tr").count() == changed
