"""`headcount play`: the switchboard in the browser."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from .app import BaseOption, DeviceOption, DtypeOption, RevisionOption, app, load_model


@app.command()
def play(
    model: Annotated[
        str, typer.Argument(help="A named model (smollm2, tiny, …), a folder, an adapter of peft, or a hub id.")
    ] = "tiny",
    results: Annotated[Path, typer.Option(help="Folder with saved scores and roles.")] = Path("headcount-results"),
    studies: Annotated[Path, typer.Option(help="Folder for saved studies.")] = Path("headcount-play"),
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 for any free one.")] = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    revision: RevisionOption = None,
    base_model: BaseOption = None,
) -> None:
    """Switch heads off one at a time, in the browser. The page shows what the model says with and without them."""
    from ..view import server  # says what is missing before a model is loaded

    loaded, address = load_model(model, device, dtype, revision, base_model), server.Address.bound(port)
    from ..view.play import serve_switchboard

    def ready() -> None:
        print(f"The switchboard of {loaded.name} is at\n\n    {address.url}\n")
        print("It opens on this machine only, and only with this address. Press Ctrl-C to stop.", flush=True)
        if open_page:
            webbrowser.open(address.url)

    serve_switchboard(loaded, model, address, ready, results=results, studies=studies)
