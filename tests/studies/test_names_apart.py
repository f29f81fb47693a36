"""Names that end alike, panels that differ in one setting, a second study in the same folder: nothing is written over
and nothing is mixed."""

import csv
import json
import shutil

import pytest

import headcount as hc
from headcount.core.files import fill_folder
from headcount.studies.outputs import file_names

SMALL = {"n": 8, "points": 4, "draws": 2, "repeats": 1, "orders": ["absolute"], "method": "one-pass"}


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("things", "names"),
    [
        ([("ioi", "tiny"), ("ioi", "tiny-sparse")], ["ioi-tiny", "ioi-tiny-sparse"]),
        ([("ioi", "scale(0.1)")], ["ioi-scale-0.1"]),
        ([("a", "модель-1"), ("a", "modèle")], ["a-модель-1", "a-modèle"]),
        ([("ioi", "a/b"), ("ioi", "a/b")], ["ioi-a-b", "ioi-a-b"]),
    ],
)
def test_file_names_are_readable(things, names):
    assert file_names(things) == names


@pytest.mark.parametrize(
    "things",
    [
        [("ioi", "a/b"), ("ioi", "a b")],
        [("ioi-long", "x"), ("ioi", "long-x")],
        [("Model",), ("model",)],
        [("ﬁt",), ("fit",)],
        [("???",), ("!!!",)],
        [("x" * 500,), ("x" * 499,)],
        [("..",), (".",)],
    ],
)
def test_different_words_never_share_a_file_name(things):
    names = file_names(things)
    assert len({name.casefold() for name in names}) == len(things)
    assert all(0 < len(name.encode()) < 200 and not name.startswith(".") and "/" not in name for name in names)


@pytest.fixture
def run(folder, own_cache, tmp_path, monkeypatch):
    """A study without its figures, which take most of the time."""
    drawn = []
    from headcount.studies.kept import outputs

    monkeypatch.setattr(outputs, "save_figure", lambda figure, folder, name="figure": drawn.append(figure))

    def call(text, out="out", name="heads-kept", **options):
        path = tmp_path / f"{name}.toml"
        path.write_text(f'kind = "{name}"\n[defaults]\nmodels = ["{folder}"]\n{text}')
        result = hc.run(path, out=tmp_path / out, overrides=SMALL, **{"quiet": True, **options})
        return result, drawn[-1]

    return call


def rows(place):
    return list(csv.DictReader(place.read_text().splitlines()))


def test_two_files_whose_names_end_alike_stay_apart(run, tmp_path):
    for place, words in (("ta", ("Mary", "John")), ("tb", ("John", "Mary"))):
        (tmp_path / place).mkdir()
        verbs = ("saw", "met")  # no pair stands in both splits
        lines = [
            {"clean": f"{words[0]} and {words[1]} {verbs[number // 2]} {words[number % 2]}",
             "corrupt": f"{words[0]} and {words[1]} {verbs[number // 2]} {words[1 - number % 2]}",
             "answer": f" {words[1 - number % 2]}", "wrong": f" {words[number % 2]}",
             "split": ("train", "test")[number // 2]}
            for number in range(4)
        ]  # fmt: skip
        (tmp_path / place / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    panels = "".join(f'[[panel]]\ntask = "{tmp_path / place / "x.jsonl"}"\n' for place in ("ta", "tb"))
    result, figure = run(panels)
    assert [curve.task for curve in result.curves] == ["ta/x", "tb/x"]
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["ta/x", "tb/x"]
    out, model = tmp_path / "out", result.curves[0].model
    assert sorted(path.name for path in (out / "scores").iterdir()) == [
        f"{place}-x-{model}-attribution-ig" for place in ("ta", "tb")
    ]
    assert {row["task"] for row in rows(out / "curves.csv")} == {"ta/x", "tb/x"}
    assert {row["task"] for row in rows(out / "scores.csv")} == {"ta/x", "tb/x"}


def test_panels_that_differ_in_a_setting_say_which_and_have_their_own_threshold(run, tmp_path):
    panels = [{"threshold": 0.5}, {"threshold": 0.9}, {"threshold": 0.9, "seed": 1}]
    text = "".join(
        '[[panel]]\ntask = "ioi"\n' + "".join(f"{key} = {value}\n" for key, value in panel.items()) for panel in panels
    )
    result, figure = run(text, name="edges-kept")
    settings = [set(curve.task.removeprefix("ioi (").rstrip(")").split(", ")) for curve in result.curves]
    assert settings == [{"threshold 0.5", "seed 0"}, {"threshold 0.9", "seed 0"}, {"threshold 0.9", "seed 1"}]
    entries = result.summary["curves"]
    assert [entry["threshold"] for entry in entries] == [0.5, 0.9, 0.9]
    assert len({entry["task"] for entry in entries}) == 3
    for ax, entry in zip(figure.axes, entries, strict=True):
        dashed = [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]
        assert dashed == [entry["threshold"]]
        assert f"{entry['needed']:,}" in [text.get_text() for text in ax.texts]
    out = tmp_path / "out"
    for place, entry in zip(sorted((out / "edges").iterdir()), sorted(entries, key=lambda e: e["task"]), strict=True):
        found = json.loads((place / "circuit.json").read_text())
        kept = sum(edge["in_graph"] for edge in found["edges"].values())
        assert kept == len(hc.EdgeScores.load(place).circuit(entry["needed"]).split()), place
    told = rows(out / "curves.csv")
    assert len({row["task"] for row in told}) == 3
    assert {(row["mode"], row["fill"]) for row in told} == {("keep", "counterfactual")}


def test_a_panel_kept_and_masked_is_told_apart_in_the_tables(run, tmp_path):
    run('[[panel]]\ntask = "ioi"\n[[panel]]\ntask = "ioi"\nmode = "mask"\n')
    for name in ("curves.csv", "scores.csv"):
        found = {(row["task"], row["mode"], row["fill"]) for row in rows(tmp_path / "out" / name)}
        assert found == {("ioi (mode keep)", "keep", "counterfactual"), ("ioi (mode mask)", "mask", "counterfactual")}


def test_a_second_study_takes_the_place_of_the_first_and_leaves_others_files_alone(run, tmp_path, capsys):
    out = tmp_path / "out"
    run('[[panel]]\ntask = "ioi"\n', quiet=False)
    assert "another study" not in capsys.readouterr().err
    first = files(out)
    (out / "notes.txt").write_text("mine")
    (out / "scores" / "mine.txt").write_text("mine")
    run('[[panel]]\ntask = "docstring"\n', quiet=True)
    assert "holds the results of another study" in " ".join(capsys.readouterr().err.split())
    alone, _ = run('[[panel]]\ntask = "docstring"\n', out="alone")
    assert files(out) == files(alone.folder) | {"notes.txt", "scores/mine.txt"}
    assert any("ioi" in name for name in first)
    assert not any("ioi" in name for name in files(out))
    assert json.loads((out / "provenance.json").read_text())["files"] == sorted(files(alone.folder))


def test_results_are_not_written_through_links(run, tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    out.mkdir()
    (out / "curves.csv").symlink_to(elsewhere / "file")
    (out / "scores").symlink_to(elsewhere)
    run('[[panel]]\ntask = "ioi"\n')
    assert files(elsewhere) == {"file"}
    assert (elsewhere / "file").read_text() == "mine"
    assert (out / "curves.csv").read_text().startswith("model,")
    shutil.rmtree(out)


def test_a_folder_is_filled_in_one_go_and_names_from_elsewhere_are_not_removed(tmp_path):
    out, outside = tmp_path / "out", tmp_path / "outside.txt"
    outside.write_text("mine")
    out.mkdir()
    (out / "a").mkdir()
    (out / "a" / "old").write_text("old")
    (out / "b").mkdir()  # stands in the way of a file
    stale = ["a/old", "../outside.txt", str(outside), "a/../../outside.txt", "none"]
    with fill_folder(out, "b", lambda: stale) as unfinished:
        (unfinished / "b").write_text("new")
        assert (out / "a" / "old").exists()
    assert files(out) == {"b"}
    assert outside.read_text() == "mine"
    with pytest.raises(RuntimeError), fill_folder(out, "b", lambda: ["b"]) as unfinished:
        (unfinished / "c").write_text("new")
        raise RuntimeError
    assert files(out) == {"b"}
    assert [path.name for path in out.iterdir()] == ["b"]
