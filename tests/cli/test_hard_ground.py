"""What users must never meet: a traceback, a name that is read as markup, work without end, a slip told too late."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from headcount.cli import show, unforeseen
from headcount.core import progress
from headcount.view import tables


def said(found):
    code, out, err = found
    assert code == 2, err
    assert out.count("\n") == 0
    assert err.count("\n") == 1
    assert len(err) <= 320
    return err


class TestUnforeseen:
    def test_it_is_one_sentence_a_log_and_exit_code_1(self, headcount, own_cache, monkeypatch):
        def broken():
            raise TypeError("a mistake\nof ours")

        monkeypatch.setattr(show, "known_tasks", broken)
        code, out, err = headcount("tasks", "list")
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "TypeError: a mistake of ours" in err
        assert "finished steps are kept" in err
        (log,) = (own_cache / unforeseen.LOGS).iterdir()
        assert str(log)[-40:] in err
        assert "Traceback" in log.read_text()
        assert "'tasks', 'list'" in log.read_text()

    def test_the_log_goes_elsewhere_where_the_cache_cannot_be_written(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path / "file"))
        monkeypatch.setattr(unforeseen.tempfile, "gettempdir", lambda: str(tmp_path))
        unforeseen.told_and_kept(ValueError("x"))
        assert len(list(tmp_path.glob("headcount-*.log"))) == 1


class TestMarkup:
    def test_names_in_tables_are_names(self, monkeypatch, capsys):
        tables.print_table(("[b]h", "x"), [("m[v2]", "[/b]"), ("m[v3]", "\x1b[31mred :smile:")])
        out = capsys.readouterr().out
        for words in ("[b]h", "m[v2]", "m[v3]", "[/b]", "\\x1b[31mred :smile:"):
            assert words in out
        assert "\x1b" not in out

    def test_names_in_bars_and_notes_are_names(self, monkeypatch):
        shown = io.StringIO()
        monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=shown, force_terminal=True, width=100))
        with progress.progress_bar(2) as bar:
            bar.describe("m[v2] [/b] \x1b[31m")
            bar.note("x[/i]")
        progress.say("m[v3] [/b]")
        with progress.waiting("m[v4]"):
            pass
        for words in ("m[v2]", "\\x1b[31m", "x[/i]", "m[v3] [/b]", "m[v4]"):
            assert words in shown.getvalue()

    def test_examples_do_not_command_the_terminal(self, headcount, folder, tmp_path):
        lines = [{"prompt": f"We saw {name}\x1b[31m", "target": " John"} for name in ("Mary", "Tom")]
        (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
        code, out, _ = headcount("tasks", "show", tmp_path / "t.jsonl", "--model", folder, "-n", 1)
        assert code == 0
        assert "\\x1b[31m" in out
        assert "\x1b" not in out

    def test_titles_and_names_can_be_read_back_from_toml_svg_and_graphml(self, tmp_path):
        import tomllib
        from xml.etree import ElementTree

        import numpy as np

        from headcount.models.graph import Graph
        from headcount.rank.circuit import Circuit
        from headcount.studies.study import read_study

        path = tmp_path / "s.toml"
        path.write_text('title = "a\\u001b[31m\\u0085\\u0007 $x$ <b>"\n[[panel]]\ntask = "ioi"\ntitle = "\\u0000"\n')
        study = read_study(path)
        assert study.title == "a\\x1b[31m\\x85\\x07 $x$ <b>"
        assert tomllib.loads(study.to_toml())["title"] == study.title
        graph = Graph(1, 2, 2, False)
        facts = {"model": "m\x1b<&[v2]", "task": "\x07t\ud800", "width": 4}
        circuit = Circuit(graph=graph, keep=graph.real, scores=np.ones(graph.real.shape), **facts)
        for name in ("svg", "graphml"):
            circuit.export(name, tmp_path / name)
            assert "<&[v2]" in "".join(ElementTree.parse(tmp_path / name).getroot().itertext()) or name == "graphml"


class TestWithoutEnd:
    @pytest.mark.parametrize(
        "options",
        [
            ("-n", 10**9), ("--draws", 10**9), ("--steps", 10**9), ("--points", 10**9), ("--repeats", 10**9),
            ("--seed", 2**63), ("--ks", "1," * 10 + "9" * 5000), ("--draws", 10**30),
        ],
    )  # fmt: skip
    def test_counts_have_limits(self, headcount, folder, options):
        said(headcount("run", "heads-kept", "--model", folder, "--task", "ioi", *options))

    @pytest.mark.parametrize(
        "arguments",
        [
            ("forecast", "gpt2", "--length", 10**12),
            ("run", "head-roles", "--task", "ioi", "--seeds", 10**9),
            ("run", "head-roles", "--task", "ioi", "--free-rate", "1e300,1"),
            ("run", "masked-heads", "--rate", "1e300"),
            ("run", "masked-heads", "--batch", 10**12),
            ("sparsify", "tiny", "--text", "x.txt", "--out", "o", "--lr", "1e300"),
            ("sparsify", "tiny", "--text", "x.txt", "--out", "o", "--steps", 10**12),
            ("tasks", "show", "ioi", "--model", "tiny", "-n", 10**9),
        ],
    )  # fmt: skip
    def test_of_every_command(self, headcount, arguments, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        said(headcount(*arguments))

    def test_what_would_take_weeks_asks_first(self, headcount, folder, tmp_path, monkeypatch):
        from headcount.meters import speed

        monkeypatch.setattr(speed, "tokens_a_second", lambda model: 1.0)
        arguments = ("run", "heads-kept", "--model", folder, "--task", "ioi", "-n", 1000, "--draws", 1000)
        err = said(headcount(*arguments, "--out", tmp_path / "o"))
        assert "days here. Ask for less" in err
        assert "--long" in err


def test_a_wrong_combination_in_the_last_panel_is_told_before_the_first_one_runs(headcount, folder, tmp_path):
    panel = '[[panel]]\ntask = "ioi"\nn = 4\npoints = 2\ndraws = 1\n'
    wrong = {
        'method = "attribution-ig"\nfill = "mean"': "attribution-ig takes the fill counterfactual; got 'mean'",
        'method = "learned"\nfill = "resample"': "learned takes the fill zero or mean",
        'method = "gating"': "gating knows the metric log_prob_per_token alone",
        'task = "syntax"\nmethod = "direct"\nfill = "zero"': "The method direct needs a counterfactual prompt",
        'task = "syntax"\nmetric = "logit_diff"\nfill = "zero"\nmethod = "attribution"': "this task has targets only",
    }
    path = tmp_path / "s.toml"
    for keys, words in wrong.items():
        last = panel.replace('task = "ioi"\n', "") if "task" in keys else panel
        path.write_text(f"{panel}\n{panel}seed = 2\n\n{last}{keys}\n")
        assert words in said(headcount("run", path, "--model", folder, "--out", tmp_path / "out"))
    assert not list((Path(tmp_path) / "cache").rglob("step.json")), "something was run"


def test_arguments_that_are_not_utf8_are_refused(headcount):
    assert "is not UTF-8" in said(headcount("check", "m\udcff"))
