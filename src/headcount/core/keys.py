"""Keys: hashes of what a number depends on, our own source and that of registered functions included."""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


def digest(facts: object, length: int = 24) -> str:
    """Of anything that JSON can say; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:length]


@cache
def package_source() -> str:
    """Of headcount itself: another version of the code may compute another number."""
    return _of_files(PACKAGE, [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml")])


def source_of(thing: object) -> str:
    """Of the code that a registered function or object comes from: its whole package, or its file, or what can be seen
    of it in a notebook; empty for headcount's own, which `package_source` covers."""
    home = getattr(thing, "__module__", None) or type(thing).__module__
    top = home.partition(".")[0]
    if top == PACKAGE.name:
        return ""
    module, parent = sys.modules.get(home), sys.modules.get(top)
    root = getattr(parent, "__file__", None)
    if root and Path(root).name == "__init__.py":
        return _of_tree(Path(root).parent)
    file = getattr(module, "__file__", None)
    if file and Path(file).is_file():
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:24]
    code = thing if callable(thing) and hasattr(thing, "__code__") else type(thing)
    try:
        return digest(inspect.getsource(code))
    except (OSError, TypeError):
        compiled = getattr(code, "__code__", None)
        return digest(repr((compiled.co_code, compiled.co_consts)) if compiled else repr(thing))


def _of_tree(folder: Path) -> str:
    """With the data that the code reads; not with what Python makes of it."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return _of_files(folder, files)


def _of_files(folder: Path, files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(f"{path.relative_to(folder)}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:24]
