"""The server behind the pages: who is heard, what is refused, and that it goes on and ends at once."""

import http.client
import json
import time
from contextlib import contextmanager

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headcount.core.errors import HeadcountError
from headcount.view.server import MAX_BYTES, TOKEN_HEADER, Address, Served, guarded, page


async def echo(request: Request) -> JSONResponse:
    return JSONResponse({"read": len(await request.body())})


def fail(request: Request) -> JSONResponse:
    raise ZeroDivisionError("by nothing")


def refuse(request: Request) -> JSONResponse:
    raise HeadcountError("There is no such thing.")


ROUTES = [
    Route("/", lambda request: page("<b>title</b>", "play")),
    Route("/api/echo", echo, methods=["POST"]),
    Route("/api/fail", fail),
    Route("/api/refuse", refuse),
]


@contextmanager
def serving(**options):
    address = Address.bound()
    served = Served(guarded(ROUTES, address, **options), address)
    try:
        yield address
    finally:
        served.stop()


@pytest.fixture(scope="module")
def address():
    with serving() as made:
        yield made


def ask(address, path, method="GET", body=None, host=None, **headers):
    """Status, headers and text of an answer; headers as one likes, which no library would send."""
    line = http.client.HTTPConnection("127.0.0.1", address.port, timeout=20)
    line.putrequest(method, path, skip_host=True)
    line.putheader("Host", host or address.hosts[0])
    for name, value in headers.items():
        line.putheader(name.replace("_", "-"), value)
    if body is not None and "Transfer_Encoding" not in headers and "Content_Length" not in headers:
        line.putheader("Content-Length", str(len(body)))
    line.endheaders()
    if body is not None:
        line.send(body)
    answer = line.getresponse()
    text = answer.read().decode()
    line.close()
    return answer.status, dict(answer.getheaders()), text


def own(address):
    return {TOKEN_HEADER.replace("-", "_"): address.token}


def test_it_listens_on_this_machine_alone(address):
    assert address.bound_to.getsockname()[0] == "127.0.0.1"
    assert address.url == f"http://127.0.0.1:{address.port}/?token={address.token}"
    assert len(address.token) >= 32
    assert address.token not in repr(address)


def test_the_token_opens_and_nothing_else_does(address):
    assert ask(address, f"/?token={address.token}")[0] == 200
    assert ask(address, "/", **own(address))[0] == 200
    for path in ("/", "/?token=", "/?token=wrong", f"/?token={address.token}x", "/api/fail"):
        status, _, text = ask(address, path)
        assert status == 403
        assert "Open the address that was printed" in text
    other = Address.bound()
    other.bound_to.close()
    assert other.token != address.token


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "[::1]"])
def test_another_host_name_is_refused_even_with_the_token(address, host):
    assert ask(address, "/", host=host, **own(address))[0] == 403


def test_a_request_from_another_site_is_refused_even_with_the_token(address):
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{address.port}", "http://127.0.0.1:1"):
        assert ask(address, "/api/echo", "POST", b"{}", Origin=origin, **own(address))[0] == 403
    for origin in address.hosts:
        assert ask(address, "/api/echo", "POST", b"{}", Origin=f"http://{origin}", **own(address))[0] == 200


def test_a_page_may_run_its_own_script_and_reach_nothing_else(address):
    _, headers, text = ask(address, f"/?token={address.token}")
    policy = headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "&lt;b&gt;title&lt;/b&gt;" in text
    assert "<b>" not in text
    with serving(framed=True) as framed:
        headers = ask(framed, f"/?token={framed.token}")[1]
        assert "frame-ancestors 'self' http://localhost:*" in headers["content-security-policy"]


def test_what_is_too_large_is_refused_and_the_server_goes_on(address):
    status, _, text = ask(address, "/api/echo", "POST", Content_Length=str(MAX_BYTES + 1), **own(address))
    assert status == 413
    assert f"{MAX_BYTES} bytes at most" in json.loads(text)["error"]
    piece = f"{MAX_BYTES // 2:x}\r\n".encode() + b"x" * (MAX_BYTES // 2) + b"\r\n"
    chunked = piece * 3 + b"0\r\n\r\n"
    status, _, text = ask(address, "/api/echo", "POST", chunked, Transfer_Encoding="chunked", **own(address))
    assert status == 413
    assert "bytes at most" in json.loads(text)["error"]
    status, _, text = ask(address, "/api/echo", "POST", b"x" * MAX_BYTES, **own(address))
    assert (status, json.loads(text)) == (200, {"read": MAX_BYTES})


def test_errors_are_a_sentence_each(address):
    for path, status, words in (
        ("/api/refuse", 400, "There is no such thing."),
        ("/api/fail", 500, "headcount has failed at this (by nothing), and goes on."),
        ("/api/nowhere", 404, "Not Found"),
        ("/api/echo", 405, "Method Not Allowed"),
    ):
        found, _, text = ask(address, path, **own(address))
        assert (found, json.loads(text)) == (status, {"error": words})


def test_files_outside_the_folder_of_scripts_are_not_served(address):
    for path in ("/static/../server.py", "/static/%2e%2e/html.py", "/static//etc/passwd", "/static/"):
        assert ask(address, path)[0] in (403, 404)


def test_a_port_that_is_taken_costs_a_sentence(address):
    with pytest.raises(HeadcountError, match=f"The port {address.port} of 127.0.0.1 cannot be used"):
        Address.bound(address.port)
    with pytest.raises(HeadcountError, match="cannot be used"):
        Address.bound(99_999)


def test_it_ends_at_once(address):
    begun = time.perf_counter()
    with serving() as other:
        line = http.client.HTTPConnection("127.0.0.1", other.port)  # stays open
        line.request("GET", f"/?token={other.token}")
        line.getresponse().read()
    assert time.perf_counter() - begun < 5
    with pytest.raises(OSError, match=r".*"):
        http.client.HTTPConnection("127.0.0.1", other.port, timeout=2).request("GET", "/")
    line.close()
