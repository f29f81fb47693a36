"""COMET as another program: which one is called, what it is given, and a sentence for all that can go wrong.

These tests call a script that writes what comet-score would; `test_real_comet.py` sets up the real COMET.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from headcount import HeadcountError
from headcount.meters import comet

SCRIPT = """#!{python}
import argparse, json, sys
parser = argparse.ArgumentParser()
for short, name in ("-s", "sources"), ("-t", "translations"), ("-r", "references"):
    parser.add_argument(short, dest=name)
for name in "--model --to_json --batch_size --gpus".split():
    parser.add_argument(name)
for name in "--quiet --only_system".split():
    parser.add_argument(name, action="store_true")
given = parser.parse_args()
rows = []
for s, t, r in zip(open(given.sources), open(given.translations), open(given.references), strict=True):
    row = dict(src=s.strip(), mt=t.strip(), ref=r.strip())
    rows.append(row | dict(COMET=len(row["mt"]) + len(row["src"]) / 100 + len(row["ref"]) / 10000))
out = {{given.translations: rows}}
json.dump(dict(vars(given), lines=len(rows)), open({log!r}, "a"))
{last}
json.dump(out, open(given.to_json, "w"))
"""


@pytest.fixture
def fake(tmp_path):
    """A comet-score that scores by lengths; `last` is what it does before it writes. Gives it and its log."""

    def make(last="", name="comet-score"):
        command, log = tmp_path / "programs" / name, tmp_path / f"{name}.log"
        command.parent.mkdir(exist_ok=True)
        command.write_text(SCRIPT.format(python=sys.executable, log=str(log), last=last))
        command.chmod(0o755)
        return command, log

    return make


@pytest.fixture(autouse=True)
def nothing_installed(own_cache, monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("HEADCOUNT_COMET", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))


def length_score(source, answer, reference):
    return pytest.approx(len(answer) + len(source) / 100 + len(reference) / 10000)


# ---------------------------------------------------------------------------------------------------------------------
# Which one is called


def test_the_one_named_goes_before_the_variable_before_headcounts_own_before_the_path(fake, own_cache, monkeypatch):
    assert comet.find_comet() is None

    on_path, _ = fake()
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert comet.find_comet() == on_path

    own = own_cache / "comet" / "bin" / "comet-score"
    own.parent.mkdir(parents=True)
    own.touch()
    assert comet.find_comet() == on_path, "an environment without its marker is not whole"
    (own_cache / "comet" / "whole.txt").touch()
    assert comet.find_comet() == own

    by_variable, _ = fake(name="by-variable")
    monkeypatch.setenv("HEADCOUNT_COMET", str(by_variable))
    assert comet.find_comet() == by_variable

    named, _ = fake(name="named")
    assert comet.find_comet(str(named)) == named
    assert comet.find_comet("named") == named, "a bare name is looked for on the PATH"


def test_one_that_is_named_and_cannot_be_run_is_refused(fake, monkeypatch):
    command, _ = fake()
    command.chmod(0o644)
    for named in (str(command), str(command.parent), "/no/comet-score"):
        with pytest.raises(HeadcountError, match=f"'{named}' is no comet-score that runs.*headcount comet setup"):
            comet.find_comet(named)
    monkeypatch.setenv("HEADCOUNT_COMET", "/no/comet-score")
    with pytest.raises(HeadcountError, match="'/no/comet-score' is no comet-score"):
        comet.find_comet()


# ---------------------------------------------------------------------------------------------------------------------
# What it is given, and what comes back


def test_scores_come_back_in_the_order_of_the_answers(fake):
    command, log = fake()
    sources, answers, references = ["eins", "zwei", "vier"], ["one!", "two", "ninety"], ["one", "two", "four"]
    scores = comet.comet_scores(sources, answers, references, command=command, batch=4)
    assert scores == [length_score(*triple) for triple in zip(sources, answers, references, strict=True)]
    given = json.loads(log.read_text())
    assert given["model"] == comet.DEFAULT_MODEL == "Unbabel/wmt22-comet-da"
    assert (given["batch_size"], given["gpus"], given["quiet"]) == ("4", "0", True)


def test_a_gpu_is_used_where_there_is_one(fake, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    command, log = fake()
    comet.comet_scores(["a"], ["b"], ["c"], command=command)
    assert json.loads(log.read_text())["gpus"] == "1"


def test_blank_texts_stay_in_their_place(fake):
    command, _ = fake()
    sources, answers, references = ["", "zwei", "drei", "vier"], ["one", "", " \n", ""], ["eins", "two", "", "four"]
    scores = comet.comet_scores(sources, answers, references, command=command)
    assert [int(score) for score in scores] == [3, 0, 0, 0]
    assert scores[1] == length_score("zwei", "", "two")
    assert scores[3] == length_score("vier", "", "four")


def test_a_text_of_many_lines_is_one_line(fake):
    command, log = fake()
    broken = ["one\ntwo", "one\r\ntwo", "one\rtwo\n\n", "one\u2028two", "one\x0btwo\x85"]
    assert len(set(comet.comet_scores(["s\ns"] * 5, broken, ["r\tr"] * 5, command=command))) == 1
    assert json.loads(log.read_text())["lines"] == 1
    assert comet.comet_scores(["s"], ["half \ud83d"], ["é 🙂"], command=command) == [
        length_score("s", "half ?", "é 🙂")
    ]


def test_the_same_texts_are_scored_once(fake):
    command, log = fake()
    scores = comet.comet_scores(
        ["s"] * 6, ["a", "bb", "a", "a", "bb", "a"], ["r", "r", "r", "r", "r", "rr"], command=command
    )
    assert json.loads(log.read_text())["lines"] == 3
    assert scores[0] == scores[2] == scores[3] != scores[5]
    assert scores[1] == scores[4]


def test_nothing_to_score_calls_nothing():
    assert comet.comet_scores([], [], [], command=Path("/no/comet-score")) == []


def test_a_model_can_be_a_checkpoint_or_a_folder_of_the_hubs_layout(fake, tmp_path, monkeypatch):
    command, log = fake()
    file = tmp_path / "mine" / "checkpoints" / "model.ckpt"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.chdir(tmp_path)
    for model in (str(file), "mine/checkpoints/model.ckpt", "mine", str(tmp_path / "mine")):
        comet.comet_scores(["a"], ["b"], ["c"], command=command, model=model)
        assert json.loads(log.read_text())["model"] == str(file)
        log.unlink()
    assert comet.checkpoint("Unbabel/XCOMET-XL") == "Unbabel/XCOMET-XL"


# ---------------------------------------------------------------------------------------------------------------------
# What can go wrong


def test_a_model_that_is_not_there_is_refused_before_anything_runs():
    for model in ("no.ckpt", "/no/folder", "./no", "~/no-such-model"):
        with pytest.raises(HeadcountError, match=f"There is no COMET model at {model}: wanted a .ckpt file"):
            comet.comet_scores(["a"], ["b"], ["c"], command=Path("/no/comet-score"), model=model)


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(HeadcountError, match="2 sources, 1 answers and 3 references"):
        comet.comet_scores(["a"] * 2, ["b"], ["c"] * 3, command=Path("/no/comet-score"))


HUB = """
huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: 1)
Access to this model is restricted.

During handling of the above exception, another exception occurred:

Exception: it is not in the `available_legacy_metrics`.
KeyError: "Model 'Unbabel/wmt22-comet-da' not supported by COMET."
"""


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("raise ValueError('out of paper')", "gave no scores with Unbabel/wmt22-comet-da: ValueError: out of paper. "),
        (f"sys.exit({HUB!r})", r"GatedRepoError: 401 Client Error. \(Request ID: 1\). .*licence must be accepted"),
        ("sys.exit(3)", "it ended with code 3 and no reason."),
        ("sys.exit()", "ended well but wrote no scores that can be read .*Is it the comet-score of unbabel-comet=="),
        ("out = [1]", "wrote no scores that can be read"),
        ("open('scores.json', 'w').write('[' * 90000); sys.exit()", "no scores that can be read .*recursion"),
        ("out = dict(a=[], b=[])", "wrote no scores that can be read"),
        ("del rows[0]['COMET']", "wrote no scores that can be read"),
        ("del rows[0]", "was given 2 answers and scored 1 other ones"),
        ("rows.reverse()", "was given 2 answers and scored 2 other ones"),
        ("rows[1]['COMET'] = float('nan')", "no finite numbers"),
    ],
)
def test_a_command_that_fails_is_one_sentence(fake, last, words):
    command, _ = fake(last)
    with pytest.raises(HeadcountError, match=words) as error:
        comet.comet_scores(["a", "b"], ["c", "d"], ["e", "f"], command=command)
    assert "\n" not in str(error.value)


def test_a_command_that_is_no_program_is_one_sentence(tmp_path):
    (tmp_path / "text").write_text("not a program")
    (tmp_path / "text").chmod(0o755)
    for name in ("text", "nothing"):
        with pytest.raises(HeadcountError, match=f"{name} cannot be run"):
            comet.comet_scores(["a"], ["b"], ["c"], command=tmp_path / name)


# ---------------------------------------------------------------------------------------------------------------------
# Setting it up


def test_a_python_that_has_no_numpy_1_is_refused(tmp_path, own_cache):
    (tmp_path / "python").write_text(f"#!{sys.executable}\nprint('3.14')\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(HeadcountError, match="one of Python 3.10, 3.11, 3.12; .* is 3.14. Name another"):
        comet.setup_comet(str(tmp_path / "python"))
    with pytest.raises(HeadcountError, match="/no/python cannot be run"):
        comet.setup_comet("/no/python")
    assert not own_cache.exists()


def test_an_environment_that_pip_cannot_fill_is_not_kept(own_cache, monkeypatch):
    monkeypatch.setattr(comet, "PYTHONS", (f"{sys.version_info[0]}.{sys.version_info[1]}",))
    monkeypatch.setattr(comet, "REQUIREMENTS", ("no-such-package-at-all==1.0",))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    call = comet._call

    def without_installing_pip(command, folder=None):
        """Which takes longer than all else; the pip of this environment fills the other one as well."""
        if "venv" in command:
            return call([*command, "--without-pip"])
        if "pip" in command:
            return call([sys.executable, "-m", "pip", "--python", command[0], *command[3:]])
        return call(command, folder)

    monkeypatch.setattr(comet, "_call", without_installing_pip)
    notes = []
    with pytest.raises(HeadcountError, match="pip failed: .*no-such-package-at-all.*Nothing was kept"):
        comet.setup_comet(note=notes.append)
    assert len(notes) == 2
    assert not (own_cache / "comet").exists()
    assert comet.find_comet() is None


def test_an_environment_is_made_once_and_again_when_other_packages_are_wanted(own_cache, monkeypatch):
    calls = []

    def call(command, folder=None):
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, "3.12\n", "")

    monkeypatch.setattr(comet, "_call", call)
    made = comet.setup_comet(note=lambda words: None)
    assert made == comet.find_comet() == own_cache / "comet" / "bin" / "comet-score"
    assert f"torch=={version('torch').partition('+')[0]}" in calls[2], "the torch that headcount runs on"
    assert calls[3] == [str(made), "--help"], "it is tried before it counts as whole"
    assert len(calls) == 4
    assert comet.setup_comet() == made
    assert len(calls) == 4
    monkeypatch.setattr(comet, "REQUIREMENTS", ("unbabel-comet==9",))
    comet.setup_comet(note=lambda words: None)
    assert len(calls) == 8
