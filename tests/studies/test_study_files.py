"""The TOML of a study: what it comes to, and what a wrong one is told."""

import tomllib

import pytest

import headcount as hc
from headcount.studies import STUDIES
from headcount.studies.study import read_study


def study(tmp_path, text):
    path = tmp_path / "my.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", STUDIES)
def test_bundled_studies_are_valid(name):
    assert read_study(name).panels
    assert read_study(name, quick=True).panels


def test_later_settings_win(tmp_path):
    settings = "[defaults]\nn = 10\ndraws = 5\n[quick]\nn = 4\n"
    path = study(tmp_path, settings + '[[panel]]\ntask = "ioi"\ndraws = 7\n[[panel]]\ntask = "docstring"\n')
    first, second = read_study(path).panels
    assert (first.n, first.draws, second.draws) == (10, 7, 5)
    assert read_study(path, quick=True).panels[0].n == 4
    assert read_study(path, quick=True, overrides={"n": 6}, models=["x"]).panels[1].models == ("x",)
    assert [panel.task for panel in read_study(path, tasks=["docstring", "own.jsonl"]).panels] == [
        "docstring",
        "own.jsonl",
    ]


def test_the_resolved_toml_says_everything(tmp_path):
    path = study(tmp_path, 'title = "a \\"b\\""\n[[panel]]\ntask = "ioi"\nks = [1, 2]\n')
    written = tomllib.loads(read_study(path).to_toml())
    assert written["title"] == 'a "b"'
    assert written["panel"][0]["ks"] == [1, 2]
    assert written["panel"][0]["threshold"] == 0.9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[[panel]]\ntask = "ioi"\nmetod = "patching"\n',
            r"\[\[panel\]\] number 1: unknown key 'metod'. Did you mean 'method'",
        ),
        ('[default]\nn = 4\n[[panel]]\ntask = "ioi"\n', "unknown key 'default' at the top. Did you mean 'defaults'"),
        ('[quick]\npoint = 4\n[[panel]]\ntask = "ioi"\n', r"\[quick\]: unknown key 'point'. Did you mean 'points'"),
        ('[[panel]]\ntask = "ioi"\nn = "many"\n', "n must be a whole number; got 'many'"),
        ('[[panel]]\ntask = "ioi"\nn = true\n', "n must be a whole number; got True"),
        ('[[panel]]\ntask = "ioi"\nmodels = "m"\n', "models must be a list of texts"),
        ('[[panel]]\ntask = "ioi"\nks = [1.5]\n', "ks must be"),
        ('[[panel]]\ntask = "ioi"\norders = ["worst"]\n', "orders cannot be 'worst'"),
        ('[[panel]]\ntask = "ioi"\nunits = "neurons"\n', "there is no study of the units 'neurons'"),
        ("[[panel]]\nn = 3\n", "number 1 has no task"),
        ('[panel]\ntask = "ioi"\n', "with two brackets"),
        ('title = "x"\n', "has no panel"),
        ("title = \n", "not valid TOML"),
        ('tilte = "x"\n', r"'tilte' at the top\. Did you mean 'title'\? Known: "),
        ("thresold = 1\n", r"'thresold' at the top\. Did you mean 'threshold'\? It belongs under \[defaults\]"),
        ("ordres = 1\n", r"'ordres' at the top\. Did you mean 'orders'\? It belongs under \[defaults\]"),
        ("zzz = 1\n", r"'zzz' at the top\. Known: defaults, kind,"),
    ],
)
def test_a_wrong_study_is_told_what_is_wrong(tmp_path, text, words):
    with pytest.raises(hc.HeadcountError, match=words):
        read_study(study(tmp_path, text))


def test_an_unknown_study_suggests_the_nearest(tmp_path):
    with pytest.raises(hc.HeadcountError, match="no study 'head-kept'. Did you mean 'heads-kept'"):
        read_study("head-kept")
    with pytest.raises(hc.HeadcountError, match="cannot be read"):
        read_study(tmp_path / "none.toml")


def test_unknown_overrides_are_told_like_unknown_keys():
    with pytest.raises(hc.HeadcountError, match="The options: unknown key 'foo'"):
        read_study("heads-kept", overrides={"foo": 1})


def test_what_is_listed_twice_counts_once(tmp_path):
    path = study(tmp_path, '[[panel]]\ntask = "ioi"\nmodels = ["m", "m"]\norders = ["chance", "chance"]\n')
    (panel,) = read_study(path, tasks=["ioi", "ioi"]).panels
    assert (panel.models, panel.orders) == (("m",), ("chance",))


def test_the_resolved_study_can_be_run_from_anywhere(folder, tmp_path, monkeypatch):
    (tmp_path / "own.jsonl").write_text("")
    monkeypatch.chdir(tmp_path)
    written = tomllib.loads(read_study("heads-kept", models=["smollm2"], tasks=["own.jsonl"]).to_toml())
    assert written["panel"][0]["task"] == str(tmp_path / "own.jsonl")
    assert written["panel"][0]["models"] == ["smollm2"]
