"""The shape of the code: data flows down one list of modules, and nothing is unpickled or trusted."""

import ast
from pathlib import Path

import headcount

SOURCE = Path(headcount.__file__).parent
ORDER = (
    "errors", "cache", "progress", "results", "comet", "graph", "recipe", "models", "tasks", "provenance", "metrics",
    "text_metrics", "cuts", "memory", "measure", "generation", "answers", "circuits", "curves", "scores", "units",
    "sweeps", "attention_edges", "role_sweeps", "comparison", "probing", "masking", "steering", "sparse", "figures",
    "selfcheck", "studies", "tables", "cli",
)  # fmt: skip


def imports(path):
    """Top-level modules of headcount that a file imports, also inside functions."""
    depth = len(path.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            yield from [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]


def test_a_module_imports_only_from_modules_above_it():
    for path in SOURCE.rglob("*.py"):
        home = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if home in ("__init__", "__main__"):
            continue
        for used in imports(path):
            assert ORDER.index(used) <= ORDER.index(home), f"{path.name} imports {used}, which stands below it"


def test_every_module_has_its_place():
    found = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert found - {"__init__", "__main__", "__pycache__", "py.typed"} == set(ORDER)


def test_nothing_is_unpickled_and_no_remote_code_is_trusted():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for word in ("pickle", "torch.load(", "trust_remote_code=True", "shell=True"):
            assert word not in text, f"{path.name} has {word}"


def test_the_public_names_are_all_there():
    for name in headcount.__all__:
        assert getattr(headcount, name) is not None
