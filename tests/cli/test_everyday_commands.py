"""What scripts and careful users rely on: JSON, silence, exit codes, completion, sweeps of saved scores."""

import io
import json
import re
import shutil
import subprocess
import sys
import time

import pytest
import typer
from rich.console import Console

from headcount.cli.commands import app
from headcount.cli.export import add_export_commands
from headcount.cli.run import add_study_commands
from headcount.core import progress
from headcount.view.tables import print_table


@pytest.mark.parametrize(
    ("command", "usage"),
    [("score", "[OPTIONS] MODEL TASK\n"), ("view", "[OPTIONS] [FOLDER]\n"), ("compare", "[OPTIONS] FOLDERS...\n")],
)
def test_arguments_are_named_plainly(headcount, command, usage):
    _, out, _ = headcount(command, "--help")
    assert f"headcount {command} {usage}" in out
    assert not re.search(r"<\w+|{\w+}", out)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("swep",), "No such command 'swep'. Did you mean 'sweep'?"),
        (("cache", "nothing"), "No such command 'nothing'. "),
        (("run", "heads-kept", "--points", "x"), "Invalid value for '--points': it must be a whole number. See"),
        (("sweep", "s", "--threshold", "x"), "Invalid value for '--threshold': it must be a number. See"),
    ],
)
def test_slips_on_the_command_line_are_told_in_our_words(headcount, command, words):
    code, _, said = headcount(*command)
    assert (code, words in said) == (2, True), said


def test_a_refused_command_leaves_no_empty_folder(headcount, tmp_path):
    """But one that was there before stays."""
    for out in (tmp_path / "new" / "scores", tmp_path / "there"):
        (tmp_path / "there").mkdir(exist_ok=True)
        code, _, _ = headcount("score", "tiny", "no-such-task", "--out", out)
        assert code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


class TestJson:
    @pytest.mark.parametrize("command", [("methods",), ("tasks",), ("tasks", "list"), ("cache", "list")])
    def test_lists_are_objects(self, headcount, command):
        code, out, _ = headcount(*command, "--json")
        assert code == 0
        found = json.loads(out)
        assert all({"method", "task", "key"} & set(row) for row in found)

    def test_verdicts_of_the_self_check(self, headcount, folder):
        code, out, _ = headcount("check", folder, "--json")
        assert code == 0
        assert all(verdict["passed"] for verdict in json.loads(out))

    def test_what_a_task_file_holds(self, headcount, folder, tmp_path):
        pair = {"clean": "We saw Mary", "corrupt": "We saw John", "answer": " Mary", "wrong": " John"}
        other = {**pair, "clean": "We met Mary", "corrupt": "We met John"}
        lines = [pair, {"clean": "We"}, other]
        (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
        code, out, _ = headcount("tasks", "check", tmp_path / "mine.jsonl", "--model", folder, "--json")
        found = json.loads(out)
        assert (code, found["refused"].startswith("mine.jsonl, line 2: the field")) == (1, True), found["refused"]
        assert (found["used"], len(found["lines"])) == (2, 3)
        assert found["lines"][1]["error"]
        assert 0 <= found["accuracy"] <= 1

    def test_the_size_of_the_cache(self, headcount, tmp_path, monkeypatch):
        monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path))
        (tmp_path / "steps").mkdir()
        (tmp_path / "steps" / "one").write_bytes(b"four")
        code, out, _ = headcount("cache", "size", "--json")
        assert (code, json.loads(out)) == (0, {"folder": str(tmp_path), "bytes": {"steps": 4}})

    def test_what_was_exported(self, headcount, tmp_path):
        code, out, _ = headcount("export", "--json")
        assert code == 0
        assert {"export", "takes"} <= set(json.loads(out)[0])
        asked = ("--heads", "a1.h0", "--model", "tiny", "--out", tmp_path / "cut.py")
        code, out, _ = headcount("export", "hooks", *asked, "--json")
        assert (code, json.loads(out)) == (0, {"export": "hooks", "written": str(tmp_path / "cut.py")})

    def test_a_plan_says_what_it_takes(self, headcount, folder):
        code, out, _ = headcount("run", "heads-kept", "--quick", "--model", folder, "--task", "ioi", "--plan", "--json")
        assert code == 0
        start, *steps, end = json.loads(out)
        assert not any(step["cached"] for step in steps)
        assert (start["step"].startswith("start:"), end["step"].startswith("end:")) == (True, True)
        assert start["seconds"] > 0, "libraries, models and prompts"
        assert end["seconds"] > 0, "figures, tables and report"
        assert all(step["forwards"] > 0 and step["bytes"] > 0 for step in steps if "prompts" not in step["step"])


ASKED = (
    "--task",
    "ioi",
    "-n",
    8,
    "--points",
    3,
    "--draws",
    2,
    "--repeats",
    1,
    "--method",
    "attribution",
    "--order",
    "absolute",
)


@pytest.mark.usefixtures("no_figures")
def test_a_quiet_study_only_warns_and_json_is_its_summary(headcount, folder, tmp_path):
    asked = ("run", "heads-kept", "--model", folder, *ASKED, "--out", tmp_path / "out")
    code, out, said = headcount(*asked, "--quiet")
    assert (code, out) == (0, "")
    assert all(line.startswith("Warning: ") for line in said.splitlines()), said
    code, out, _ = headcount(*asked, "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["curves"] == json.loads((tmp_path / "out" / "summary.json").read_text())["curves"]
    assert (summary["computed"], summary["folder"]) == (0, str(tmp_path / "out"))


@pytest.mark.parametrize(("method", "unit"), [("attribution", "heads"), ("eap", "edges")])
def test_saved_scores_are_swept_on_the_prompts_they_left_out(headcount, folder, tmp_path, method, unit):
    scores, out = tmp_path / "scores", tmp_path / "swept"
    code, said, _ = headcount("score", folder, "ioi", "--method", method, "-n", 8, "--out", scores)
    assert code == 0
    assert "headcount sweep" in said
    code, said, warned = headcount("sweep", scores, "--model", folder, "--points", 3, "--out", out)
    assert code == 0
    assert f"{unit} " in said
    assert "Warning: ioi, tiny-llama: this was measured on 4 prompts" in warned
    assert "not the prompts of the scores" not in warned
    assert {path.name for path in out.iterdir()} >= {"curve.csv", "curve", "figure.png", "figure.pdf", "figure.svg"}
    code, said, warned = headcount(
        "sweep", scores, "--model", folder, "--seed", 5, "--points", 3, "--out", out, "--json"
    )
    assert code == 0
    assert "not the prompts of the scores" in warned
    assert json.loads(said)["folder"] == str(out)


def test_scores_of_other_weights_are_taken_with_a_warning_also_in_quiet(headcount, folder, tmp_path):
    from transformers import AutoModelForCausalLM

    other, scores = shutil.copytree(folder, tmp_path / "other"), tmp_path / "scores"
    hf = AutoModelForCausalLM.from_pretrained(folder)
    hf.lm_head.weight.data.mul_(1.1)
    hf.save_pretrained(other)
    headcount("score", folder, "ioi", "-n", 4, "--out", scores)
    asked = ["--points", 2, "--out", tmp_path / "swept", "--quiet"]
    for model, told in ((folder, False), (other, True)):
        code, _, said = headcount("sweep", scores, "--model", model, *asked)
        assert (code, "are not those of 'other'" in said) == (0, told), said
    asked = ["--task", "ioi", "-n", 4, "--repeats", 1, "--points", 2, "--draws", 1, "--threshold", 0.9, "--quiet"]
    asked += ["--scores", scores, "--out", tmp_path / "run"]
    code, _, said = headcount("run", "heads-kept", "--model", other, *asked)
    assert (code, "are not those of 'other'" in said) == (0, True), said


@pytest.mark.parametrize("ks", [",", "1,,2", "", "1,x"])
def test_a_list_of_numbers_without_numbers_is_refused(headcount, folder, ks):
    code, _, said = headcount("run", "heads-kept", "--model", folder, "--ks", ks)
    assert (code, "--ks takes comma-separated numbers" in said) == (2, True), said


def test_types_are_listed_without_the_empty_one(headcount, folder):
    code, _, said = headcount("run", "heads-kept", "--model", folder, "--dtype", "int8")
    assert (code, "Known: auto, bfloat16" in said) == (2, True), said


def test_a_sweep_refuses_a_mode_that_is_none(headcount, folder, tmp_path):
    code, _, said = headcount("sweep", tmp_path, "--mode", "drop", "--model", folder)
    assert code == 2
    assert "keep" in said


def test_a_key_at_the_top_is_shown_its_place(headcount, tmp_path):
    (tmp_path / "my.toml").write_text('kind = "heads-kept"\nthreshold = 0.8\n[[panel]]\ntask = "ioi"\n')
    code, _, said = headcount("run", tmp_path / "my.toml")
    assert code == 2
    assert "threshold belongs under [defaults]" in said


def test_completion_knows_studies_options_and_values(headcount, monkeypatch):
    for typed, wanted in (("run hea", "heads-kept"), ("run heads-kept --thr", "--threshold"), ("sw", "sweep")):
        words = ["headcount", *typed.split(" ")]
        monkeypatch.setenv("_HEADCOUNT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        assert wanted in headcount()[1], typed


def helps(command, context):
    """The help of a command and of all below it, by their names."""
    yield context.command_path, context.get_help()
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        yield from helps(below, typer.Context(below, parent=context, info_name=name))


@pytest.mark.parametrize("columns", [80, 120])
def test_help_fits_the_terminal_and_cuts_nothing(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    add_study_commands()
    add_export_commands()
    whole = typer.main.get_command(app)
    found = dict(helps(whole, typer.Context(whole, info_name="headcount")))
    assert len(found) > 30
    for name, words in found.items():
        assert max(map(len, words.splitlines())) <= columns, name
        assert "..." not in words.replace("[ARGS]...", "").replace("FOLDERS...", ""), name
        assert "…" not in words.replace("tiny, …", ""), name


def options(command, context):
    """The options of a command and of all below it that take a value."""
    yield from (each for each in command.params if each.param_type_name == "option" and not each.is_flag)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        yield from options(below, typer.Context(below, parent=context, info_name=name))


def test_what_stands_for_a_value_is_spelled_one_way_for_one_option():
    add_study_commands()
    add_export_commands()
    whole = typer.main.get_command(app)
    found = dict[str, set[str]]()
    for each in options(whole, typer.Context(whole, info_name="headcount")):
        found.setdefault(each.opts[-1], set()).add(each.metavar)
    assert found.pop("--loss") == {"NAME", "X"}, "what a ranking is trained for; of head-roles the weight of its loss"
    assert [name for name, spelled in found.items() if len(spelled) > 1] == []
    assert (found["--dtype"], found["--model"], found["--workers"]) == ({"TYPE"}, {"MODEL"}, {"N"})
    assert all(re.fullmatch("[A-Z]+", spelled) for each in found.values() for spelled in each)


SPINNING = """
import contextlib, json, sys
import headcount.cli.commands
turning, codes = [], {}

@contextlib.contextmanager
def waiting(words):
    turning.append(words)
    try:
        yield
    finally:
        turning.pop()

class Guard:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise SystemExit("with a spinner" if turning else "in silence")

sys.modules["headcount.cli.app"].waiting = waiting
sys.meta_path.insert(0, Guard())
for line in sys.argv[1:]:
    sys.argv = ["headcount", *line.split()]
    try:
        headcount.cli.main()
    except SystemExit as stop:
        codes[line] = stop.code
print(json.dumps(codes))
"""


def test_no_command_loads_torch_in_silence(tmp_path):
    """That takes seconds. What needs no torch, and what is refused before, says so at once."""
    (tmp_path / "own.jsonl").write_text("{}")
    commands = [
        "run heads-kept --quick", "run heads-kept --plan", "run edges-kept --memory 1GB", "run head-roles --on local",
        "tasks check own.jsonl", "tasks show ioi", "check tiny", "score tiny ioi --out o", "sweep s", "compare a b",
        "report .", "view . --write", "view . --no-open", "play tiny", "export svg r --out o", "forecast tiny",
        "export checkpoint r --out o", "eval tiny --tasks t", "pull tiny", "sparsify tiny --text t --out o",
        "comet setup",
    ]  # fmt: skip
    slip = "run edges-kept --method atribution --task ioi"
    asked = [*commands, slip]
    found = subprocess.run([sys.executable, "-c", SPINNING, *asked], cwd=tmp_path, capture_output=True, text=True)
    assert json.loads(found.stdout) == {**dict.fromkeys(commands, "with a spinner"), slip: 2}, found.stderr
    assert "There is no scoring method 'atribution' for edges." in found.stderr


def test_numbers_of_a_table_are_whole_in_80_columns(monkeypatch, capsys):
    """What lies on one line is less than rich would take for it; only long cells are broken."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    header = ("task", "model", "order", "needed", "interval", "range", "reached", "stays", "accuracy")
    numbers = ("chance", "32", "18 to 32", "4 to 10", "23", "32", "100 %")
    print_table(header, [("IOI", "tiny-sparse", *numbers), ("IOI", "a model with a long name", *numbers)])
    said = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).replace("\u00a0", " ")
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    assert all(word in said for word in (*header, *numbers))


def test_errors_are_broken_between_words_in_a_terminal(headcount, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    code, _, said = headcount("run", "heads-kpt")
    assert code == 2
    assert max(map(len, said.splitlines())) <= 80
    assert "attention-edges-kept" in said


def test_an_empty_cache_says_so(headcount, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path))
    assert "no finished steps" in headcount("cache", "list")[1]


def test_bare_headcount_shows_its_help(headcount):
    code, out, said = headcount()
    assert (code, said) == (2, "")
    assert "Commands:" in out


def test_help_names_the_exit_codes(headcount):
    assert "Exit codes: 0" in headcount("--help")[1]


class TestProgress:
    def shown(self, monkeypatch, width):
        shown = io.StringIO()
        made = Console(file=shown, force_terminal=True, width=width)
        monkeypatch.setattr(progress, "Console", lambda stderr: made)
        return shown

    @pytest.mark.parametrize("width", [80, 120])
    def test_a_bar_fits_the_terminal(self, monkeypatch, width):
        shown = self.shown(monkeypatch, width)
        with progress.progress_bar(4) as bar:
            bar.describe("smollm2 · greater-than · attribution-ig · repeat 2 · " + "x" * 60)
            bar.advance(1)
        lines = shown.getvalue().replace("\x1b", "\n").splitlines()
        assert any("25 %" in line for line in lines)
        assert "…" in shown.getvalue()
        assert shown.getvalue().count("\n") <= 2, "one line, drawn again and again"

    def test_what_the_cache_had_says_nothing_about_the_time_left(self, monkeypatch):
        self.shown(monkeypatch, 80)
        with progress.progress_bar(100) as bar:
            bar.drop(80)
            for _ in range(3):
                time.sleep(0.01)
                bar.advance(1)
            task = bar._task
        assert task.total == 20
        assert task.percentage == 15
        assert task.time_remaining is not None

    @pytest.mark.parametrize("say", [progress.say, progress.warn])
    def test_notes_are_broken_between_words(self, monkeypatch, say):
        shown = self.shown(monkeypatch, 20)
        say("scores 96 MB, circuits 60 MB, a few tokens at a time")
        lines = re.sub(r"\x1b\[[\d;]*m", "", shown.getvalue()).splitlines()
        assert len(lines) > 2
        assert " ".join(line.strip() for line in lines).endswith("circuits 60 MB, a few tokens at a time")

    def test_words_inside_words(self, monkeypatch):
        shown = self.shown(monkeypatch, 80)
        with progress.waiting("planning"), progress.waiting("loading tiny"):
            pass
        assert "planning" in shown.getvalue()

    def test_hushed(self, monkeypatch):
        shown = self.shown(monkeypatch, 80)
        progress.hush()
        try:
            with progress.waiting("planning"), progress.progress_bar(2) as bar:
                bar.describe("x")
            progress.say("y")
        finally:
            progress.hush(False)
        assert shown.getvalue() == ""


@pytest.mark.parametrize("metric", ["accuracy", "log_prob_per_token"])
def test_metrics_that_a_study_cannot_go_by_are_told_before_it_runs(headcount, folder, tmp_path, metric):
    asked = ["--task", "ioi", "-n", 8, "--metric", metric, "--out", tmp_path / "out"]
    for kind in ("heads-kept", "attention-edges-kept"):
        code, _, said = headcount("run", kind, "--model", folder, *asked)
        assert (code, "gradient" in said or "targets of several tokens" in said) == (2, True), said


def test_a_provenance_that_was_changed_on_purpose_is_no_stumbling_block(headcount, folder, tmp_path):
    scores = tmp_path / "scores"
    headcount("score", folder, "ioi", "-n", 4, "--out", scores)
    facts = json.loads((scores / "scores.json").read_text())
    del facts["sha256"]
    facts["provenance"] |= {"arguments": {"seed": "x"}, "task": {"train_pairs": "x"}, "model": 3}
    (scores / "scores.json").write_text(json.dumps(facts))
    asked = ["--model", folder, "-n", 4, "--points", 2, "--out", tmp_path / "out"]
    assert headcount("sweep", scores, *asked)[0] == 0
    facts["signed"] = "perhaps"
    (scores / "scores.json").write_text(json.dumps(facts))
    code, _, said = headcount("sweep", scores, *asked)
    assert (code, "valid boolean" in said, "http" in said) == (2, True, False), said


def test_scores_of_another_task_are_taken_with_a_warning(headcount, folder, tmp_path):
    headcount("score", folder, "ioi", "-n", 4, "--out", tmp_path / "scores")
    code, _, said = headcount(
        "sweep", tmp_path / "scores", "--model", folder, "--task", "docstring", "-n", 4, "--points", 2,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert (code, "the scores are of the task 'ioi', not of 'docstring'" in said) == (0, True), said
