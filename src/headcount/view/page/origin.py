"""Where a result comes from, as a page shows it: versions, models, the command that runs it again, how to cite it."""

import json
from pathlib import Path

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ...core.provenance import Facts, part_of, versions
from .data import Provenance

MODEL_FACTS = ("name", "class", "sha256", "dtype", "device", "attention")
MOST_FILES = 300


class _Written(TypedDict, total=False):
    """What a page shows of provenance.json."""

    versions: dict[str, object]
    scores: list[Facts]
    curves: list[Facts]
    steps: list[Facts]


def origin_of(folder: Path, command: str, leave_out: tuple[str, ...]) -> Provenance:
    """From provenance.json and study.toml, where they are there."""
    facts = _read(folder / "provenance.json")
    found = [part_of(origin, "model") for origin in (*facts.get("scores", []), *facts.get("curves", []))]
    models = {json.dumps(model): model for model in found if model}
    made_with = facts.get("versions") or versions()
    toml = folder / "study.toml"
    return Provenance(
        versions={str(name): str(version) for name, version in made_with.items()},
        models=[{key: str(model[key]) for key in MODEL_FACTS if key in model} for model in models.values()],
        command=command,
        cite=citation(str(made_with.get("headcount", ""))),
        toml=toml.read_text(encoding="utf-8") if toml.is_file() else "",
        files=files_of(folder, leave_out),
        steps=[str(step.get("label", "")) for step in facts.get("steps", [])],
    )


def files_of(folder: Path, leave_out: tuple[str, ...]) -> list[str]:
    paths = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    names = [path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts)]
    return [name for name in names if name not in leave_out][:MOST_FILES]


def citation(version: str) -> str:
    """BibTeX of the tool that made a result."""
    return (
        "@software{headcount,\n  title = {headcount: how many attention heads does a behaviour need, and which ones?},"
        f"\n  version = {{{version}}},\n  license = {{Apache-2.0}}\n}}"
    )


def _read(path: Path) -> _Written:
    """Nothing where it is not there, or no JSON object; an error where its parts are not what they should be."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return TypeAdapter(_Written).validate_python(found) if isinstance(found, dict) else {}
