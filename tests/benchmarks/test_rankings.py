"""The table of rankings: what is measured is kept, the best is found by arithmetic, and each cell says what it is."""

import pytest
import rankings
from ranking_lines import Line, Row, read_lines
from rankings_report import report, winner

FACTS = {"date": "2026-01-01", "headcount": "1"}


def line(method, needed, forwards=1.0, *, task="t", order="absolute", true=3, units="heads", auroc=0.75):
    row = Row(order, auroc, (needed, needed, None), (0.5, 0.4, 0.6), (0.3, 0.2, 0.4), 0.25)
    return Line("m", task, method, units, "", FACTS, 30, 100, true, (0.5, 0.75), forwards, [row])


def test_the_best_needs_the_fewest_units_by_the_geometric_mean_over_cells():
    # a needs 1 and 4 times the fewest (mean 2), b 3 and 1 (mean 1.73).
    lines = [line("a", 10), line("b", 30), line("a", 20, task="u"), line("b", 5, task="u", auroc=0.25)]
    assert winner(lines, "heads", True, None) == (
        "| heads | known | 2 | any number | `b` | absolute | 1.73 | 0.500 | 1 |"
    )


def test_a_budget_leaves_out_what_costs_more_and_a_gap_what_was_not_measured_everywhere():
    lines = [line("dear", 1, 300), line("cheap", 10, 3), line("dear", 1, 2, task="u"), line("cheap", 10, task="u")]
    lines.append(line("once", 1))
    assert "`cheap`" in winner(lines, "heads", True, 5)
    assert "`dear`" in winner(lines, "heads", True, 500)
    assert winner(lines, "heads", True, 0) == winner(lines, "edges", True, 5) == winner(lines, "heads", False, 5) == ""


def test_what_is_never_reached_counts_as_all_units():
    lines = [line("a", None), line("b", 50)]
    assert "`b`" in winner(lines, "heads", True, None)
    assert "| a | absolute | 0.750 | **–** (– to –) | 0.50 | 0.30 | 0.25 | 1 |" in report(lines)


@pytest.fixture
def own_files(tmp_path, monkeypatch):
    monkeypatch.setattr(rankings, "LINES", tmp_path / "rankings.jsonl")
    monkeypatch.setattr(rankings, "REPORT", tmp_path / "RANKINGS.md")
    return tmp_path


def test_a_run_goes_on_behind_what_is_done_and_keeps_what_it_was_not_asked_for(own_files, capsys):
    asked = ["--models", "echo", "--pairs", "12", "--methods"]
    rankings.main([*asked, "patching", "induction"])
    rankings.main([*asked, "patching", "eap", "edge-patching", "--most-forwards", "10"])
    told = [text.split(":")[0].split(" · ")[-1] for text in capsys.readouterr().out.splitlines() if " · " in text]
    assert told == ["patching", "induction", "eap", "edge-patching"]
    lines = read_lines(own_files / "rankings.jsonl")
    patching = lines["echo", "echo", "patching"]
    assert [row.order for row in patching.rows] == ["absolute", "signed", "best"]
    assert patching.rows[0].auroc is None  # both heads are true
    assert lines["echo", "echo", "eap"].rows[0].auroc > 0.9
    assert patching.forwards == pytest.approx(2 + patching.total, abs=2)
    assert patching.best_two[1] == pytest.approx(1, abs=1e-6)
    table = (own_files / "RANKINGS.md").read_text()
    assert "`edge-patching` (would take" in table
    assert "`induction` (its prompts are longer" in table
    assert "| heads | known | 1 | 20 | `patching` |" in table


def test_a_line_that_was_made_with_other_code_is_made_again(own_files, monkeypatch, capsys):
    asked = ["--models", "echo", "--pairs", "4", "--methods", "chance"]
    rankings.main(asked)
    monkeypatch.setattr(rankings, "package_source", lambda: "another")
    rankings.main(asked)
    assert capsys.readouterr().out.count("echo · echo · chance") == 2
    assert len(read_lines(own_files / "rankings.jsonl")) == 1
