"""The Typer application that the commands hang on, and what several of them share."""

import json
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from .. import __version__
from ..core.progress import waiting
from ..core.words import SPLITS_BY, DtypeName
from ..view.tables import print_table

if TYPE_CHECKING:
    from typer._click.core import Command, Context

    from ..models import Model


class StoppedError(Exception):
    """Ctrl-C, with what is worth knowing then; `main` prints it and exits with code 130."""


STARTED = time.monotonic()
"""When the command began, about."""
FIRST = ("run", "tasks", "methods", "check", "score", "sweep", "compare", "report", "view", "play", "export")
EXIT_CODES = (
    "Exit codes: 0 done; 1 a check failed, or an unexpected error, whose traceback is in a log file; 2 bad input;"
    " 130 interrupted with Ctrl-C."
)


METAVARS = {"int": "N", "float": "X", "path": "PATH", "list[int]": "N", "list[path]": "PATH"}
"""What stands for a value in the help, by what Typer would call it; for a text what its option says, or NAME."""
TEXTS = {
    "ADDRESS": ["--ray-address"],
    "DEVICE": ["--device"],
    "FILL": ["--fill"],
    "HEADS": ["--heads"],
    "LIST": ["--ks", "--alphas", "--target-open", "--free-rate", "--pulled-rate"],
    "METHOD": ["--method"],
    "METRIC": ["--metric"],
    "MODEL": ["--model", "--base-model", "--comet-model"],
    "ORDER": ["--order", "--by"],
    "PATH": ["--comet", "--python", "--questions", "--scores", "--text"],
    "PLACE": ["--on"],
    "REVISION": ["--revision"],
    "SIZE": ["--memory"],
    "TASK": ["--task", "--tasks"],
    "TYPE": ["--dtype"],
}
TEXT_OF = {option: metavar for metavar, options in TEXTS.items() for option in options}
"""One spelling for one option, whatever command it is of."""


class ByUse(TyperGroup):
    """Commands in the order in which people need them, each with one way to write what its options take."""

    def list_commands(self, ctx: "Context") -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        found = super().get_command(ctx, cmd_name)
        for parameter in found.params if found else ():
            if isinstance(parameter, TyperOption) and not parameter.is_flag:
                kind = parameter.display_type(ctx).strip("<>").partition(" ")[0]  # a range stands behind it
                parameter.metavar = METAVARS.get(kind) or TEXT_OF.get(parameter.opts[-1], "NAME")
            elif isinstance(parameter, TyperArgument):
                _name_plainly(parameter)
            if isinstance(parameter, TyperOption | TyperArgument):
                _say_default(parameter)
        return found


def _name_plainly(argument: TyperArgument) -> None:
    """MODEL, [MODEL] and FOLDERS..., where Typer would write {model}, model <str> and folders <list[Path]>."""
    argument.metavar = name = (argument.name or "").upper()
    usage = (name if argument.required else f"[{name}]") + "..." * (argument.nargs != 1)
    instead: dict[str, Callable[..., str | None]] = {
        "display_type_rich": lambda ctx: None,
        "_usage_display_name": lambda: usage,
    }
    for method, words in instead.items():
        setattr(argument, method, words)


def _say_default(parameter: TyperOption | TyperArgument) -> None:
    """In the words that options from settings have, where Typer would write [default: 40]; once, however often the
    command is looked up."""
    shown, parameter.show_default = parameter.show_default, False
    switch = isinstance(parameter, TyperOption) and parameter.is_flag and not parameter.secondary_opts
    if not shown or switch or parameter.default in (None, "", [], ()):
        return
    value = parameter.default
    if isinstance(value, bool) and isinstance(parameter, TyperOption):
        value = (parameter.opts if value else parameter.secondary_opts)[0]
    parameter.help = f"{parameter.help or ''} Default: {in_words(value)}.".strip()


def in_words(default: object) -> str:
    """A default as a user would write it; empty for none."""
    if default in (None, "", (), []) or str(default) == "PydanticUndefined":
        return ""
    if isinstance(default, list | tuple):
        return ", ".join(map(in_words, default))
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


# Plain help: in boxes, names of options would be cut and their texts be a few words wide in 80 columns.
LOOK: Any = {"cls": ByUse, "rich_markup_mode": None, "context_settings": {"max_content_width": 100}}
app = typer.Typer(**LOOK, no_args_is_help=True, pretty_exceptions_enable=False, epilog=EXIT_CODES)


def _group(name: str, help: str, bare: bool = False) -> typer.Typer:
    """Commands of one kind; `bare` where the name alone is one too."""
    made = typer.Typer(**LOOK, help=help, no_args_is_help=not bare)
    app.add_typer(made, name=name)
    return made


comet_app = _group("comet", "Install COMET, a metric for written answers. It gets an environment of its own.")
tasks_app = _group("tasks", "List tasks, look at their examples, check your own file.", bare=True)
cache_app = _group("cache", "Cached steps of finished runs: list, inspect, remove.")
export_app = _group("export", "Write results for other tools.", bare=True)
run_app = _group("run", "Run a study and draw its figure. A study is one of these, or a TOML file of your own.")
SplitOption = Annotated[
    str, typer.Option(help=f"What train and test do not share, of built-in pairs: {' or '.join(SPLITS_BY)}.")
]
DeviceOption = Annotated[str | None, typer.Option(help="Device: cpu, cuda or mps; by default the best one available.")]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        help="Precision of the weights; by default float32 on the CPU, elsewhere that of the checkpoint."
        f" One of {', '.join(sorted(filter(None, get_args(DtypeName))))}.",
    ),
]
RevisionOption = Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the hub.")]
BaseOption = Annotated[
    str | None, typer.Option(help="The model that an adapter goes on, where it is not where it was in training.")
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Allow lm-eval task files to run the Python code that they name.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no tables: print warnings and errors only.")
]
CountOption = Annotated[int, typer.Option("-n", "--n", help="Examples; half of them are scored, half are measured.")]
ModelArgument = Annotated[
    str,
    typer.Argument(help="A named model (smollm2, tiny, …), a folder, an adapter of peft, a GGUF file, or a hub id."),
]


def _say_version(asked: bool) -> None:
    if asked:
        print(f"headcount {__version__}")
        raise typer.Exit


@app.callback()
def headcount(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """How many attention heads does a behaviour need, and which ones?"""


def open_in_browser(address: str) -> None:
    """The user's own; where there is none, the address stands in the terminal anyway."""
    import webbrowser

    if not webbrowser.open(address):
        print(f"No browser was found here. Open {address}")


def trust(code: bool) -> None:
    """For the rest of the command."""
    if code:
        from ..tasks.task_code import allow_code

        allow_code()


def wake(*modules: str) -> None:
    """Import what takes seconds, torch and transformers with it, behind a spinner."""
    with waiting("starting"):
        for module in ("models", *modules):
            import_module(f"headcount.{module}")


def print_json(facts: object) -> None:
    print(json.dumps(facts, indent=1, ensure_ascii=False))


def print_rows(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], as_json: bool) -> None:
    """A table for people, or a list of objects with the same keys for scripts."""
    if as_json:
        return print_json([dict(zip(header, row, strict=True)) for row in rows])
    print_table(header, rows)


def load_model(
    name: str,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    base: str | None = None,
    bos: bool = False,
) -> "Model":
    wake()
    with waiting(f"loading {name}"):
        from ..models import load

        more: dict[str, Any] = {"revision": revision} if revision else {}
        return load(name, device=device, dtype=dtype, base=base, bos=bos, **more)
