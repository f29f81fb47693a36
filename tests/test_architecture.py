"""The shape of the code: data flows down one list of rooms, and nothing is unpickled or trusted."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headcount

SOURCE = Path(headcount.__file__).parent
ROOMS = (
    "core", "models", "tasks", "edit", "meters", "rank", "sweeps", "export", "sparse", "view", "studies", "cli",
)  # fmt: skip
LONGEST_FILE = 350


def imports(path):
    """Rooms of headcount that a file imports from, also inside functions."""
    depth = len(path.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            yield from [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]


def test_a_room_imports_only_from_rooms_above_it():
    for path in SOURCE.rglob("*.py"):
        home = path.relative_to(SOURCE).parts[0]
        if home not in ROOMS:
            continue
        for used in imports(path):
            if used != "__version__":
                assert ROOMS.index(used) <= ROOMS.index(home), f"{path.name} imports {used}, which stands below it"


def test_every_room_has_its_place_and_nothing_else_lies_at_the_top():
    found = {path.name for path in SOURCE.iterdir()} - {"__pycache__"}
    assert found == {*ROOMS, "__init__.py", "__init__.pyi", "__main__.py", "py.typed"}


def test_no_file_is_too_long_to_be_read_at_a_sitting():
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= LONGEST_FILE, path


def test_nothing_is_unpickled_and_no_remote_code_is_trusted():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for word in ("pickle", "torch.load(", "trust_remote_code=True", "shell=True"):
            assert word not in text, f"{path.name} has {word}"


def public_functions(tree, prefix=""):
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node, f"{node.name}.")
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield f"{prefix}{node.name}", node


def names_in(hint):
    """All names of an annotation, also of one that is written as a text."""
    tree = ast.parse(hint.value) if isinstance(getattr(hint, "value", None), str) else hint
    return {word.id for word in ast.walk(tree) if isinstance(word, ast.Name)}


def names_of_signatures():
    """Of functions and methods of all rooms, whether they are part of the package's own API or not."""
    for path in SOURCE.rglob("*.py"):
        for name, node in public_functions(ast.parse(path.read_text())):
            arguments = [*node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            hints = [argument.annotation for argument in arguments if argument is not None and argument.annotation]
            for hint in [*hints, *([node.returns] if node.returns else [])]:
                yield f"{path.name}: {name}", names_in(hint)


def test_no_public_signature_says_any():
    for place, names in names_of_signatures():
        assert "Any" not in names, place


def test_no_public_signature_hides_any_behind_another_name():
    assigned = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    ]
    says_any = lambda value: any(isinstance(word, ast.Name) and word.id == "Any" for word in ast.walk(value))
    aliases = {node.targets[0].id for node in assigned if says_any(node.value)}
    assert {name for _, names in names_of_signatures() for name in names} & aliases == set()


@pytest.mark.parametrize("name", headcount.__all__)
def test_public_names_are_there(name):
    assert getattr(headcount, name) is not None


def test_the_command_line_says_what_there_is_without_torch():
    code = "import sys, headcount.cli.commands, headcount.studies, headcount.rank; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
