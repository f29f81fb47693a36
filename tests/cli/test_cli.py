"""The command line as a user meets it: what it prints, and one sentence with exit code 2 for all it cannot do."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from headcount.cli.app import run_app
from headcount.cli.commands import app
from headcount.studies import STUDIES


def test_importing_headcount_and_asking_for_help_import_no_torch():
    script = (
        "import sys, headcount; assert 'torch' not in sys.modules and 'numpy' not in sys.modules;"
        "import headcount.cli.commands; sys.argv = ['headcount', sys.argv[1]]\n"
        "try: headcount.cli.main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules, 'imported'"
    )
    for argument in ("--help", "methods"):
        subprocess.run([sys.executable, "-c", script, argument], check=True, capture_output=True)


def test_help_lists_the_commands():
    output = CliRunner().invoke(app, ["--help"]).output
    for command in ("run", "check", "pull", "sparsify", "methods", "tasks"):
        assert command in output


def test_a_process_that_calls_it_again_and_again_has_every_study_once(headcount):
    said = [headcount("run", "--help")[1] for _ in range(2)]
    assert said[0] == said[1]
    assert len(run_app.registered_commands) == len(STUDIES)


def test_methods_lists_every_method_with_its_cost(headcount):
    _, out, _ = headcount("methods")
    for words in (
        "patching-restore",
        "attribution-ig",
        "gate-gradient-signed",
        "direct",
        "induction",
        "chance",
        "2 + L·H",
    ):
        assert words in out


def test_tasks_list_and_show(headcount, folder):
    _, out, _ = headcount("tasks", "list")
    assert "greater-than" in out
    code, out, _ = headcount("tasks", "show", "ioi", "--model", folder, "-n", 2)
    assert code == 0
    assert out.count("clean  ") == out.count("answer  ") == 2
    assert "%" in out
    by_templates, made_up = (
        headcount("tasks", "show", *asked, "--model", folder, "-n", 2)[1]
        for asked in (["ioi", "--split", "templates"], ["nonsense:ioi"])
    )
    assert by_templates.count("clean  ") == made_up.count("clean  ") == 2
    assert by_templates != out
    assert [line for line in made_up.splitlines() if line.startswith("clean")] == [
        line for line in out.splitlines() if line.startswith("clean")
    ]


def test_check_prints_a_verdict_a_line(headcount, folder):
    code, out, _ = headcount("check", folder)
    assert code == 0
    assert out.count("ok    ") == 9
    assert "All checks passed." in out


def test_check_fails_where_something_is_wrong(headcount, folder, monkeypatch):
    from headcount.meters import selfcheck

    monkeypatch.setattr(selfcheck, "head_values", lambda model, ids: [z * 0 for z in _values(model, ids)])
    code, out, _ = headcount("check", folder)
    assert code == 1
    assert "FAILED  with every head from the counterfactual run" in out
    assert "1 of 9 checks failed." in out


def _values(model, ids):
    from headcount.edit import head_values

    return head_values(model, ids)


def test_run_prints_a_table_and_the_figure(headcount, folder, tmp_path):
    arguments = ("run", "heads-kept", "--model", folder, "--task", "ioi", "-n", 8, "--quick", "--repeats", 2)
    arguments = (*arguments, "--out", tmp_path / "out")
    code, out, _ = headcount(*arguments)
    assert code == 0
    assert "IOI, tiny-llama, best: " in out
    assert "over prompts and rankings (2 repeats, pooled)" in out
    assert all(column in out for column in ("needed", "interval", "range", "reached", "stays", "accuracy"))
    assert "tiny-llama needs" in out
    assert "As many random heads explain" in out
    assert str(tmp_path / "out" / "figure.png") in out.replace("\n", "")
    assert "Steps: 10 computed, 0 from the cache" in out
    assert "Steps: 0 computed, 10 from the cache" in headcount(*arguments)[1]


def bad(headcount, *arguments):
    code, out, err = headcount(*arguments)
    assert code == 2
    assert "Traceback" not in out + err
    assert err.startswith("headcount: ")
    assert err.count("\n") == 1, "one sentence, on one line"
    return err


def test_bad_input_is_one_sentence_with_exit_code_2(headcount, folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    lines = tmp_path / "broken.jsonl"
    lines.write_text(json.dumps({"clean": "We saw John", "corrupt": "We saw", "answer": " a", "wrong": " b"}) + "\n")
    toml = tmp_path / "my.toml"
    toml.write_text('[[panel]]\ntask = "ioi"\nthreshhold = 0.9\n')
    ks = tmp_path / "ks.toml"
    ks.write_text('[[panel]]\ntask = "ioi"\nn = 8\nks = [500]\n')
    run = ("run", "heads-kept", "--model", folder)
    assert "hub did not deliver" in bad(headcount, "check", "no-such-model")
    assert "no config.json" in bad(headcount, "check", empty)
    assert "line 1: A pair must have prompts of equal length: the clean one has 3" in bad(
        headcount, *run, "--task", lines
    )
    assert "Did you mean 'ioi'" in bad(headcount, *run, "--task", "oi")
    assert "unknown key 'threshhold'" in bad(headcount, "run", toml)
    assert "between 0 and the model's 12 heads; 500 does not" in bad(headcount, "run", ks, "--model", folder)
    assert "no scoring method" in bad(headcount, *run, "--method", "guess")
    assert "no study" in bad(headcount, "run", "everything")
    assert "no named model" in bad(headcount, "pull", "gpt5")
    assert "n must be at least 2" in bad(headcount, *run, "-n", 1)
    assert "-n must be at least 1" in bad(headcount, "tasks", "show", "ioi", "--model", folder, "-n", 0)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"clean": [5, 3000000], "corrupt": [5, 7], "answer": 8, "wrong": 9}, "Token ids must lie between 0 and"),
        ({"clean": [5, -3], "corrupt": [5, 7], "answer": 8, "wrong": 9}, "from 0 on; got -3"),
        ({"clean": [5, 6], "corrupt": [5, 7], "answer": 10**30, "wrong": 9}, "does not"),
        ({"clean": [5, True], "corrupt": [5, 7], "answer": 8, "wrong": 9}, "'clean' must be"),
        ({"clean": [5, 6], "corrupt": [5, 7], "answer": 8, "wrong": [9, 8]}, "right and wrong at once"),
    ],
)
def test_token_ids_that_make_no_sense_name_their_line(headcount, folder, tmp_path, entry, words):
    lines = tmp_path / "ids.jsonl"
    lines.write_text(json.dumps(entry) + "\n")
    err = bad(headcount, "run", "heads-kept", "--model", folder, "--task", lines)
    assert "line 1" in err
    assert words in err


def test_values_out_of_range_are_told_before_a_model_is_loaded(headcount):
    for option, value in (("--seed", -1), ("--threshold", 2), ("-n", 0)):
        err = bad(headcount, "run", "heads-kept", "--model", "never-loaded", option, value)
        assert f"headcount: --{option.strip('-')} must be " in err


@pytest.mark.parametrize(
    ("kind", "option", "value", "words"),
    [
        ("heads-kept", "--order", "foo", "--order cannot be 'foo'. Known: absolute, best,"),
        ("heads-kept", "--order", "", "--order must not be empty."),
        ("heads-kept", "--control", "x", "--control cannot be 'x'."),
        ("masked-heads", "--new-tokens", 0, "--new-tokens must be at least 1 "),
        ("head-roles", "--free-rate", "a", "--free-rate takes comma-separated numbers; got 'a'."),
    ],
)
def test_an_option_is_called_by_its_own_name_and_not_by_its_key(headcount, kind, option, value, words):
    assert f"headcount: {words}" in bad(headcount, "run", kind, option, value)


def test_a_slip_in_a_models_name_is_told_without_asking_the_hub(headcount):
    assert "Did you mean 'smollm2'" in bad(headcount, "check", "smolm2")


def test_a_file_an_empty_name_and_broken_weights_are_no_models(headcount, folder, tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text("")
    assert "is a file" in bad(headcount, "check", file)
    assert "is empty" in bad(headcount, "check", "")
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "model.safetensors").write_bytes(b"junk")
    assert "could not be loaded" in bad(headcount, "check", broken)


def test_a_task_without_an_effect_is_warned_of(headcount, folder, tmp_path):
    lines = tmp_path / "same.jsonl"
    entries = [{"clean": [5, i], "corrupt": [5, i], "answer": 8, "wrong": 9} for i in range(10, 18)]
    lines.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    code, out, _ = headcount(
        "run", "heads-kept", "--model", folder, "--task", lines, "--quick", "--repeats", 1, "--out", tmp_path / "o"
    )
    assert code == 0
    assert "Warning: same, tiny-llama: logit_diff is" in out
    assert out.index("is enough.") < out.index("Warning: ") < out.index("needed"), "beside the answer"
    assert "scored by attribution" in out
    assert "never" in out


@pytest.mark.usefixtures("no_figures")
def test_warnings_are_printed_quietly_too_and_doubles_are_told(headcount, folder, tmp_path):
    lines = tmp_path / "same.jsonl"
    entries = [{"clean": [5, i], "corrupt": [5, i], "answer": 8, "wrong": 9} for i in range(10, 18)]
    lines.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    words = ("run", "heads-kept", "--model", folder, "--model", folder, "--task", lines, "--quick", "--repeats", 1)
    code, out, said = headcount(*words, "--out", tmp_path / "o", "--quiet")
    assert (code, out) == (0, "")
    assert "Warning: same, tiny-llama: logit_diff is" in said
    code, _, said = headcount(*words, "--plan")
    assert (code, f"--model {folder} was given twice, and counts once." in said) == (0, True), said


def test_dollar_signs_in_titles_are_only_dollar_signs(headcount, folder, tmp_path):
    toml = tmp_path / "t.toml"
    toml.write_text('title = "x $a_$"\n[[panel]]\ntask = "ioi"\ntitle = "cost $x_$ y"\nn = 4\npoints = 2\ndraws = 1\n')
    code, *_ = headcount("run", toml, "--model", folder, "--method", "one-pass", "--out", tmp_path / "o")
    assert code == 0


@pytest.mark.usefixtures("no_figures")
def test_a_byte_order_mark_is_read_over(headcount, folder, tmp_path):
    lines, toml = tmp_path / "bom.jsonl", tmp_path / "bom.toml"
    entries = [{"clean": [5, i], "corrupt": [6, i], "answer": 8, "wrong": 9} for i in (10, 11)]
    lines.write_text("\ufeff" + "".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    toml.write_text(f'\ufeff[[panel]]\ntask = "{lines}"\npoints = 2\ndraws = 1\n', encoding="utf-8")
    assert headcount("run", toml, "--model", folder, "--method", "one-pass", "--out", tmp_path / "o")[0] == 0


def test_stopping_by_hand_says_that_finished_steps_are_kept(headcount, monkeypatch):
    from headcount.studies import runner

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupted)
    code, _, err = headcount("run", "heads-kept")
    assert code == 130
    assert "Finished steps are kept" in err


def test_stopping_any_command_by_hand_says_so(headcount, monkeypatch):
    def interrupted(*modules):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["headcount.cli.app"], "wake", interrupted)
    assert headcount("check", "tiny") == (130, "", "headcount: stopped.\n")


def test_an_output_folder_that_cannot_be_written_is_found_before_the_work(headcount, folder, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    start = time.perf_counter()
    assert "cannot be written" in bad(headcount, "run", "heads-kept", "--model", folder, "--out", file / "out")
    assert not (tmp_path / "cache").exists(), f"work was done ({time.perf_counter() - start:.0f} s)"


def test_a_wrong_option_exits_with_code_2(headcount):
    code, _, err = headcount("run", "heads-kept", "--modle", "x")
    assert code == 2
    assert "Traceback" not in err


def test_the_module_can_be_run(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "headcount", "run", "nothing"], capture_output=True, text=True, check=False,
        env={**os.environ, "HEADCOUNT_CACHE": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headcount: There is no study 'nothing'.")


def test_forecast_needs_a_config_and_no_weights(headcount):
    code, out, _ = headcount("forecast", "olmo-7b", "--memory", "4GB")
    assert code == 0
    for words in ("32 layers of 32 heads, 1,592,881 edges", "27.55 GB", "one prompt", "4.00 GB"):
        assert words in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("forecast", "nowhere/nothing/at/all"), "There is no model folder at nowhere"),
        (("forecast", "gpt2", "--readers", "neurons"), "Readers are kv-heads or query-heads"),
        (("forecast", "gpt2", "--memory", "much"), "Memory is written as 8GB or 500MB"),
        (("forecast", "gpt2", "--length", "0"), "A prompt has at least one token"),
        (("run", "edges-kept", "--memory", "much"), "Memory is written as 8GB or 500MB"),
        (("run", "edges-kept", "--method", "patching"), "'patching' scores heads, and edges are wanted"),
    ],
)
def test_edges_told_wrong(headcount, arguments, sentence):
    code, _, err = headcount(*arguments)
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_a_study_of_edges_prints_areas_and_its_forecast(headcount, folder, tmp_path):
    overrides = ("-n", "6", "--quick", "--task", "ioi", "--model", folder, "--out", tmp_path / "out")
    code, out, err = headcount("run", "edges-kept", *overrides)
    assert code == 0, err
    assert "forecast beyond the model" in err
    assert "CPR (higher is better; MIB's order is signed)" in out
    assert "edges for 90 % of the effect" in out


def test_scores_are_saved_and_compared(headcount, folder, tmp_path):
    for method in ("patching", "gate-gradient"):
        code, out, _ = headcount("score", folder, "syntax", "--method", method, "-n", 8, "--out", tmp_path / method)
        assert code == 0
        assert "First by size: a" in out
    code, out, _ = headcount(
        "compare", tmp_path / "patching", tmp_path / "gate-gradient", "-k", 3, "--out", tmp_path / "out"
    )
    assert code == 0
    assert "Spearman" in out
    assert "Jaccard of the top 3" in out
    assert (tmp_path / "out" / "figure.png").exists()
    rows = json.loads((tmp_path / "out" / "comparison.json").read_text())["rows"]
    assert (rows[0]["first"], rows[0]["second"]) == ("patching", "gate-gradient")


def test_comparing_what_is_not_there_is_one_sentence(headcount, tmp_path):
    code, _, err = headcount("compare", tmp_path / "a", tmp_path / "b")
    assert code == 2
    assert "holds no scores.json" in err
    assert err.count("\n") == 1


def test_head_roles_prints_shares_and_what_the_curves_do(headcount, folder, tmp_path):
    study = tmp_path / "small.toml"
    study.write_text(
        'kind = "head-roles"\n[defaults]\nn = 8\nseeds = 2\nupdates = 2\nbatch = 2\nks = [1, 3]\n'
        '[[panel]]\ntask = "syntax"\n'
    )
    code, out, _ = headcount("run", study, "--model", folder, "--out", tmp_path / "out")
    assert code == 0
    for words in ("2 fits", "facilitation", "irrelevance", "interference", "at k = 3", "of 2 points", "Figure"):
        assert words in out


def test_questions_shows_some_of_a_function_with_their_answers(headcount):
    code, out, _ = headcount("questions", "Math Calculation", "-n", 2)
    assert code == 0
    assert out.startswith("math-calculation: 165 questions")
    assert out.count("-> ") == 2


def test_an_unknown_function_is_one_sentence(headcount, tmp_path):
    code, _, err = headcount("questions", "retreival")
    assert code == 2
    assert "Did you mean 'retrieval'" in err
    code, _, err = headcount("run", "masked-heads", "--task", "ioi", "--out", tmp_path / "out")
    assert code == 2
    assert "There is no function 'ioi'" in err


def test_comet_setup_says_what_it_costs():
    output = CliRunner().invoke(app, ["comet", "setup", "--help"]).output
    assert "1.4 GB" in " ".join(output.split())


SLOWLY = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs the tests in the background has it ignored

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from headcount.cli import main
main()
"""


@pytest.mark.parametrize("module", ["headcount.cli.commands", "typer", "pydantic", "rich.console", "headcount.studies"])
def test_stopping_while_the_commands_are_imported_says_so(module):
    """As a user does who sees a slip right after Enter. What is imported before the entry point has no handler yet."""
    done = subprocess.run([sys.executable, "-c", SLOWLY, module], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "headcount: stopped.\n")


def test_the_entry_point_imports_next_to_nothing():
    code = (
        "import sys; import headcount.cli; own = [name for name in sys.modules if name.startswith('headcount')];"
        "assert own == ['headcount', 'headcount.cli'], own; assert 'typer' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
