"""A study as a TOML file: panels of curves, checked key by key before anything runs."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import HeadcountError, did_you_mean

TABLES = ("title", "defaults", "quick", "panel")


@dataclass(frozen=True)
class Panel:
    """One panel of the figure: a task, and a curve for each model and order. Every field is a key of the TOML."""

    task: str
    models: tuple[str, ...] = ("smollm2",)
    title: str = ""
    """The task's own by default."""
    units: str = "heads"
    method: str = "attribution"
    mode: str = "keep"
    orders: tuple[str, ...] = ("absolute", "signed", "chance")
    fill: str = "counterfactual"
    positions: str = "all"
    readers: str = "kv-heads"
    """For edges: who reads keys and values, the model's KV heads or every query head."""
    prune: bool = False
    """For edges: measure circuits without dangling edges."""
    metric: str = ""
    """The task's own by default."""
    threshold: float = 0.9
    precision: float = 0.0
    """Share of the units needed to which the crossing of the threshold is found; 0 for one unit."""
    n: int = 200
    ks: str | tuple[int, ...] = ""
    """A grid's name or numbers; quadratic for heads and logarithmic for edges by default."""
    points: int = 24
    draws: int = 20
    steps: int = 5
    seed: int = 0


PANEL_KEYS = tuple(field.name for field in fields(Panel))
LISTS: dict[str, type] = {"models": str, "orders": str}
SCALARS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("task", "title", "units", "method", "mode", "fill", "positions", "readers", "metric"), (str,)),
    **dict.fromkeys(("threshold", "precision"), (int, float)),
    **dict.fromkeys(("n", "points", "draws", "steps", "seed"), (int,)),
}
FLAGS = ("prune",)
CHOICES = {
    "units": ("heads", "edges"),
    "readers": ("kv-heads", "query-heads"),
    "mode": ("keep", "mask"),
    "orders": ("absolute", "signed", "chance", "chance-matched"),
    "positions": ("all", "last", "generated"),
}
RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "threshold": (lambda value: 0 < value <= 1, "above 0 and not above 1"),
    "precision": (lambda value: 0 <= value < 1, "from 0 to below 1"),
    "n": (lambda value: value >= 2, "at least 2 pairs, one to score on and one to measure on"),
    "points": (lambda value: value >= 2, "at least 2"),
    "draws": (lambda value: value >= 1, "at least 1"),
    "steps": (lambda value: value >= 1, "at least 1"),
    "seed": (lambda value: value >= 0, "a whole number from 0 on"),
}


@dataclass(frozen=True)
class Study:
    name: str
    title: str
    panels: tuple[Panel, ...]

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(model for panel in self.panels for model in panel.models))

    def to_toml(self) -> str:
        """The study with every default written out, so that it can be run again as it is."""
        blocks = [f"title = {_toml(self.title)}\n"]
        for panel in self.panels:
            settings = {**vars(panel), "task": _fixed(panel.task), "models": tuple(map(_fixed, panel.models))}
            lines = [f"{key} = {_toml(value)}" for key, value in settings.items() if value != ""]
            blocks.append("\n".join(["[[panel]]", *lines]) + "\n")
        return "\n".join(blocks)


def bundled_studies() -> dict[str, Path]:
    folder = Path(str(files(__package__)))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_study(
    source: str | Path, *, quick: bool = False, models: Sequence[str] = (), tasks: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
) -> Study:  # fmt: skip
    """A bundled study by its name, or a TOML file by its path.

    What stands later wins: the defaults, the panel, the table [quick] where asked for, `overrides`. `models` and
    `tasks` take the place of the file's own.
    """
    path = _path(str(source))
    raw = _parse(path)
    shared = raw.get("defaults", {})
    _check_table("the command", overrides or {})
    late = {**(raw.get("quick", {}) if quick else {}), **(overrides or {})}
    written = raw.get("panel", [])
    if tasks:
        known = {panel["task"]: panel for panel in written}
        written = [known.get(task, {"task": task}) for task in dict.fromkeys(tasks)]
    if not written:
        raise HeadcountError(f'The study {path} has no panel. Add at least: [[panel]] with task = "ioi".')
    if models:
        late["models"] = list(models)
    panels = tuple(_panel({**shared, **panel, **late}) for panel in written)
    return Study(path.stem, str(raw.get("title", path.stem)), panels)


def _path(source: str) -> Path:
    bundled = bundled_studies()
    if source in bundled:
        return bundled[source]
    if not source.endswith(".toml"):
        raise HeadcountError(
            f"There is no study {source!r}.{did_you_mean(source, bundled)} A file of your own ends in .toml."
        )
    return Path(source)


def _parse(path: Path) -> dict[str, Any]:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise HeadcountError(f"The study {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HeadcountError(f"The study {path} is not valid TOML: {error}.") from error
    for key in raw:
        if key not in TABLES:
            raise HeadcountError(f"{path}: unknown key {key!r} at the top.{did_you_mean(key, TABLES)}")
    tables = [("[defaults]", raw.get("defaults", {})), ("[quick]", raw.get("quick", {}))]
    panels = raw.get("panel", [])
    if not isinstance(panels, list):
        raise HeadcountError(f"{path}: a panel is written as [[panel]], with two brackets.")
    tables += [(f"[[panel]] number {number}", panel) for number, panel in enumerate(panels, start=1)]
    if not isinstance(raw.get("title", ""), str):
        raise HeadcountError(f"{path}: title must be a text; this is {raw['title']!r}.")
    for name, table in tables:
        if not isinstance(table, dict):
            raise HeadcountError(f"{path}: {name} must be a table.")
        _check_table(f"{path}: {name}", table)
        if name.startswith("[[") and "task" not in table:
            raise HeadcountError(f"{path}: {name} has no task.")
    return raw


def _check_table(place: str, table: Mapping[str, Any]) -> None:
    """Every key known, of its type and in its range; the error says where it stands."""
    for key, value in table.items():
        if key not in PANEL_KEYS:
            raise HeadcountError(f"{place}: unknown key {key!r}.{did_you_mean(key, PANEL_KEYS)}")
        if wanted := _wanted_type(key, value):
            raise HeadcountError(f"{place}: {key} must be {wanted}; this is {value!r}.")
        for choice in value if isinstance(value, list | tuple) else [value]:
            if key in CHOICES and choice not in CHOICES[key]:
                raise HeadcountError(f"{place}: {key} cannot be {choice!r}.{did_you_mean(str(choice), CHOICES[key])}")
        if key in RANGES and not RANGES[key][0](value):
            raise HeadcountError(f"{place}: {key} must be {RANGES[key][1]}; this is {value}.")


def _panel(values: dict[str, Any]) -> Panel:
    """A panel of checked values; what is listed twice counts once."""
    listed: dict[str, Any] = {k: tuple(dict.fromkeys(v)) if isinstance(v, list) else v for k, v in values.items()}
    return Panel(**listed)


def _wanted_type(key: str, value: Any) -> str | None:
    """What the value of a key should be, where it is not that."""
    if key == "ks":
        right = isinstance(value, str) or (isinstance(value, list) and all(type(k) is int for k in value))
        wanted = "the name of a grid or a list of whole numbers"
    elif key in FLAGS:
        right, wanted = isinstance(value, bool), "true or false"
    elif key in LISTS:
        right = isinstance(value, list) and bool(value) and all(isinstance(entry, LISTS[key]) for entry in value)
        wanted = "a list of texts that is not empty"
    else:
        right = isinstance(value, SCALARS[key]) and not isinstance(value, bool)
        wanted = "a text" if SCALARS[key] == (str,) else "a whole number" if SCALARS[key] == (int,) else "a number"
    return None if right else wanted


def _fixed(name: str) -> str:
    """A local folder or file by its whole path, so that the study can be run again from anywhere."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    return repr(value)
