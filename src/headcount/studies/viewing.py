"""`headcount view`: the index over a folder of results and their reports, served to this machine alone."""

from collections.abc import Callable
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ..view.page.data import Report
from ..view.page.html import served_html
from ..view.server import Address, guarded, serve
from .index import index_of
from .report import PAGE, read_report

HOME = "/results/"
SHOWN = (".png", ".csv", ".json", ".toml", ".txt", ".md", ".pdf")
"""What a browser may show; anything else is saved. (An SVG brings styles of its own, which no page here may have.)"""


def serve_index(folder: Path, address: Address, ready: Callable[[], object]) -> None:
    """Until Ctrl-C."""
    serve(guarded(view_routes(folder), address), address, ready)


def view_routes(folder: Path) -> list[Route]:
    root = folder.resolve()

    def index(request: Request) -> Response:
        """Made anew every time, so that what has been finished meanwhile is there."""
        return _page(index_of(folder))

    def file(request: Request) -> Response:
        place = (root / request.path_params["path"]).resolve()
        if not place.is_relative_to(root) or not place.is_file() or _hidden(place.relative_to(root)):
            raise HTTPException(404, "There is no such file among the results.")
        if place.name == PAGE:
            return _page(read_report(place.parent))
        shown = "inline" if place.suffix in SHOWN else "attachment"
        return FileResponse(place, filename=place.name, content_disposition_type=shown)

    def home(request: Request) -> Response:
        """Results lie below a folder of their own, beside the server's own files."""
        return RedirectResponse(f"{HOME}?{request.url.query}")

    return [Route("/", home), Route(HOME, index), Route(f"{HOME}{{path:path}}", file)]


def _page(report: Report) -> Response:
    return HTMLResponse(served_html("report", report.title, report.to_json()))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
