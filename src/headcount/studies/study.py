"""A study as a TOML file: panels of one kind, checked key by key before anything runs."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

import tomli_w
from typing_extensions import TypedDict

from ..core.errors import HeadcountError, did_you_mean, in_short, nearest_word, require_known
from ..core.plain import plain, quoted
from ..core.reading import local_path, read_text
from ..core.words import FigureWidth
from . import STUDIES
from .kind import StudyKind
from .panel import Panel, Table

WIDTHS = tuple(filter(None, get_args(FigureWidth)))
TABLES = ("kind", "title", "width", "defaults", "quick", "panel")


class Tables(TypedDict, total=False):
    """A study as a TOML has it."""

    kind: str
    title: str
    width: str
    defaults: Table
    quick: Table
    panel: list[Table]


@dataclass(frozen=True)
class Study:
    kind: StudyKind
    name: str
    title: str
    panels: tuple[Panel, ...]
    width: FigureWidth = ""
    """Of the figure; no part of what is computed."""

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(model for panel in self.panels for model in panel.models))

    def to_toml(self) -> str:
        """The study with every default written out, so that it can be run again as it is, from anywhere."""
        written = []
        for panel in self.panels:
            values: Table = {**panel.facts(), "models": list(map(_fixed, panel.models))}
            values |= {key: _fixed(str(values[key])) for key in (*panel.FILES, "base_model")}
            # An empty list of alphas says more than leaving the key out, an empty text does not.
            written.append({key: value for key, value in values.items() if value not in ("", None)})
        width = {"width": self.width} if self.width else {}
        return tomli_w.dumps({"kind": self.kind.name, "title": self.title, **width, "panel": written})


def read_study(
    source: str | Path,
    *,
    quick: bool = False,
    models: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    overrides: Mapping[str, object] | None = None,
    width: str = "",
) -> Study:
    """A bundled study by its name, or a TOML file by its path.

    What stands later wins: the defaults, the panel, the table [quick] where asked for, `overrides`. `models` and
    `tasks` take the place of the file's own.
    """
    for what, given in (("models", models), ("tasks", tasks)):
        if given is not None and (isinstance(given, str) or not given):
            raise HeadcountError(f"{what} is a list of names; got {quoted(given)}. Leave it out for the study's own.")
    path = study_path(str(source))
    raw, kind = parse(path)
    kind.settings.check_table(overrides or {}, "The options")
    late = {**(raw.get("quick", {}) if quick else {}), **(overrides or {})}
    written = raw.get("panel", [])
    if tasks:
        own = {task: [panel for panel in written if panel["task"] == task] for task in tasks}
        written = [panel for task, panels in own.items() for panel in panels or [Table(task=task)]]
    written = [{**panel, "task": task} for panel in written for task in _tasks_of(panel["task"])]
    if not written:
        raise HeadcountError(f'The study {path} has no panel. Add at least: [[panel]] with task = "ioi".')
    if models:
        late["models"] = list(models)
        # A task that has a panel for models of its own, and one for all others, is run once for those of the command.
        free = {panel["task"] for panel in written if "models" not in panel}
        written = [panel for panel in written if "models" not in panel or panel["task"] not in free]
    tables = kind.settings.apart([{**raw.get("defaults", {}), **panel, **late} for panel in written])
    panels = tuple(kind.settings(**table) for table in tables)
    kind.settings.check_together(panels, str(path))
    title, asked = plain(str(raw.get("title", path.stem))), width or raw.get("width", "")
    return Study(kind, path.stem, title, panels, cast(FigureWidth, _width(asked)))


def _width(asked: object) -> str:
    if asked == "":
        return ""
    require_known(asked, WIDTHS, "width of a figure")
    return str(asked)


def _tasks_of(name: object) -> Sequence[object]:
    """Of a pattern, such as blimp:*, what it stands for."""
    if not isinstance(name, str) or not name.endswith("*"):
        return [name]
    from ..tasks.known_sets import parts_of

    return parts_of(name)


def study_path(source: str) -> Path:
    if source in STUDIES:
        return STUDIES[source].toml
    if not source.endswith(".toml"):
        nearest = did_you_mean(source, STUDIES)
        raise HeadcountError(f"There is no study {quoted(source)}.{nearest} A file of your own ends in .toml.")
    return local_path(source)


def parse(path: Path) -> tuple[Tables, StudyKind]:
    """The tables of a file, each key known, of its type and in its range; and the kind of study that it is."""
    try:
        raw = tomllib.loads(read_text(path, "The study"))
    except (ValueError, RecursionError) as error:
        words = "it is nested too deep" if isinstance(error, RecursionError) else in_short(error)
        raise HeadcountError(f"The study {path} is not valid TOML: {words}.") from error
    for key in raw:
        if key not in TABLES:
            raise HeadcountError(f"{path}: unknown key {quoted(key)} at the top.{_belongs(key)}")
    if not isinstance(raw.get("title", ""), str):
        raise HeadcountError(f"{path}: title must be a text; got {quoted(raw['title'])}.")
    panels = raw.get("panel", [])
    if not isinstance(panels, list):
        raise HeadcountError(f"{path}: a panel is written as [[panel]], with two brackets.")
    tables = {"[defaults]": raw.get("defaults", {}), "[quick]": raw.get("quick", {})}
    tables |= {f"[[panel]] number {number}": panel for number, panel in enumerate(panels, start=1)}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise HeadcountError(f"{path}: {name} must be a table.")
    # Without a name, a study of what is kept, of the units that it names.
    units = next((table["units"] for table in tables.values() if "units" in table), "heads")
    name = raw.get("kind", f"{units}-kept")
    if not isinstance(name, str) or name not in STUDIES:
        asked = f"kind {quoted(name)}" if "kind" in raw else f"study of the units {quoted(units)}"
        raise HeadcountError(f"{path}: there is no {asked}.{did_you_mean(str(name), STUDIES)}")
    kind = STUDIES[name]
    for name, table in tables.items():
        kind.settings.check_table(table, f"{path}: {name}")
        if name.startswith("[[") and "task" not in table:
            raise HeadcountError(f"{path}: {name} has no task.")
    return cast(Tables, raw), kind


def _belongs(key: str) -> str:
    """What a key that does not stand at the top of a file may have been meant for, and where that stands."""
    below = {name for kind in STUDIES.sound().values() for name in kind.settings.model_fields}
    where = "belongs under [defaults], for all panels, or in a [[panel]]."
    if key in below:
        return f" {key} {where}"
    meant = nearest_word(key, [*TABLES, *sorted(below)])
    if meant is None or meant in TABLES:
        return did_you_mean(key, TABLES)
    return f" Did you mean {meant!r}? It {where}"


def study_schema(kind: StudyKind) -> Table:
    """JSON Schema of a TOML of this kind, for editors."""
    panel = kind.settings.model_json_schema()
    for key, value in parse(kind.toml)[0].get("defaults", {}).items():
        panel["properties"][key]["default"] = value
    definitions = panel.pop("$defs", {})
    some = {**panel, "required": []}
    properties: Table = {"kind": {"const": kind.name, "default": kind.name}, "title": {"type": "string"}}
    properties["width"] = {"enum": list(WIDTHS)}
    properties |= {"defaults": some, "quick": some, "panel": {"type": "array", "minItems": 1, "items": panel}}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind.name, "type": "object"}
    return {**schema, "properties": properties, "additionalProperties": False, "$defs": definitions}


def _fixed(name: str) -> str:
    """A local folder or file by its whole path, so that the study can be run again from anywhere."""
    place = local_path(name)
    return str(place.resolve()) if name and place.exists() else name
