"""The Typer application that the commands hang on, and what several of them share."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..models import Model

app = typer.Typer(
    help="How many attention heads does a behaviour need, and which ones?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
comet_app = typer.Typer(help="COMET, which compares answers, in an environment of its own.", no_args_is_help=True)
app.add_typer(comet_app, name="comet")
tasks_app = typer.Typer(help="List tasks and look at their examples.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")

ModelArgument = Annotated[str, typer.Argument(help="A named model (smollm2, tiny, …), a local folder, or a hub id.")]


def load_model(name: str) -> "Model":
    from ..progress import waiting

    with waiting(f"loading {name}"):
        from ..models import load

        return load(name)
