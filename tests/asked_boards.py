"""Asking a switchboard over its server, as its page does."""

import json
import urllib.error
import urllib.request
from contextlib import contextmanager

import headcount as hc
from headcount.view.server import TOKEN_HEADER

PROMPT = "When Mary and John went to the store, John gave a book to"


def post(board, path, status=200, **body):
    """The JSON of an answer, or its lines."""
    address, token = board.url.split("/?token=")
    data = body.pop("data", None) or json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/api/{path}", data, {TOKEN_HEADER: token})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            found, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        found, text = error.code, error.read().decode()
    assert found == status, text
    lines = [json.loads(line) for line in text.splitlines()]
    return lines if path in ("continue", "ranking") and status == 200 else lines[0]


@contextmanager
def playing(model, **options):
    board = hc.play(model, **options)
    try:
        yield board
    finally:
        board.stop()
