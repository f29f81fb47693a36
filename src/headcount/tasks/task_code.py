"""Whether a task file of lm-evaluation-harness would run Python of its author's, found without running any.

`!function` imports a module beside the file, and a metric that the harness does not know is fetched and run by the
package `evaluate`. Both need the user's word. Templates are Jinja's; they are filled in a sandbox, in which they reach
nothing but their record.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.errors import HeadcountError, in_short
from ..core.plain import quoted

ALLOW = "HEADCOUNT_ALLOW_CODE"
"""Set by `--allow-code`, and passed on to other processes of the same study."""
FUNCTION = "!function"


def code_allowed() -> bool:
    return os.environ.get(ALLOW, "") not in ("", "0")


def allow_code() -> None:
    os.environ[ALLOW] = "1"


def require_no_code(path: Path) -> None:
    """Refuse a task file that would run Python, unless that is allowed."""
    if code_allowed():
        return
    for file in _reached(path):
        if found := next(_code(file), None):
            raise HeadcountError(
                f"{file} names Python code that would be run ({quoted(found)}). Read that code first; then allow it:"
                f" --allow-code, or {ALLOW}=1."
            )


def _reached(path: Path) -> list[Path]:
    """The file, all that it includes, and of a group all files of its folder, where its members are."""
    found, waiting = dict[Path, None](), [path.resolve()]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        top = _composed(file)
        entries = {key.value: value for key, value in top.value} if getattr(top, "id", "") == "mapping" else {}
        waiting += [(file.parent / each).resolve() for each in _scalars(entries.get("include"))]
        if "group" in entries or getattr(entries.get("task"), "id", "") == "sequence":
            waiting += [each.resolve() for each in file.parent.rglob("*.yaml")]
    return list(found)


def _code(file: Path) -> Iterator[str]:
    from lm_eval.api import metrics, registry

    known = {*registry.metric_registry.keys(), "bypass"} if metrics else set()
    for key, node in _nodes(_composed(file)):
        if node.tag == FUNCTION:
            yield f"{FUNCTION} {node.value}"
        if key == "metric" and node.id == "scalar" and node.value not in known:
            yield f"metric: {node.value}"


def _nodes(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every node of a file with the key that it stands under."""
    if node is None:
        return
    yield key, node
    if node.id == "mapping":
        for name, value in node.value:
            yield from _nodes(value, str(name.value))
    elif node.id == "sequence":
        for value in node.value:
            yield from _nodes(value, key)


def _scalars(node: Any) -> list[str]:
    return [found.value for _, found in _nodes(node) if found.id == "scalar"]


def _composed(file: Path) -> Any:
    """The file's nodes with their tags; nothing is constructed."""
    import yaml

    try:
        return yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise HeadcountError(f"The task file {file} cannot be read: {in_short(error)}") from error


@contextmanager
def sandboxed_templates() -> Iterator[None]:
    """Let the harness fill its templates in a sandbox while the block lasts."""
    from jinja2.sandbox import SandboxedEnvironment
    from lm_eval import utils

    before = utils.env
    inside = SandboxedEnvironment(undefined=before.undefined, keep_trailing_newline=before.keep_trailing_newline)
    inside.filters.update(before.filters)
    utils.env = inside
    try:
        yield
    finally:
        utils.env = before
