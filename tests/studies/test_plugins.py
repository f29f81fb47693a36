"""What a package from outside can add: the one in examples/ is installed, and the command line sees what it has.
And `register_…`, by which a program adds the same without a package, takes all that the built-in ones have."""

import importlib
import inspect
import json
import subprocess
import sys
from dataclasses import MISSING, fields
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import forked
import headcount as hc
from headcount.models.families import FAMILIES
from headcount.rank.method import METHODS
from headcount.studies import STUDIES
from headcount.tasks import TASKS

EXAMPLE = Path(__file__).parents[2] / "examples" / "headcount-extras"
GROUPS = ("methods", "tasks", "families", "studies", "exports")


def declare(place, name, entry_points):
    """What pip writes beside an installed package, for packages that are not there."""
    facts = place / f"{name}-0.1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.1\n")
    tables = [
        [f"[{group}]", *(f"{key} = {value}" for key, value in own.items())] for group, own in entry_points.items()
    ]
    (facts / "entry_points.txt").write_text("\n".join(line for table in tables for line in table) + "\n")


@pytest.fixture(scope="session")
def plugin(tmp_path_factory):
    """The folder into which pip has installed the example."""
    place = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", place]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, EXAMPLE], check=True, stdin=subprocess.DEVNULL)
    return place


@pytest.fixture(scope="session")
def broken(tmp_path_factory):
    """A package whose entry points lead nowhere."""
    place = tmp_path_factory.mktemp("broken")
    declare(place, "broken_extras", {f"headcount.{group}": {"broken": "nowhere:THING"} for group in GROUPS})
    return place


COMMANDS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from headcount.cli import main
done = []
for words in json.loads(sys.argv[1]):
    sys.argv, code, out, err = ["headcount", *words], 0, io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    done.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(done))
"""


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """Run code in a process that sees installed packages; all such processes share one cache and one working folder."""
    home = tmp_path_factory.mktemp("home")
    own = {"HEADCOUNT_CACHE": str(home / "cache"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

    def run(sites, code, *arguments):
        return forked.run(code, *arguments, sites=sites, folder=home, settings=own)

    return run


@pytest.fixture(scope="session")
def commands(python):
    """Run command lines, one after the other in one process; gives (exit code, stdout, stderr) of each."""

    def run(sites, *lines):
        return json.loads(python(sites, COMMANDS, json.dumps([[str(word) for word in line] for line in lines])))

    return run


@pytest.fixture(scope="session")
def starcoder(tmp_path_factory):
    """A small random model of the family that the example adds, with a tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, Starcoder2Config

    from families import GROUPED
    from tokenizers_for_tests import make_tokenizer

    torch.manual_seed(0)
    tokenizer = make_tokenizer("digits")
    sizes = {**GROUPED, "vocab_size": len(tokenizer), "max_position_embeddings": 512}
    model = AutoModelForCausalLM.from_config(Starcoder2Config(**sizes, sliding_window=6))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.15 if parameter.dim() > 1 else 0.1))
    place = tmp_path_factory.mktemp("models") / "tiny-starcoder2"
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def test_the_command_line_shows_what_a_plugin_adds(plugin, commands):
    wanted = {
        ("methods",): ["value-norm", "mean norm of what the head writes"],
        ("tasks", "list"): ["said-again", "a list that is said again"],
        ("run", "--help"): ["single-heads", "What each head does alone.", "heads-kept"],
        ("run", "single-heads", "--help"): ["--together", "Heads that the curve removes together", "--fill"],
        ("schema", "single-heads"): ['"together"'],
    }
    for texts, (code, out, err) in zip(wanted.values(), commands([plugin], *wanted), strict=True):
        assert code == 0, err
        assert [text for text in texts if text not in out] == []


@pytest.fixture(scope="session")
def ran(plugin, broken, commands, starcoder, tmp_path_factory):
    """Runs of a built-in study with a method and a task of the plugin, and of its own study; beside a broken plugin,
    which is nobody's trouble."""
    place = tmp_path_factory.mktemp("out")
    words = ["--method", "value-norm", "--task", "said-again", "--model", "tiny", "--model", starcoder]
    small = ["--quick", "-n", 12, "--points", 4, "--draws", 2, "--repeats", 1]
    own = ["run", "single-heads", "--task", "said-again", "-n", 12, "--together", 3]
    done = commands(
        [plugin, broken],
        ["run", "heads-kept", *words, *small, "--out", place / "kept"],
        [*own, "--out", place / "single"],
        ["run", place / "single" / "study.toml", "--out", place / "again"],
    )
    assert [(code, err) for code, _, err in done if code] == []
    return place, [out for _, out, _ in done]


def test_a_method_and_a_task_run_on_any_model(ran):
    place, _ = ran
    curves = json.loads((place / "kept" / "summary.json").read_text())["curves"]
    assert {(curve["model"], curve["order"]) for curve in curves} == {
        (model, order) for model in ("tiny", "tiny-starcoder2") for order in ("absolute", "chance")
    }
    assert {curve["method"] for curve in curves if curve["order"] == "absolute"} == {"value-norm"}
    whole = next(curve["metric_all"] for curve in curves if curve["model"] == "tiny")
    assert whole > 4, "tiny has learned to say lists again"
    assert (place / "kept" / "figure.png").stat().st_size > 10_000


def test_a_study_runs_and_leaves_its_own_figure(ran):
    place, (_, out, _) = ran
    assert "2 computed, 0 from the cache" in out
    assert {path.name for path in (place / "single").iterdir()} - {"curves"} == {
        "curves.csv", "scores.csv", "summary.json", "study.toml", "provenance.json",
        "figure.png", "figure.svg", "figure.pdf", "report.html", "report.json",
    }  # fmt: skip
    (cell,) = json.loads((place / "single" / "summary.json").read_text())["cells"]
    assert (cell["model"], cell["heads"], cell["together"]) == ("tiny", 48, 3)
    assert cell["left_together"] < cell["whole"], "the heads that matter most were removed"


def test_the_resolved_study_of_a_plugin_runs_again_from_the_cache(ran):
    place, (_, _, out) = ran
    assert "0 computed, 2 from the cache" in out
    assert (place / "again" / "figure.svg").read_bytes() == (place / "single" / "figure.svg").read_bytes()


def test_a_family_has_edges_and_a_circuit_is_exported(plugin, python, starcoder, tmp_path):
    code = """
import sys, headcount as hc
folder, out = sys.argv[1:]
model = hc.load(folder)
for verdict in hc.check(model):
    print(verdict.passed, verdict.name)
scores = hc.score(model, hc.task("said-again", model, n=8), "eap")
scores.circuit(5).export("dot", out, digits=2)
"""
    verdicts = python([plugin], code, starcoder, tmp_path / "new" / "circuit.dot").splitlines()
    assert [verdict for verdict in verdicts if not verdict.startswith("True ")] == []
    assert len(verdicts) == 9
    assert any("with all edges kept the clean run is back" in verdict for verdict in verdicts)
    written = (tmp_path / "new" / "circuit.dot").read_text()
    assert written.startswith('digraph "tiny-starcoder2 said-again" {')
    assert written.count(" -> ") == 5


def test_without_the_plugin_the_family_has_heads_alone(starcoder, monkeypatch):
    monkeypatch.setattr(FAMILIES, "_plugins", {})
    verdicts = list(hc.check(hc.load(starcoder)))
    assert all(verdict.passed for verdict in verdicts)
    assert len(verdicts) == 8


def test_a_broken_plugin_gives_one_sentence_where_it_is_asked_for_and_is_no_trouble_elsewhere(broken, commands):
    small = ["--model", "tiny", "-n", "4", "--out", "unused"]
    asked = [
        ("study", ["run", "broken"]),
        ("study", ["run", "broken", "--help"]),
        ("study", ["schema", "broken"]),
        ("scoring method", ["run", "heads-kept", "--method", "broken", "--task", "ioi", *small]),
        ("task", ["run", "heads-kept", "--task", "broken", *small]),
    ]
    others = [["--version"], ["run", "--help"], ["run", "heads-kept", "--help"]]
    lists = [(["methods"], "attribution-ig"), (["tasks", "list"], "greater-than")]
    answers = iter(commands([broken], *(words for _, words in asked), *others, *(words for words, _ in lists)))
    for what, _ in asked:
        code, _, err = next(answers)
        assert code == 2
        assert err == (
            f"headcount: The {what} 'broken' of the package broken-extras cannot be loaded (nowhere:THING):"
            " No module named 'nowhere'\n"
        )
    for _ in others:
        code, out, err = next(answers)
        assert code == 0, err
        assert "nowhere" not in out + err
    for _, seen in lists:
        code, out, err = next(answers)
        assert code == 0, err
        assert seen in out


def test_a_broken_family_does_not_keep_other_models_from_loading(starcoder, monkeypatch):
    point = EntryPoint("broken", "nowhere:THING", "headcount.families")
    monkeypatch.setattr(FAMILIES, "_plugins", {"broken": point})
    assert hc.load(starcoder).n_heads == 4


def test_a_study_without_its_toml_or_of_no_kind_ends_no_other_command(commands, tmp_path):
    (tmp_path / "odd.py").write_text(
        "from headcount import Panel, StudyKind\n"
        "KIND = StudyKind('odd', 'It has no TOML.', Panel, 'headcount.studies', 'explained')\n"
    )
    declare(tmp_path, "odd_extras", {"headcount.studies": {"odd": "odd:KIND", "no-kind": "odd:Panel"}})
    listed, *asked = commands([tmp_path], ["methods"], ["run", "odd"], ["run", "no-kind"])
    assert listed[0] == 0, listed[2]
    assert [(code, err.count("\n")) for code, _, err in asked] == [(2, 1)] * 2, "one sentence where it is asked for"


def test_a_step_of_a_plugin_is_computed_again_when_its_code_changes(tmp_path, monkeypatch):
    from headcount.studies.plan import Step

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    keys = set()
    for number in (1, 2):
        (tmp_path / "steps_from_outside.py").write_text(f"def compute(job):\n    return {number}\n")
        sys.modules.pop("steps_from_outside", None)
        keys.add(Step("a step", "steps_from_outside:compute", hc.Curve, {}).key)
    sys.modules.pop("steps_from_outside", None)
    assert len(keys) == 2


def test_the_data_of_a_plugins_package_is_in_its_key(tmp_path, monkeypatch):
    """Its word lists and constants, wherever in the package they lie."""
    from headcount.core.keys import source_of

    package = tmp_path / "package_from_outside"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("def method():\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = set()
    for sign in ("1", "-1"):
        (package / "data" / "sign.txt").write_text(sign)
        found.add(source_of(importlib.import_module("package_from_outside").method))
    sys.modules.pop("package_from_outside")
    assert len(found) == 2


@pytest.fixture
def own_registries(monkeypatch):
    """What a test registers is gone behind it."""
    for registry in (METHODS, TASKS, FAMILIES, STUDIES):
        monkeypatch.setattr(registry, "_own", dict(registry._own))


def with_other_values(cls):
    """A value for every field of a dataclass that has a default, none of them the default."""
    told = [field for field in fields(cls) if field.init]
    defaults = {field.name: field.default for field in told if field.default is not MISSING}
    return {name: not value if isinstance(value, bool) else "other" for name, value in defaults.items()}


@pytest.mark.usefixtures("own_registries")
def test_register_method_takes_every_field_of_a_method():
    wanted = {field.name for field in fields(hc.Method) if field.init} - {"target"}  # the decorated function
    assert set(inspect.signature(hc.register_method).parameters) == wanted
    given = {"summary": "a line", "cost": "3", **with_other_values(hc.Method)}

    @hc.register_method("own", **given)
    def own(model, examples, request): ...

    assert METHODS["own"] == hc.Method("own", target=own, **given)


@pytest.mark.usefixtures("own_registries")
@pytest.mark.parametrize("name", TASKS._own)
def test_register_task_makes_the_entry_that_a_built_in_task_has(name):
    built_in = TASKS[name]
    told = {"kind"}  # by what the source can do
    assert {field.name for field in fields(hc.TaskEntry)} - told <= set(inspect.signature(hc.register_task).parameters)
    hc.register_task("own", built_in.made(), summary=built_in.summary)
    assert TASKS["own"] == hc.TaskEntry(built_in.made(), built_in.summary, built_in.kind)


@pytest.mark.usefixtures("own_registries")
def test_register_family_takes_every_field_of_a_family_and_of_its_edges():
    assert list(inspect.signature(hc.register_family).parameters) == ["model_type", "family"]
    for name, family in list(FAMILIES._own.items()):
        edges = family.edges and hc.Wires(
            **{field.name: getattr(family.edges, field.name) for field in fields(hc.Wires)}
        )
        own = {field.name: getattr(family, field.name) for field in fields(hc.Family)}
        hc.register_family(f"own-{name}", hc.Family(**{**own, "edges": edges}))
        assert FAMILIES[f"own-{name}"] == family


@pytest.mark.usefixtures("own_registries")
def test_register_study_takes_every_field_of_a_kind_of_study():
    assert list(inspect.signature(hc.register_study).parameters) == ["kind"]
    for built_in in list(STUDIES._own.values()):
        own = {field.name: getattr(built_in, field.name) for field in fields(hc.StudyKind)}
        hc.register_study(hc.StudyKind(**{**own, "name": f"own-{built_in.name}"}))
        found = STUDIES[f"own-{built_in.name}"]
        assert {**vars(found), "name": built_in.name} == vars(built_in)
        assert found.part("steps") is built_in.part("steps")
