"""Commands that show results in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from .app import app, open_in_browser

OPEN_HELP = "Open it in the browser."
DEFAULT = Path("headcount-results")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The output folder of a study, or of sparsify.")],
    open_page: Annotated[bool, typer.Option("--open", help=OPEN_HELP)] = False,
) -> None:
    """Write report.html into the folder of a result, also of one that an older version made."""
    from ..studies.report import write_report

    page = write_report(folder)
    print(f"Report, to be opened in a browser: {page}")
    if open_page:
        open_in_browser(page.resolve().as_uri())


@app.command()
def view(
    folder: Annotated[Path, typer.Argument(help="A folder with results in it or below it.")] = DEFAULT,
    open_page: Annotated[bool, typer.Option("--open", help=OPEN_HELP)] = False,
) -> None:
    """Write index.html, a page over all results in a folder: pictures, a search, two results side by side."""
    from ..studies.index import write_index

    page, count = write_index(folder)
    print(f"{count} {'result' if count == 1 else 'results'}, to be opened in a browser: {page}")
    if open_page:
        open_in_browser(page.resolve().as_uri())
