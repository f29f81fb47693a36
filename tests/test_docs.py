"""Docs that cannot rot: every command in README and docs is given to the real command line, every link leads somewhere,
the notebook runs, and every scoring method has its paragraph and its paper."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from headcount.cli.commands import command_line
from headcount.cli.run import study_first

HOME = Path(__file__).parent.parent
PAGES = sorted([HOME / "README.md", HOME / "CONTRIBUTING.md", HOME / "ARCHITECTURE.md", *(HOME / "docs").rglob("*.md")])
OURS = ("headcount", ".venv/bin/headcount")
OTHERS = ("make", "pip")
"""Programs whose commands are not run here: targets of make are looked up."""
PAIRS = {
    "--model": "tiny",
    "--task": "ioi",
    "-n": "4",
    "--points": "2",
    "--draws": "1",
    "--repeats": "1",
    "--updates": "1",
}
FIT = {"--seeds": "1", "--updates": "1", "--batch": "2", "--test": "2", "--ks": "1"}
PROBES = {"--seeds": "1", "--shuffles": "1", "--epochs": "1", "--draws": "1", "--new-tokens": "2", "--comet": "no"}
SMALLER = {
    "run heads-kept": PAIRS,
    "run edges-kept": PAIRS,
    "run attention-edges-kept": PAIRS,
    "run head-roles": {"--model": "tiny", "--task": "syntax", "-n": "4", **FIT},
    "run masked-heads": {"--model": "tiny", "-n": "6", "--task": "retrieval", **PROBES},
    "run my.toml": {"-n": "4"},
    "score": {"-n": "4"},
}
"""What is added, where a command does not say it, so that it takes a moment."""
MEANT = {"TASK": "ioi", "gsm8k": "math"}
"""What stands for something of the reader's own, or needs the hub."""
RUN_HERE = ("methods", "tasks", "schema", "forecast", "questions", "check", "score", *SMALLER)


def commands():
    """(page, words) of every line of the sh blocks, without comments; a backslash continues a line."""
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if words := shlex.split(line, comments=True):
                    yield page.name, words


ALL = list(commands())


def test_there_are_commands_and_all_are_ours_or_known():
    assert len(ALL) > 50
    assert {words[0] for _, words in ALL} <= {*OURS, *OTHERS}


def test_targets_of_make_are_there():
    targets = set(re.findall(r"^([\w-]+):", (HOME / "Makefile").read_text(), re.MULTILINE))
    assert {words[1] for _, words in ALL if words[0] == "make"} <= targets


def parsed(arguments):
    """The command line as Typer reads it, without running it; a wrong option or argument raises."""
    context, command = None, command_line()
    rest = study_first(arguments)
    while rest and hasattr(command, "commands"):
        context = typer.Context(command, parent=context, info_name=rest[0])
        if rest[0] not in command.commands:
            assert getattr(command, "invoke_without_command", False), rest
            break
        command, rest = command.commands[rest[0]], rest[1:]
    return command.make_context("headcount", list(rest), resilient_parsing=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory, folder, text):
    """A folder with all that the commands name: models, texts, tasks, questions, studies, results."""
    here = tmp_path_factory.mktemp("docs")
    for name in ("MODEL", "DENSE", "SPARSE", "A", "B", "LORA", "smollm2", "tiny", "tiny-sparse", "twin"):
        (here / name).symlink_to(folder)
    for name in ("books.txt", "more.jsonl"):
        lines = Path(text).read_text()
        (here / name).write_text(lines if name.endswith("txt") else json.dumps({"text": lines}) + "\n")
    pair = {"clean": "We saw Mary", "corrupt": "We saw John", "answer": " Mary", "wrong": " John"}
    rows = [
        {**pair, "clean": f"We saw Mary in {year}", "corrupt": f"We saw John in {year}"} for year in range(1200, 1208)
    ]
    for name in ("mine.jsonl", "my.jsonl"):
        (here / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (here / "mine.csv").write_text(
        "\n".join([",".join(pair), *(",".join(f'"{value}"' for value in row.values()) for row in rows)]) + "\n"
    )
    skills = ("Retrieval", "Knowledge Recall", "Math Calculation", "Inference")
    asked = [{"subquestion": f"Who is {skill}?", "answer": "Mary", "cognitive_skill": skill} for skill in skills]
    records = [
        {"question": f"Who was it in {year}?", "answer": "Mary", "generated": asked} for year in range(1200, 1206)
    ]
    (here / "cogqa.json").write_text(json.dumps(records))
    (here / "my.toml").write_text('kind = "heads-kept"\n[[panel]]\ntask = "ioi"\nmodels = ["tiny"]\n')
    return here


def smaller(words, place):
    """The command with models and sizes that take a moment; what it names lies in the folder."""
    asked = [MEANT.get(word, word) for word in words[1:] if word != "--open"]
    added = SMALLER.get(" ".join(asked[:2]), SMALLER.get(asked[0], {}))
    asked += [part for option, value in added.items() if option not in asked for part in (option, value)]
    asked += ["--plan", "--json"] if asked[0] == "run" and "--on" in asked else []  # a cluster is not asked for it
    return [str(place / word) if (place / word).exists() else word for word in asked]


RUN = [entry for entry in ALL if entry[1][0] in OURS]


@pytest.mark.parametrize(("page", "words"), RUN, ids=[f"{page} {' '.join(words[1:])}" for page, words in RUN])
def test_options_are_there(page, words, place, monkeypatch):
    monkeypatch.chdir(place)
    if "--help" in words:
        words = [word for word in words if word != "--help"]
    parsed(words[1:])


def test_a_wrong_option_is_noticed():
    with pytest.raises(Exception, match="--methd"):
        parsed(["run", "heads-kept", "--methd", "patching"])
    with pytest.raises(Exception, match="colour"):
        parsed(["methods", "colour"])


ONCE = list({tuple(words[1:]): (page, words) for page, words in RUN}.values())
"""What several pages say is run once."""
SHORT = [entry for entry in ONCE if entry[1][1] in RUN_HERE or " ".join(entry[1][1:3]) in RUN_HERE]


@pytest.mark.usefixtures("no_figures")
def test_short_commands_run(place, headcount, monkeypatch):
    """On a small random model, studies too, with as few prompts, points and fits as can be."""
    monkeypatch.chdir(place)
    alike = {tuple(smaller(words, place)): (page, words) for page, words in SHORT}
    for asked, (page, words) in alike.items():
        code, _, said = headcount(*asked)
        assert code == 0, f"{page}: {' '.join(words)}: {said}"


MADE = (
    (
        "run heads-kept",
        "--model MODEL --task ioi -n 4 --points 3 --draws 1 --repeats 1 --order absolute --method attribution",
    ),
    ("score MODEL ioi", "--out scores/ioi -n 4"),
    ("score MODEL ioi", "--method retrieval --out scores/retrieval -n 4"),
    ("score MODEL ioi", "--method eap --out scores/edges -n 4"),
    ("score MODEL ioi", "--method direct --out s/patching -n 4"),
    ("score MODEL ioi", "--method gate-gradient --out s/gradient -n 4"),
)
"""What readers have made before they come to the commands below."""
LATER = ("report", "view", "play", "export", "compare", "sparsify")
INSTEAD = {
    "RESULT": "scores/ioi",
    "RESULTS": "headcount-results",
    "smollm2": "MODEL",
    "my-sparse-model": "twin",
    "headcount-results/head-roles/roles/syntax-smollm2": "scores/ioi",
}
BRIEF = ("--steps", "4", "--batch", "1", "--length", "16", "--evaluate-sequences", "1")


@pytest.mark.usefixtures("no_figures")
def test_commands_about_results_run(tmp_path, folder, text, headcount, monkeypatch):
    """On a small random model, in the order in which a reader comes to them; pages are made and not served."""
    monkeypatch.chdir(tmp_path)
    for served in ("headcount.studies.viewing.serve", "headcount.view.server.serve"):
        monkeypatch.setattr(served, lambda page, address, ready: address.bound_to.close())
    Path("MODEL").symlink_to(folder)
    Path("books.txt").write_text(Path(text).read_text())
    Path("more.jsonl").write_text(json.dumps({"text": Path(text).read_text()}) + "\n")
    for start, rest in MADE:
        assert headcount(*start.split(), *rest.split())[0] == 0, start
    asked = [words[1:] for _, words in ONCE if words[1] in LATER and words[1:] != ["play"]]
    asked.sort(key=lambda words: words[0] != "sparsify")  # whose twin a report is written of
    asked.append(["play", "MODEL"])
    for number, words in enumerate(asked):
        words = [INSTEAD.get(word, word) for word in words]
        if "--top" in words:
            words[words.index("--top") + 1] = "2"
        if "--out" in words and words[-1] != "twin":
            words[words.index("--out") + 1] += str(number) if words[0] == "sparsify" else f"-{number}"
        code, _, said = headcount(*words, *(BRIEF if words[0] == "sparsify" else ()))
        assert code == 0, f"{' '.join(words)}: {said}"


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith(("http://", "https://", "mailto:")):
                continue
            path, _, anchor = target.partition("#")
            aim = (page.parent / path) if path else page
            assert aim.exists(), f"{page.name} links to {target}"
            if anchor and aim.suffix == ".md":
                assert anchor in anchors(aim), f"{page.name} links to {target}"


def anchors(page):
    """As GitHub makes them of headings."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_the_notebook_runs(tmp_path, monkeypatch):
    notebook = json.loads((HOME / "docs" / "quickstart.ipynb").read_text())
    assert notebook["nbformat"] == 4
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        assert not cell["outputs"], "the notebook is kept without outputs"
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["needed"].value < names["chance"].units_needed(0.9).value, (
        "ranked heads do with fewer than random ones"
    )


def test_every_method_has_its_paragraph_and_every_paper_its_entry():
    from headcount.rank import METHODS

    page = (HOME / "docs" / "methods" / "README.md").read_text()
    missing = [name for name in METHODS if f"`{name}`" not in page]
    assert not missing
    entries = (HOME / "docs" / "references.bib").read_text()
    for number in set(re.findall(r"\b\d{4}\.\d{5}\b", page)):
        assert f"eprint={{{number}}}" in entries, number
