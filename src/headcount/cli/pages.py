"""Commands that show results in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from ..core.progress import waiting
from .app import app, open_in_browser, wake

OPEN_HELP = "Open it in the browser."
DEFAULT = Path("headcount-results")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The output folder of a study, or of sparsify.")],
    open_page: Annotated[bool, typer.Option("--open", help=OPEN_HELP)] = False,
) -> None:
    """Write report.html into the folder of a result. Results of older versions get one too."""
    wake("studies.report")
    from ..studies.report import write_report

    with waiting("writing the report"):
        page = write_report(folder)
    print(f"Report (open it in a browser): {page}")
    if open_page:
        open_in_browser(page.resolve().as_uri())


@app.command()
def view(
    folder: Annotated[Path, typer.Argument(help="A folder with results in it or below it.")] = DEFAULT,
    write: Annotated[bool, typer.Option("--write", help="Write index.html there, and serve nothing.")] = False,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 for any free one.")] = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help=OPEN_HELP)] = True,
) -> None:
    """Browse all results in a folder, in the browser. With thumbnails, a search, and two results side by side. Results
    that have no report.html are given one."""
    wake("studies.index")
    from ..studies.index import index_of, write_index

    if write:
        with waiting("reading the results"):
            page, count = write_index(folder)
        print(f"{_results(count)} (open in a browser): {page}")
        return
    from ..studies.viewing import serve_index
    from ..view import server  # says what is missing

    with waiting("reading the results"):
        found, address = index_of(folder), server.Address.bound(port)

    def ready() -> None:
        print(f"{_results(len(found.results))}: {address.url}", flush=True)
        print("It opens on this machine only, and only with this address. Press Ctrl-C to stop.", flush=True)
        if open_page:
            open_in_browser(address.url)

    serve_index(folder, address, ready)


def _results(count: int) -> str:
    return "1 result" if count == 1 else f"{count} results"
