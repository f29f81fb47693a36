"""The Typer application that the commands hang on, and what several of them share."""

from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from .. import __version__
from ..core.progress import waiting
from ..core.words import SPLITS_BY, DtypeName

if TYPE_CHECKING:
    from ..models import Model

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _group(name: str, help: str, bare: bool = False) -> typer.Typer:
    """Commands of one kind; `bare` where the name alone is one too."""
    made = typer.Typer(help=help, no_args_is_help=not bare)
    app.add_typer(made, name=name)
    return made


comet_app = _group("comet", "COMET, which compares answers, in an environment of its own.")
tasks_app = _group("tasks", "List tasks, look at their examples, check your own.", bare=True)
cache_app = _group("cache", "Finished steps, which later runs find again.")
export_app = _group("export", "Write results for other tools.", bare=True)
run_app = _group("run", "Run a study and draw its figure: one of these, or a TOML file of your own.")
SplitOption = Annotated[
    str, typer.Option(metavar="|".join(SPLITS_BY), help="What train and test do not share, of built-in pairs.")
]
DeviceOption = Annotated[
    str | None, typer.Option(help="Where the model runs: cpu, cuda, mps; the best one by default.")
]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(filter(None, get_args(DtypeName))),
        help="Precision of the weights: float32 on the CPU, elsewhere the checkpoint's own by default.",
    ),
]
RevisionOption = Annotated[str | None, typer.Option(help="Of a model on the hub: a branch, tag or commit.")]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Let a task file of lm-eval run the Python code that it names.")
]
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
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and end.")
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


def load_model(
    name: str,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    bos: bool = False,
) -> "Model":
    with waiting(f"loading {name}"):
        from ..models import load

        more: dict[str, Any] = {"revision": revision} if revision else {}
        return load(name, device=device, dtype=dtype, bos=bos, **more)
