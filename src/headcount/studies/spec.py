"""A study as a TOML file: panels of curves, checked key by key before anything runs."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import HeadcountError, did_you_mean

TABLES = ("kind", "title", "defaults", "quick", "panel")


@dataclass(frozen=True)
class Panel:
    """What the panels of all studies have. Every field is a key of the TOML."""

    task: str
    models: tuple[str, ...] = ("smollm2",)
    title: str = ""
    """The task's own by default."""
    metric: str = ""
    """The task's own by default."""
    n: int = 200
    seed: int = 0


@dataclass(frozen=True)
class KeptPanel(Panel):
    """Explained effect against units kept or masked: a task, and a curve for each model and order."""

    units: str = "heads"
    method: str = ""
    """By default the integrated gradient between the two prompts, where there is one for these units and this fill."""
    mode: str = "keep"
    orders: tuple[str, ...] = ("absolute", "signed", "chance")
    fill: str = "counterfactual"
    positions: str = "all"
    readers: str = "kv-heads"
    """For edges: who reads keys and values, the model's KV heads or every query head."""
    prune: bool = False
    """For edges: measure circuits without dangling edges."""
    threshold: float = 0.9
    precision: float = 0.0
    """Share of the units needed to which the crossing of the threshold is found; 0 for one unit."""
    ks: str | tuple[int, ...] = ""
    """A grid's name or numbers; quadratic for heads and logarithmic for the others by default."""
    points: int = 24
    draws: int = 20
    steps: int = 5

    def __post_init__(self) -> None:
        if not self.method:
            of_heads = "attribution-ig" if self.fill == "counterfactual" else "attribution"
            chosen = {"heads": of_heads, "edges": "eap-ig"}.get(self.units, "attribution")
            object.__setattr__(self, "method", chosen)


@dataclass(frozen=True)
class RolesPanel(Panel):
    """Change in log-probability against heads ablated by role: a task, and four curves for each model. The defaults of
    the fit are the paper's."""

    metric: str = "log_prob"
    """What the figure shows the change of: `log_prob`, summed over the target, or `log_prob_per_token`."""
    fill: str = "zero"
    """What a shut gate lets through."""
    base: str = "plus"
    """The gates in which heads are ablated: G+ or all ones."""
    seeds: int = 10
    updates: int = 500
    """Of each of three stages, at most."""
    batch: int = 64
    free_rate: tuple[float, ...] = (0.1, 0.01)
    pulled_rate: tuple[float, ...] = (0.5, 0.1)
    """Learning rates at the first and at the last update, without and with a pull."""
    pull: float = 0.1
    patience: int = 50
    """Updates after which a seed stops whose roles no longer move; 0 for never."""
    test: int = 0
    """Test examples that are measured, at most; 0 for all. Curves cost by their number, fits do not."""
    ks: tuple[int, ...] = ()
    """Numbers of heads to ablate; 0 to 50 by default."""
    draws: int = 1
    """Chance orders for each seed."""


@dataclass(frozen=True)
class MaskedPanel(Panel):
    """Answers with the top k heads of a function masked, against k random others: `task` is the function."""

    metric: str = "accepted"
    """Which accuracy the figure shows."""
    n: int = 162
    """Questions of each function in all three splits together, at most."""
    questions: str = "built-in"
    """Or a file in the layout of CogQA."""
    method: str = "probe"
    """What ranks the heads: `probe`, `probe-by-head`, or `copy`."""
    choose: str = "surprisal"
    """Answer tokens at which heads are read: `first`, `last`, `mean`, or those of highest `surprisal`."""
    tokens: int = 5
    """How many of these."""
    seeds: int = 5
    """Fits of the joint classifier."""
    shuffles: int = 5
    """Controls, fitted to shuffled labels."""
    epochs: int = 30
    batch: int = 64
    rate: float = 1e-3
    ks: str | tuple[int, ...] = ()
    """Numbers of heads to mask, or "elbow" for as many as stand out; shares of all heads by default, 16, 32, 64 and 128
    of 1,024."""
    draws: int = 10
    """Of random heads, and of random heads matched by layer."""
    fill: str = "scale(0.001)"
    positions: str = "generated"
    new_tokens: int = 16
    """Of an answer, at most."""
    alphas: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0)
    """How hard to push the heads of a function; empty for not at all."""
    comet: str = ""
    """The command comet-score, where it is not on the PATH or in headcount's own environment; "no" to do without."""
    comet_model: str = "Unbabel/wmt22-comet-da"


PANELS: dict[str, type[Panel]] = {"kept": KeptPanel, "roles": RolesPanel, "masked": MaskedPanel}
"""Kinds of studies."""
TEXTS = (
    "task", "title", "units", "method", "mode", "fill", "positions", "readers", "metric", "base", "questions", "choose",
    "comet", "comet_model",
)  # fmt: skip
NUMBERS = ("threshold", "precision", "pull", "rate")
COUNTS = (
    "n", "points", "draws", "steps", "seed", "seeds", "updates", "batch", "patience", "test", "tokens", "shuffles",
    "epochs", "new_tokens",
)  # fmt: skip
LISTS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("models", "orders"), ((str,), "a list of texts that is not empty")),
    **dict.fromkeys(("free_rate", "pulled_rate"), ((int, float), "a list of two numbers")),
    "alphas": ((int, float), "a list of numbers"),
}
SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(TEXTS, ((str,), "a text")),
    **dict.fromkeys(NUMBERS, ((int, float), "a number")),
    **dict.fromkeys(COUNTS, ((int,), "a whole number")),
}
FLAGS = ("prune",)
CHOICES = {
    "units": ("heads", "edges", "attention-edges"),
    "readers": ("kv-heads", "query-heads"),
    "mode": ("keep", "mask"),
    "orders": ("absolute", "signed", "chance", "chance-matched"),
    "positions": ("all", "last", "generated"),
    "base": ("plus", "ones"),
}
AT_LEAST_ONE = ("seeds", "updates", "batch", "tokens", "shuffles", "epochs", "new_tokens")
RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "threshold": (lambda value: 0 < value <= 1, "above 0 and not above 1"),
    "precision": (lambda value: 0 <= value < 1, "from 0 to below 1"),
    "n": (lambda value: value >= 2, "at least 2 examples, one to score on and one to measure on"),
    "points": (lambda value: value >= 2, "at least 2"),
    "draws": (lambda value: value >= 1, "at least 1"),
    "steps": (lambda value: value >= 1, "at least 1"),
    "seed": (lambda value: value >= 0, "a whole number from 0 on"),
    **{key: (lambda value: value >= 1, "at least 1") for key in AT_LEAST_ONE},
    "patience": (lambda value: value >= 0, "0 for never, or more"),
    "test": (lambda value: value >= 0, "0 for all, or more"),
    "rate": (lambda value: value > 0, "above 0"),
    "alphas": (lambda value: all(alpha > 0 for alpha in value), "above 0 each"),
    "pull": (lambda value: value > 0, "above 0; both signs of it are fitted"),
}


@dataclass(frozen=True)
class Study:
    kind: str
    name: str
    title: str
    panels: tuple[Panel, ...]

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(model for panel in self.panels for model in panel.models))

    def to_toml(self) -> str:
        """The study with every default written out, so that it can be run again as it is."""
        blocks = [f"kind = {_toml(self.kind)}\ntitle = {_toml(self.title)}\n"]
        for panel in self.panels:
            files = ("questions", "comet", "comet_model") if isinstance(panel, MaskedPanel) else ("task",)
            fixed = {file: _fixed(getattr(panel, file)) for file in files}
            settings = {**vars(panel), **fixed, "models": tuple(map(_fixed, panel.models))}
            lines = [f"{key} = {_toml(value)}" for key, value in settings.items() if _says(key, value)]
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
    kind = raw.get("kind", "kept")
    known = tuple(field.name for field in fields(PANELS[kind]))
    _check_table("the command", overrides or {}, known)
    late = {**(raw.get("quick", {}) if quick else {}), **(overrides or {})}
    written = raw.get("panel", [])
    if tasks:
        own: dict[str, list[dict[str, Any]]] = {}
        for panel in written:
            own.setdefault(panel["task"], []).append(panel)
        written = [panel for task in dict.fromkeys(tasks) for panel in own.get(task, [{"task": task}])]
    if not written:
        raise HeadcountError(f'The study {path} has no panel. Add at least: [[panel]] with task = "ioi".')
    if models:
        late["models"] = list(models)
        # A task that has a panel for models of its own, and one for all others, is run once for those of the command.
        free = {panel["task"] for panel in written if "models" not in panel}
        written = [panel for panel in written if "models" not in panel or panel["task"] not in free]
    panels = tuple(_panel(PANELS[kind], {**shared, **panel, **late}) for panel in written)
    if kind == "masked":
        _check_alike(path, panels)
    return Study(kind, path.stem, str(raw.get("title", path.stem)), panels)


def _check_alike(path: Path, panels: Sequence[Panel]) -> None:
    """Functions of one study share a probe, and its files are named by function and model."""
    if len({panel.task for panel in panels}) < len(panels):
        raise HeadcountError(f"{path}: two panels ask for the same function. Run them as studies of their own.")
    for key, value in vars(panels[0]).items():
        if key not in ("task", "title") and any(getattr(panel, key) != value for panel in panels):
            raise HeadcountError(
                f"{path}: the panels of a study of masked heads differ in {key}, which they have to share."
                " Run them as studies of their own."
            )


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
    if raw.get("kind", "kept") not in PANELS:
        raise HeadcountError(f"{path}: there is no kind {raw['kind']!r}.{did_you_mean(str(raw['kind']), PANELS)}")
    known = tuple(field.name for field in fields(PANELS[raw.get("kind", "kept")]))
    for name, table in tables:
        if not isinstance(table, dict):
            raise HeadcountError(f"{path}: {name} must be a table.")
        _check_table(f"{path}: {name}", table, known)
        if name.startswith("[[") and "task" not in table:
            raise HeadcountError(f"{path}: {name} has no task.")
    return raw


def _check_table(place: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    """Every key known, of its type and in its range; the error says where it stands."""
    for key, value in table.items():
        if key not in known:
            raise HeadcountError(f"{place}: unknown key {key!r}.{did_you_mean(key, known)}")
        if wanted := _wanted_type(key, value):
            raise HeadcountError(f"{place}: {key} must be {wanted}; this is {value!r}.")
        for choice in value if isinstance(value, list | tuple) else [value]:
            if key in CHOICES and choice not in CHOICES[key]:
                raise HeadcountError(f"{place}: {key} cannot be {choice!r}.{did_you_mean(str(choice), CHOICES[key])}")
        if key in RANGES and not RANGES[key][0](value):
            raise HeadcountError(f"{place}: {key} must be {RANGES[key][1]}; this is {value}.")


def _panel(kind: type[Panel], values: dict[str, Any]) -> Panel:
    """A panel of checked values; what is listed twice counts once."""
    listed: dict[str, Any] = {k: _listed(k, v) if isinstance(v, list) else v for k, v in values.items()}
    return kind(**listed)


def _listed(key: str, values: list[Any]) -> tuple[Any, ...]:
    return tuple(values if key.endswith("_rate") else dict.fromkeys(values))


def _wanted_type(key: str, value: Any) -> str | None:
    """What the value of a key should be, where it is not that."""
    if key == "ks":
        right = isinstance(value, str) or (isinstance(value, list) and all(type(k) is int for k in value))
        wanted = "the name of a grid or a list of whole numbers"
    elif key in FLAGS:
        right, wanted = isinstance(value, bool), "true or false"
    elif key in LISTS:
        kinds, wanted = LISTS[key]
        filled = bool(value) or key == "alphas"  # no push at all is a choice
        right = isinstance(value, list) and filled and all(isinstance(entry, kinds) for entry in value)
    else:
        kinds, wanted = SCALARS[key]
        right = isinstance(value, kinds) and not isinstance(value, bool)
    return None if right else wanted


def _says(key: str, value: Any) -> bool:
    """Whether a value says more than leaving its key out; no alphas at all do."""
    return value not in ("", ()) or key == "alphas"


def _fixed(name: str) -> str:
    """A local folder or file by its whole path, so that the study can be run again from anywhere."""
    return str(Path(name).resolve()) if name and Path(name).exists() else name


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    return repr(value)
