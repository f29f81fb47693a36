"""A small web server for headcount's pages: on this machine alone, and for those alone who have the printed address.

- It listens on 127.0.0.1. The address that it prints holds a random token; a page finds it in its own address
  (`?token=…`) and sends it with every request (`X-Headcount-Token`). Scripts and styles (`/static/`) need none: they
  say nothing that the package does not.
- `Host` must be this server, or another site could point its own name here; so must `Origin`, where there is one.
- A page may load and reach this server and nothing else, and runs no script that stands in its text.
- What is too large is refused before it is read. An error is one sentence, `{"error": …}`, and the server goes on.
"""

import secrets
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import FrameType
from urllib.parse import parse_qs

from ..core.errors import HeadcountError, in_short

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import BaseRoute, Mount
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise HeadcountError("Pages that are served need starlette and uvicorn: pip install 'headcount[page]'") from error

STATIC = Path(__file__).parent / "page" / "static"
"""Scripts and styles of all pages, as `make page` builds them."""
HOST = "127.0.0.1"
TOKEN_HEADER = "X-Headcount-Token"
MAX_BYTES = 256 * 1024
"""Of a request: some hundred times what a page sends."""
LONGEST_ERROR = 300
NOTEBOOKS = "'self' http://localhost:* http://127.0.0.1:* vscode-webview:"
"""Who may show a page inside its own, where that is asked for."""


@dataclass(frozen=True)
class Address:
    """Where a server listens, and what one has to know to be heard."""

    bound_to: socket.socket = field(repr=False)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @classmethod
    def bound(cls, port: int = 0) -> "Address":
        """Of a free port, or of the one that is asked for."""
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, port))
            made.listen(128)  # who comes before the server has begun waits, and is not refused
        except (OSError, OverflowError) as error:
            made.close()
            raise HeadcountError(
                f"The port {port} of {HOST} cannot be used ({in_short(error, 80)}). Name another one, or 0 for any."
            ) from error
        return cls(made)

    @property
    def port(self) -> int:
        return int(self.bound_to.getsockname()[1])

    @property
    def hosts(self) -> tuple[str, str]:
        return f"{HOST}:{self.port}", f"localhost:{self.port}"

    @property
    def url(self) -> str:
        """What is printed."""
        return f"http://{HOST}:{self.port}/?token={self.token}"


@dataclass(frozen=True)
class Guard:
    """Stands before an application, and hands on what may pass."""

    app: ASGIApp
    address: Address
    framed: bool = False  # whether a notebook may show the page in a cell
    max_bytes: int = MAX_BYTES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":  # nothing here speaks WebSocket
            return await send({"type": "websocket.close", "code": 1008})
        refused = self._refusal(scope)
        if refused is not None:
            return await refused(scope, receive, self._with_headers(send))
        await self.app(scope, self._limited(receive), self._with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), str(scope["path"])
        own = [f"http://{host}" for host in self.address.hosts]
        if headers.get("host") not in self.address.hosts:
            return _sentence(path, 403, f"This server is {self.address.hosts[0]} and answers to no other name.")
        if headers.get("origin") not in (None, *own):
            return _sentence(path, 403, "Another site has asked, and this server answers its own pages alone.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.max_bytes:
            return _too_large(path, self.max_bytes)
        if path.startswith("/static/"):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = headers.get(TOKEN_HEADER) or (query.get("token") or [""])[0]
        if not secrets.compare_digest(given.encode(), self.address.token.encode()):
            return _sentence(path, 403, "The token is missing or of another server. Open the address that was printed.")
        return None

    def _limited(self, receive: Receive) -> Receive:
        """For bodies that do not say their length."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.max_bytes:
                raise HTTPException(413, f"A request may have {self.max_bytes} bytes at most, and this one has more.")
            return message

        return counted

    def _with_headers(self, send: Send) -> Send:
        ancestors = NOTEBOOKS if self.framed else "'none'"
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self';"
            f" connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
        )

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = policy
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"  # with none at all, browsers hide the origin too
                headers["Cache-Control"] = "no-store"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
            await send(message)

        return with_headers


def _sentence(path: str, status: int, words: str) -> Response:
    """For a page's script as JSON, for a person as text."""
    return JSONResponse({"error": words}, status) if path.startswith("/api/") else PlainTextResponse(words, status)


def _too_large(path: str, most: int) -> Response:
    return _sentence(path, 413, f"A request may have {most} bytes at most, and this one has more or does not say.")


async def _told(request: Request, error: Exception) -> Response:
    """What went wrong, as one sentence."""
    if isinstance(error, HTTPException):
        return _sentence(request.url.path, error.status_code, error.detail)
    return _sentence(request.url.path, 400 if isinstance(error, HeadcountError) else 500, in_words(error))


def in_words(error: Exception) -> str:
    """One sentence that is never long and always text, whatever came."""
    said = in_short(error, LONGEST_ERROR)
    said = said if isinstance(error, HeadcountError) else f"headcount has failed at this ({said[:160]}), and goes on."
    return said.encode(errors="replace").decode()


def guarded(routes: Sequence[BaseRoute], address: Address, *, framed: bool = False) -> ASGIApp:
    """An application of these routes and of `/static/`, behind its guard."""
    handlers = {HTTPException: _told, HeadcountError: _told, Exception: _told}
    static = Mount("/static", StaticFiles(directory=STATIC, check_dir=False))
    return Guard(Starlette(routes=[*routes, static], exception_handlers=handlers), address, framed)


def page(title: str, script: str) -> Response:
    """An empty page that a script of `/static/` fills, with the style of the same name."""
    return HTMLResponse(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f'<link rel="stylesheet" href="/static/{script}.css">\n'
        f'<script src="/static/{script}.js" defer></script>\n</head>\n<body>\n<div id="page"></div>\n'
        "<noscript>This page needs JavaScript.</noscript>\n</body>\n</html>\n"
    )


class _Server(uvicorn.Server):
    """Ends at once: open streams are not waited for."""

    by_hand = False
    """Whether it was Ctrl-C that ended it."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.force_exit = True
        self.by_hand = sig == signal.SIGINT


def _server(app: ASGIApp) -> _Server:
    return _Server(uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off", server_header=False))


def serve(app: ASGIApp, address: Address, ready: Callable[[], object] = lambda: None) -> None:
    """Answer until Ctrl-C; `ready` is called before the first request is taken."""
    ready()
    server = _server(app)
    server.run(sockets=[address.bound_to])
    if server.by_hand:  # asyncio passes it on only where a task is still there to be cancelled
        raise KeyboardInterrupt


class Served:
    """A server in a thread of its own, until `stop`."""

    def __init__(self, app: ASGIApp, address: Address) -> None:
        self.url = address.url
        self._server = _server(app)
        run = lambda: self._server.run(sockets=[address.bound_to])  # noqa: E731
        self._thread = threading.Thread(target=run, name="headcount server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        with suppress(RuntimeError):  # from the thread itself
            self._thread.join(10)
