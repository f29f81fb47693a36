"""The Typer application that the commands hang on, and what several of them share."""

from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__

if TYPE_CHECKING:
    from ..models import Model

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
comet_app = typer.Typer(help="COMET, which compares answers, in an environment of its own.", no_args_is_help=True)
app.add_typer(comet_app, name="comet")
tasks_app = typer.Typer(help="List tasks and look at their examples.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")
cache_app = typer.Typer(help="Finished steps, which later runs find again.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")
run_app = typer.Typer(
    help="Run a study and draw its figure: one of these, or a TOML file of your own.", no_args_is_help=True
)
app.add_typer(run_app, name="run")

ModelArgument = Annotated[str, typer.Argument(help="A named model (smollm2, tiny, …), a local folder, or a hub id.")]


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


def load_model(name: str) -> "Model":
    from ..core.progress import waiting

    with waiting(f"loading {name}"):
        from ..models import load

        return load(name)
