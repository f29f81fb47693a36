"""Pages beside those of a study that just ended: of older results, of sparse twins, of many results, in notebooks."""

import json
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from headcount.core.saving import csv_text
from headcount.models.gated_folder import SparseFacts
from headcount.sparse.evaluation import Evaluation
from headcount.sparse.recipe import Recipe
from headcount.studies.index import write_index
from headcount.studies.report import read_report, told_apart, write_report
from headcount.view.page.curves import curve_data
from headcount.view.page.data import SCHEMA, PanelData
from results_by_hand import MARKUP, ByHand, write_by_hand

TASK = {"head-roles": ("syntax",), "masked-heads": ("retrieval",)}
KINDS = ("heads-kept", "edges-kept", "attention-edges-kept", "head-roles", "masked-heads")

BOUNDS = ("source books.txt", "source code")


def sparse_twin(folder, older=False):
    """What `headcount sparsify` leaves, without the weights."""
    by_head = [] if older else [[0.01 * layer + 0.001 * head for head in range(4)] for layer in range(3)]
    found = Evaluation(32, 8, 3.2, 3.1, 3.15, 0.02, 0.6, 0.5, 1, 12, {}, by_head)
    facts = found.to_dict() | {"by_source": {f"a{MARKUP}": {"loss": 3.2, "dense_loss": 3.1, "sequences": 8.0}}}
    if older:
        del facts["open_by_head"]
    recipe = Recipe(steps=900, batch=2)
    made = {"recipe": recipe.facts(), "text": ["a b.txt"], "versions": {"headcount": "0.5.0"}, "evaluation": facts}
    folder.mkdir(parents=True, exist_ok=True)
    SparseFacts("log-prob", 1.0, "tiny", "abc", made=made).save(folder)
    names = ("dense_loss", "loss", "keys_a_query", "open_share", "empty_rows", *(f"{one}_multiplier" for one in BOUNDS))
    rows = [{"step": float(step), **dict.fromkeys(names, 1 + 1 / step)} for step in range(1, 901)]
    (folder / "training.csv").write_text(csv_text(rows))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_result_has_a_report_of_what_its_files_say(kind, tmp_path, monkeypatch, opened):
    cells = write_by_hand(kind, tmp_path, monkeypatch, tasks=TASK.get(kind, ("ioi",)))
    whole = read_report(tmp_path)
    for name in ("report.html", "report.json"):
        (tmp_path / name).unlink()
    older = SCHEMA.validate_json(write_report(tmp_path).with_name("report.json").read_bytes())
    assert older.sentences == [said.replace("IOI", "ioi") for said in whole.sentences]
    assert len(older.curves) == len(whole.curves)
    assert [curve.bands for curve in older.curves] == [curve.bands for curve in whole.curves]
    assert older.maps == [map_ for map_ in whole.maps if map_.method != "probe-by-head"] or kind == "heads-kept"
    assert len(older.circuits) == len(whole.circuits)
    assert [one.whole for one in older.answers] == [one.whole for one in whole.answers]
    page = opened(tmp_path / "report.html")
    if kind == "heads-kept":
        curve = cells[0][0].curves[0]
        assert page.locator("td.value").first.inner_text() == str(curve.units_needed(0.9).value)
        assert page.locator("td.interval").first.inner_text() == "–"
        assert "older version" in page.locator("section:has(#curves-0)").inner_text()


def test_a_report_is_written_again_from_its_json(tmp_path, monkeypatch, headcount):
    write_by_hand("heads-kept", tmp_path, monkeypatch)
    before = (tmp_path / "report.html").read_bytes()
    (tmp_path / "report.html").unlink()
    code, out, _ = headcount("report", tmp_path)
    assert code == 0
    assert str(tmp_path / "report.html") in out
    assert (tmp_path / "report.html").read_bytes() == before


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is not the output folder of a study or of sparsify"),
        ({"report.json": "{}"}, "is not the report of a result"),
        ({"summary.json": '{"kind": "heads-kept"}'}, "is not the output folder of a study"),
        ({"summary.json": '{"kind": "unknown"}', "curves.csv": "model\n"}, "There is no study 'unknown'"),
        ({"sparse.json": "{}"}, "is not what headcount sparsify writes"),
    ],
)
def test_what_is_no_result_is_refused_in_a_sentence(files, message, tmp_path, headcount):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    code, _, said = headcount("report", tmp_path)
    assert code == 2
    assert message in said
    assert len(said) < 400
    assert headcount("view", tmp_path)[0] == 2


def test_a_sparse_twin_has_a_report_of_its_training(tmp_path, opened, accessible):
    page = opened(write_report(sparse_twin(tmp_path)))
    assert "opens 2.00% of the edges, 0.60 keys per query, at +3.23% of" in page.locator(".answer").inner_text()
    row = page.locator("#sources tbody tr").first
    assert row.locator("th").inner_text() == f"a{MARKUP}"
    assert row.locator("td").all_inner_texts() == ["3.1", "3.2", "+3.23 %", "8"]
    assert page.locator("#open [data-head='2.3']").get_attribute("aria-label") == "a2.h3: 2.3 % open"
    page.locator("#training-dense_loss").focus()
    page.keyboard.press("ArrowRight")
    first = read_report(tmp_path).training
    said = page.locator("section:has(#training-dense_loss) .readout").inner_text()
    assert said == f"dense loss · step {first.steps[0]}: {first.log['dense_loss'][0]:.4g}"
    bounds = page.locator("section:has(h2:text('Multipliers'))")
    assert [text.strip() for text in bounds.locator(".key").all_inner_texts()] == list(BOUNDS), "one for each source"
    assert bounds.locator("path[data-series]").count() == 2
    assert "headcount sparsify tiny --text 'a b.txt' --steps 900 --batch 2" in page.locator("pre").first.inner_text()
    accessible(page)


def test_an_older_sparse_twin_does_without_the_map(tmp_path, opened):
    page = opened(write_report(sparse_twin(tmp_path, older=True)))
    assert page.locator("#open").count() == 0
    assert page.locator("#sources").count() == 1


def test_an_index_shows_searches_and_compares_results(tmp_path, monkeypatch, opened, accessible, tabbed_through):
    made = {}
    for place, (name, seed) in {"a/first": ("dense", 0), "second": ("sparse", 1)}.items():
        hand = ByHand(seed=seed)
        made[place] = write_by_hand("heads-kept", tmp_path / place, monkeypatch, models=(name,), hand=hand)
    sparse_twin(tmp_path / "twin")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "summary.json").write_text("{")
    path, count = write_index(tmp_path)
    assert count == 3
    page = opened(path)
    assert page.locator(".result").count() == 3
    assert "broken" in page.locator(".warning").inner_text()
    tabbed_through(page)
    page.fill("#search", "sparse heads-kept")
    assert page.locator(".result").get_attribute("data-result") == "second"
    page.fill("#search", "")
    for place in made:
        page.locator(f"[data-result='{place}'] input").check()
    lines = page.locator("#beside tbody tr").all()
    shown = {line.locator("th").inner_text().strip(): line.locator("td").inner_text() for line in lines}
    words = {"absolute": "largest effect first", "signed": "most helpful first"}
    for place, cells in made.items():
        for curve in cells[0][0].curves[:2]:
            name = f"{place} · {curve.model} · {words[curve.order]}"
            assert shown[name] == str(curve.units_needed(0.9).value)
    accessible(page)
    page.locator("[data-result='second'] h2 a").click()
    assert page.url.endswith("/second/report.html")


def test_view_writes_the_index_and_reports_that_are_missing(tmp_path, monkeypatch, headcount):
    write_by_hand("heads-kept", tmp_path / "one", monkeypatch)
    (tmp_path / "one" / "report.html").unlink()
    (tmp_path / "one" / "report.json").unlink()
    code, out, _ = headcount("view", tmp_path, "--write")
    assert code == 0
    assert "1 result" in out
    assert (tmp_path / "one" / "report.html").exists()
    assert (tmp_path / "index.html").exists()


def test_results_show_themselves_in_a_notebook(tmp_path, opened):
    hand = ByHand()
    cell = hand.heads_kept(None, "m", "ioi")
    roles = hand.head_roles(None, "m", "syntax").scores
    edges = hand.edge_scores("m", "ioi")
    shown = {
        "curve": cell.curves[0],
        "scores": cell.scores,
        "roles": roles,
        "edges": edges,
        "circuit": edges.circuit(9),
    }
    texts = {name: result._repr_html_() for name, result in shown.items()}
    assert f"<p>m · IOI · absolute: {cell.curves[0].units_needed(0.9)} at a threshold of 0.9</p>" in texts["curve"]
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><main>{''.join(texts.values())}</main>")
    page = opened(path)
    curve, scores, role, edge, circuit = (page.frame_locator(f"iframe >> nth={place}") for place in range(len(shown)))
    assert curve.locator("td.value").inner_text() == str(cell.curves[0].units_needed(0.9).value)
    assert scores.locator("#map [role='gridcell']").count() == 32
    assert "helps" in role.locator(".legend").inner_text()
    assert edge.locator("#circuit path").count() == 80
    assert circuit.locator("#circuit path").count() == 9


def test_a_study_shows_its_report_in_a_notebook(tmp_path, monkeypatch):
    from headcount.studies.runner import StudyResult
    from headcount.studies.study import read_study

    cells = write_by_hand("heads-kept", tmp_path, monkeypatch)
    result = StudyResult(read_study("heads-kept"), tuple(cells[0]), tmp_path, {}, 0, 0)
    assert "of 32 heads for 90 % of IOI" in result._repr_html_()
    assert result.report == tmp_path / "report.html"


def test_the_schema_of_the_json_is_printed(headcount):
    code, out, _ = headcount("schema", "report")
    found = json.loads(out)
    assert code == 0
    assert {"curves", "maps", "prompts", "provenance"} <= set(found["properties"])


def test_a_folder_without_results_is_refused(tmp_path, headcount):
    assert headcount("view", tmp_path / "nowhere")[0] == 2
    code, _, said = headcount("view", tmp_path)
    assert code == 2
    assert "There are no results" in said


def test_results_are_served_to_this_machine_with_a_token(tmp_path, monkeypatch, opened):
    from headcount.studies.viewing import view_routes
    from headcount.view.server import Address, Served, guarded

    folder = tmp_path / "results"
    write_by_hand("heads-kept", folder / "one", monkeypatch)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "key.txt").write_text("secret")
    address = Address.bound()
    served = Served(guarded(view_routes(folder), address), address)
    try:
        page = opened(address.url)
        page.locator("[data-result='one'] h2 a").click()
        page.wait_for_selector("#curves-0")
        assert "90 % of IOI" in page.locator(".answer").inner_text()
        link = page.locator(".files a", has_text="summary.json").get_attribute("href")
        root = f"http://127.0.0.1:{address.port}/results"
        with urlopen(f"{root}/one/{link}") as answer:
            assert json.load(answer)["kind"] == "heads-kept"
        for path in ("%2e%2e/secret.txt", "..%2fsecret.txt", ".hidden/key.txt", "one", "nothing.csv"):
            assert status(f"{root}/{path}?token={address.token}") == 404
        assert status(f"{root}/one/summary.json") == 403, "without the token"
    finally:
        served.stop()


def status(url):
    try:
        with urlopen(url) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def test_panels_of_one_title_say_what_sets_them_apart():
    hand = ByHand()
    curves, panels = [], []
    for number, (fill, method) in enumerate((("zero", "a"), ("zero", "b"), ("mean", "a"))):
        for order in ("chance", "absolute"):
            curve = hand.curve("m", "ioi", order, [0, 1, 32], 32, fill=fill)
            curve = replace(curve, method="chance" if order == "chance" else method)
            curves.append(curve_data(curve, curve.rows(), number))
        panels.append(PanelData("IOI", 0.9))
    named = [panel.title for panel in told_apart([*panels, PanelData("Other", 0.9)], curves)]
    assert named == ["IOI, a, zero fill", "IOI, b, zero fill", "IOI, a, mean fill", "Other"]
